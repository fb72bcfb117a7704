"""What runs inside a benchmarked build must parse on the oldest interpreter, Python 3.6."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
CHILDREN = sorted((ROOT / "tools/bisectorch/tables/children").glob("*.py"))
MEASURE = ROOT / "tools/bisectorch/measure"
OLD = [
    *BENCHMARKS,
    *CHILDREN,
    MEASURE / "worker.py",
    MEASURE / "inspector.py",
    MEASURE / "clocks.py",
]


@pytest.mark.parametrize("path", OLD, ids=lambda path: str(path.relative_to(ROOT)))
def test_parses_as_python_3_6(path):
    """No syntax that came after 3.6."""
    ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 6))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_nothing_but_torch_numpy_and_itself(path):
    """asv imports benchmarks/ alone, into an environment that holds only torch and numpy."""
    allowed = {"torch", "numpy", *sys.stdlib_module_names}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module.split(".")[0] in allowed
