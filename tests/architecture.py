"""The rooms and their arrows, from the imports; run as a program, it draws them in the page."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ROOT = REPOSITORY / "tools" / "bisectorch"
PAGE = REPOSITORY / "docs" / "architecture.md"
BEGIN, END = "<!-- arrows: begin -->", "<!-- arrows: end -->"


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


def drawn() -> str:
    """A line a room: which others it imports."""
    arrows: dict[str, set[str]] = {}
    for name, targets in EDGES.items():
        if name:
            here = arrows.setdefault(room(name), set())
            here |= {room(target) for target in targets} - {room(name)}
    rank = sorted(arrows, key=lambda each: (-len(arrows[each]), each))
    lines = [f"{each} -> {', '.join(sorted(arrows[each])) or 'nothing'}" for each in rank]
    return "\n".join(
        line for each in lines for line in textwrap.wrap(each, 100, subsequent_indent="    ")
    )


def page() -> str:
    """The page with the arrows as they are."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n```text\n{drawn()}\n```\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
