"""What a workload's trace says of commits that were not measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from bisectorch.explain import weight
from bisectorch.explain.reach import EXECUTED, IDLE, IMPORTED, PREPARED, reached
from bisectorch.explain.sources import installed
from bisectorch.model import Build, Route, Trace
from profiles import call, profile, python

FIRST = Trace("w", "a", ("pkg/a.py",), ("pkg/set.py",), ("pkg/imp.py",), ("pkg/idle.py",))


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["pkg/a.py"], EXECUTED),
        (["pkg/set.py"], PREPARED),
        (["pkg/imp.py"], IMPORTED),
        (["pkg/idle.py"], IDLE),
        (["pkg/idle.py", "pkg/imp.py"], IMPORTED),
        (["src/pkg/idle.py"], IDLE),
        (["pkg/unheard_of.py"], EXECUTED),
        ([], IDLE),
    ],
)
def test_a_commit_weighs_what_its_weightiest_file_does(paths: list[str], expected: float) -> None:
    """And a file that no traced build has says nothing against its commit."""
    assert weight(paths, [FIRST]) == expected


def test_what_only_one_end_reaches_counts() -> None:
    """A file executed at either end is executed; one that came between the ends is unknown."""
    last = Trace("w", "b", ("pkg/idle.py",), (), (), ("pkg/a.py",))
    assert weight(["pkg/idle.py"], [FIRST, last]) == EXECUTED
    assert weight(["pkg/between.py"], [FIRST, last]) == EXECUTED


def test_without_a_trace_nothing_is_said() -> None:
    """As before there were any."""
    assert weight(["pkg/a.py"], []) == EXECUTED


def test_a_trace_keeps_what_matters(tmp_path: Path) -> None:
    """All that runs; of what is imported, or lies idle, only what the range changes."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "idle.py").touch()
    seen = profile(
        call(python("f", "pkg/a.py"), 1, 1e-6, call(python("g", "x.py", own=False), 1, 0))
    )
    seen = seen.__class__(
        **{
            **seen.__dict__,
            "prepared": ("pkg/a.py", "pkg/set.py"),
            "imported": ("pkg/a.py", "pkg/imp.py", "pkg/unchanged.py"),
        }
    )
    build = Build("a", Route.CACHED, str(tmp_path), "python")
    changed = ["pkg/a.py", "src/pkg/imp.py", "pkg/idle.py", "pkg/not_here.py"]
    trace = reached(seen, build, "w", changed)
    assert trace == Trace(
        "w", "a", ("pkg/a.py",), ("pkg/set.py",), ("pkg/imp.py",), ("pkg/idle.py",)
    )


def test_a_repositorys_path_is_found_in_the_tree() -> None:
    """By the longest end that they share."""
    known = ["pkg/a.py", "a.py", "other/a.py"]
    assert installed("src/pkg/a.py", known) == "pkg/a.py"
    assert installed("pkg/a.py", known) == "pkg/a.py"
    assert installed("lib/b.py", known) == "lib/b.py"
