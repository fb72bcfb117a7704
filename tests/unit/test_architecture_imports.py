"""The arrows of docs/architecture.md, held by walking every import, those in functions too."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "tools" / "bisectorch"
CORE = {"model", "seams", "errors"}
ROOMS = {"history", "build", "measure", "execute", "explain", "report", "replay", "tables"}
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "errors": set(),
    "seams": {"model"},
    "knowledge": {"model", "seams", "errors"},
    "conclusion": {"knowledge", "model", "seams", "errors"},
    "bisection": {"conclusion", "knowledge", "build.plan", "search", *CORE},
    "versus": CORE,
    "search": {"model", "errors"},
    **dict.fromkeys(ROOMS, CORE),
    "asv_plugin": {"bisection", "versus", "conclusion", "knowledge", "search", *ROOMS, *CORE},
    "__main__": {"asv_plugin"},
}
THIRD_PARTY = {
    "search": {"numpy", "scipy"},
    "measure.worker": {"asv_runner"},
    "measure.inspector": {"asv_runner"},
    "measure.clocks": set(),
    "measure.reference": set(),
    "explain": {"asv_runner", "bisectorch_calls", "bisectorch_operators", "bisectorch_sources"},
}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name inside it ('' is the package)."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = path
    return found


def imports(path: Path) -> set[str]:
    """Absolute dotted names that a file imports anywhere; `from a import b` yields a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the arrows"
            module = node.module or ""
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


MODULES = modules()
EDGES = {
    name: {
        target
        for imported in imports(path)
        if imported.split(".")[0] == "bisectorch"
        and (target := imported.removeprefix("bisectorch").lstrip("."))
        and target in MODULES
    }
    for name, path in MODULES.items()
}


def room(name: str) -> str:
    """The room a module lives in."""
    return name.split(".")[0]


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
