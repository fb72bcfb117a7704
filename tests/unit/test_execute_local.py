"""Builds side by side on this machine, and what ends them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bisectorch.build import process
from bisectorch.build.process import CappedLog, Ended, ending_all
from bisectorch.build.source import Busy, Made, build_by_any
from bisectorch.errors import EnvironmentFailure
from bisectorch.execute import LocalExecutor
from bisectorch.model import Build, Commit, Quote, Route
from fakes import FakeProvider, line


@dataclass
class Meeting:
    """Builds that end when as many as expected are under way."""

    parties: int
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.parties)

    def quote(self, commit: Commit) -> Quote:
        """Not asked."""
        raise NotImplementedError

    def provide(self, commit: Commit) -> Build:
        """Wait for the others."""
        self.barrier.wait(timeout=30)
        return Build(commit.sha, Route.SOURCE, "", "python")


def test_as_many_builds_as_were_asked_for_run_at_once() -> None:
    """Each waits for the other: one at a time would never end."""
    commits = line(4)
    built = dict(LocalExecutor(Meeting(2), 2).build(commits))
    assert set(built) == set(commits)
    assert all(isinstance(each, Build) for each in built.values())


def test_one_at_a_time_keeps_the_order() -> None:
    """And a fault is yielded in its build's place."""
    commits = line(3)
    provider = FakeProvider(broken={commits[1].sha: "gcc failed"})
    found = list(LocalExecutor(provider).build(commits))
    assert [commit for commit, _ in found] == list(commits)
    assert str(found[1][1]) == "gcc failed"


def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    """A command that would run for an hour, and the builds that had not begun."""
    begun = threading.Event()
    ended = []

    class Slow:
        """One build is quick, the others take an hour."""

        def quote(self, commit: Commit) -> Quote:
            """Not asked."""
            raise NotImplementedError

        def provide(self, commit: Commit) -> Build:
            """Run a command."""
            if commit == commits[0]:
                assert begun.wait(30)
                return Build(commit.sha, Route.SOURCE, "", "python")
            begun.set()
            with CappedLog(tmp_path / commit.sha) as log:
                try:
                    process.run(["sleep", "3600"], log, cwd=tmp_path, environment={"PATH": "/bin"})
                except Ended:
                    ended.append(commit)
                    raise
            raise AssertionError("it was not ended")

    commits = line(6)
    began = time.monotonic()
    builds = LocalExecutor(Slow(), 2, ending_all).build(commits)
    next(builds)
    builds.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 60
    assert 1 <= len(ended) <= 2
    with CappedLog(tmp_path / "after") as log:
        assert process.run(["true"], log, cwd=tmp_path, environment={"PATH": "/bin"}) == 0


def test_a_command_begun_while_all_end_is_ended(tmp_path: Path) -> None:
    """Its failure is nobody's fault, so that nothing is remembered of it."""
    with ending_all(), CappedLog(tmp_path / "log") as log, pytest.raises(EnvironmentFailure):
        process.run(["sleep", "60"], log, cwd=tmp_path, environment={"PATH": "/bin"})


class FakeBuilder:
    """Busy so often, then builds."""

    def __init__(self, name: str, busy: int) -> None:
        self.name = name
        self.busy = busy

    def build(self, *_: object, wait: bool = True) -> Made:
        """Say who built."""
        if self.busy and not wait:
            self.busy -= 1
            raise Busy
        return Made(self.name, 0.0, "")


@pytest.mark.parametrize(
    ("busy", "who"),
    [((0, 0), "one"), ((9, 0), "two"), ((2, 9), "one"), ((9, 2), "two"), ((9,), "one")],
)
def test_the_first_free_builder_builds(
    busy: tuple[int, ...], who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All busy: the first to be free. A single one is waited for by its lock."""
    monkeypatch.setattr("bisectorch.build.source.BUSY_SECONDS", 0.0)
    builders = [FakeBuilder(name, count) for name, count in zip(("one", "two"), busy, strict=False)]
    made = build_by_any(builders, "", (), tmp_path, tmp_path, print)  # type: ignore[arg-type]
    assert made.kind == who
