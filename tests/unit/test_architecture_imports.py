"""The arrows of docs/architecture.md, held by walking every import, those in functions too."""

import subprocess
import sys

import pytest
from architecture import EDGES, MODULES, PAGE, drawn, imports, page, room

CORE = {"model", "seams", "errors"}
ROOMS = {"history", "build", "measure", "execute", "explain", "report", "replay", "tables"}
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "errors": set(),
    "seams": {"model"},
    "knowledge": {"model", "seams", "errors"},
    "conclusion": {"knowledge", "model", "seams", "errors"},
    "sharing": {"model"},
    "probing": {"knowledge", "sharing", *CORE},
    "bisection": {"conclusion", "probing", "knowledge", *CORE},
    "versus": CORE,
    "search": {"model", "errors"},
    **dict.fromkeys(ROOMS, CORE),
    "asv_plugin": {
        "bisection",
        "probing",
        "versus",
        "conclusion",
        "knowledge",
        "search",
        *ROOMS,
        *CORE,
    },
    "__main__": {"asv_plugin"},
}
THIRD_PARTY = {
    "search": {"numpy", "scipy"},
    "measure.worker": {"asv_runner"},
    "measure.inspector": {"asv_runner"},
    "measure.clocks": set(),
    "measure.reference": set(),
    "explain": {
        "asv_runner",
        "bisectorch_calls",
        "bisectorch_costs",
        "bisectorch_operators",
        "bisectorch_sources",
    },
}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_follow_the_arrows(name: str) -> None:
    """A module imports only its own room and the rooms its arrows point to."""
    if name == "":
        assert not EDGES[name]
        return
    allowed = ALLOWED[room(name)]
    wrong = {
        target
        for target in EDGES[name]
        if room(target) != room(name) and target not in allowed and room(target) not in allowed
    }
    assert not wrong, f"{name} must not import {sorted(wrong)}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_foreign_imports_stay_in_their_rooms(name: str) -> None:
    """Asv is imported by the plugin alone, torch by nobody, and pure rooms stay pure."""
    foreign = {
        top
        for imported in imports(MODULES[name])
        if (top := imported.split(".")[0]) != "bisectorch" and top not in sys.stdlib_module_names
    }
    assert "torch" not in foreign
    if room(name) not in {"asv_plugin", "__main__"}:
        assert "asv" not in foreign
    for where, allowed in THIRD_PARTY.items():
        if name == where or room(name) == where:
            assert foreign <= allowed, f"{name} must not import {sorted(foreign - allowed)}"


def test_there_are_no_cycles() -> None:
    """No module reaches itself by imports."""
    state: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if state.get(name) == 2:
            return
        assert state.get(name) != 1, f"import cycle: {' -> '.join((*path, name))}"
        state[name] = 1
        for target in sorted(EDGES[name]):
            # A package's own __init__ re-exports its modules; they do not import it back.
            if target != name and not name.startswith(f"{target}."):
                visit(target, (*path, name))
        state[name] = 2

    for name in sorted(MODULES):
        visit(name, ())


def test_the_walk_sees_this_package() -> None:
    """The test would notice an empty tree."""
    assert {"model", "seams", "bisection"} <= set(MODULES)
    assert "model" in EDGES["seams"]


def test_no_command_pays_for_what_few_need() -> None:
    """These take half a second each to load; they are imported where they are used."""
    code = "import sys, bisectorch.__main__; print(*sys.modules, sep='\\n')"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(told.stdout.splitlines())
    assert "bisectorch.search.verdict" in loaded
    assert not loaded & {"scipy.stats", "scipy.optimize", "matplotlib", "distributed", "torch"}


def test_the_page_shows_the_arrows_that_are_there() -> None:
    """`python tests/architecture.py` draws them anew."""
    assert page() == PAGE.read_text(encoding="utf-8")
    assert "asv_plugin -> " in drawn()
    assert "model -> nothing" in drawn()
