"""What a workload's trace says of commits that were not measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from bisectorch.explain.reach import reached
from bisectorch.explain.sources import installed
from bisectorch.knowledge import (
    EXECUTED,
    IMPORTED,
    PREPARED,
    PRESENT,
    WEIGHTS,
    Knowledge,
    Search,
    reach_weight,
)
from bisectorch.model import Build, Commit, PathClass, Route, Trace, Workload
from profiles import call, profile, python

FIRST = Trace("w", "a", ("pkg/a.py",), ("pkg/set.py",), ("pkg/imp.py",), ("pkg/idle.py",))


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["pkg/a.py"], EXECUTED),
        (["pkg/set.py"], PREPARED),
        (["pkg/imp.py"], IMPORTED),
        (["pkg/idle.py"], PRESENT),
        (["pkg/idle.py", "pkg/imp.py"], IMPORTED),
        (["pkg/unheard_of.py"], EXECUTED),
        ([], PRESENT),
    ],
)
def test_a_commit_weighs_what_its_weightiest_file_does(paths: list[str], expected: float) -> None:
    """And a file that no traced build has says nothing against its commit."""
    assert reach_weight(paths, [FIRST]) == expected


def test_what_only_one_end_reaches_counts() -> None:
    """A file executed at either end is executed; one that came between the ends is unknown."""
    last = Trace("w", "b", ("pkg/idle.py",), (), (), ("pkg/a.py",))
    assert reach_weight(["pkg/idle.py"], [FIRST, last]) == EXECUTED
    assert reach_weight(["pkg/between.py"], [FIRST, last]) == EXECUTED


def test_without_a_trace_nothing_is_said() -> None:
    """As before there were any."""
    assert reach_weight(["pkg/a.py"], []) == EXECUTED


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
        "w", "a", ("pkg/a.py",), ("pkg/set.py",), ("src/pkg/imp.py",), ("pkg/idle.py",)
    )


def test_a_repositorys_path_is_found_in_the_tree() -> None:
    """By the longest end that they share."""
    known = ["pkg/a.py", "a.py", "other/a.py"]
    assert installed("src/pkg/a.py", known) == "pkg/a.py"
    assert installed("pkg/a.py", known) == "pkg/a.py"
    assert installed("lib/b.py", known) == "lib/b.py"


def test_evidence_weighs_python_commits_by_what_runs() -> None:
    """Native and irrelevant commits keep their class's weight; without a trace all do."""

    def commit(name: str, path_class: PathClass, *paths: str) -> Commit:
        return Commit(name, (), "A", 0, "s", paths, path_class)

    line = (
        commit("a", PathClass.PYTHON, "pkg/a.py"),
        commit("b", PathClass.PYTHON, "pkg/a.py", "docs/x.rst"),
        commit("c", PathClass.PYTHON, "pkg/idle.py", "docs/x.rst"),
        commit("d", PathClass.NATIVE, "pkg/idle.py", "pkg/x.c"),
        commit("e", PathClass.IRRELEVANT, "docs/x.rst"),
    )
    search = Search(Workload("w"), line)
    knowledge = Knowledge((), lambda runs: {}, lambda runs: ())
    assert set(knowledge.evidence(search).weights[:4]) == {1.0}
    knowledge.add(FIRST)
    native, irrelevant = WEIGHTS[PathClass.NATIVE], WEIGHTS[PathClass.IRRELEVANT]
    assert knowledge.evidence(search).weights == (
        EXECUTED,
        EXECUTED,
        PRESENT,
        native,
        irrelevant,
    )
