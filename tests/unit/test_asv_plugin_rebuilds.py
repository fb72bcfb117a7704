from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import pytest
from bisectorch.asv_plugin.rebuilds import measure_rebuilds, refuse_needless
from bisectorch.errors import Unbuildable, UsageError
from bisectorch.model import Build, Commit, Rebuilds, Route, Session, Workload
from fakes import (
    FakeMeasurer,
    FakeRebuilder,
    FakeRecorder,
    FakeReporter,
    build_name,
    line,
    session,
)

WORKLOAD = Workload("a.time_x")


@dataclass
class Yard(FakeRebuilder):
    """A ladder that builds everything, or says why not."""

    compiles: bool = True
    reason: str = ""

    def provide(self, commit: Commit) -> Build:
        """The usual build."""
        return Build(commit.sha, Route.CACHED, "", "python")

    def rebuild(self, commit: Commit, salt: int) -> Build:
        """One more."""
        if self.reason:
            raise Unbuildable(self.reason)
        return super().rebuild(commit, salt)


def asked(count: int, *workloads: Workload) -> Session:
    """A session that wants so many rebuilds."""
    return session(line(3), *(workloads or (WORKLOAD,)), options={"rebuilds": str(count)})


def measurer(
    count: int, spread: float, sigma: float = 0.002, **more: object
) -> tuple[FakeMeasurer, list[float]]:
    """Levels of each build, which spread so far; and the logs of these levels."""
    rng = random.Random(5)
    logs = [rng.gauss(0, spread) for _ in range(count + 1)]
    sha = line(3)[0].sha
    levels = {build_name(sha, n): 1e-5 * math.exp(log) for n, log in enumerate(logs)}
    names = ("a.time_x", "a.time_y")
    fake = FakeMeasurer(dict.fromkeys(names, levels), sigma=sigma, **more)  # type: ignore[arg-type]
    return fake, logs


def run(wanted: Session, yard: Yard, fake: FakeMeasurer) -> tuple[list[Rebuilds], FakeReporter]:
    """What was recorded, and what was said."""
    recorder, reporter = FakeRecorder(), FakeReporter()
    found = list(measure_rebuilds(wanted, yard, fake, recorder, reporter))
    assert recorder.events == found
    return found, reporter


def test_the_spread_between_builds_is_measured() -> None:
    """For every workload, with each build's level, the usual one first."""
    fake, logs = measurer(20, 0.01)
    workloads = (WORKLOAD, replace(WORKLOAD, benchmark="a.time_y"))
    found, reporter = run(asked(20, *workloads), Yard(), fake)
    assert [each.workload for each in found] == ["a.time_x", "a.time_y"]
    mean = sum(logs) / len(logs)
    truth = math.sqrt(sum((log - mean) ** 2 for log in logs) / 20)
    for each in found:
        assert each.sigma == pytest.approx(truth, rel=0.1)
        assert len(each.levels) == 21
        first, last = each.levels[0], each.levels[-1]
        assert last - first == pytest.approx(logs[-1] - logs[0], abs=0.004)
    assert "builds of one commit spread by" in reporter.findings[0]


def test_what_is_known_is_not_built_again() -> None:
    """A resumed session has it in its log."""
    wanted = asked(2)
    known = Rebuilds("a.time_x", line(3)[0].sha, (0.0, 0.1), 6, 0.05)
    again = Session(wanted.header, (known,))
    fake, _ = measurer(2, 0.01)
    assert run(again, Yard(reason="must not be asked"), fake)[0] == []
    assert run(asked(0), Yard(reason="must not be asked"), fake)[0] == []


def test_builds_that_fail_tell_nothing() -> None:
    """The search goes on without; it is said."""
    fake, _ = measurer(2, 0.01)
    found, reporter = run(asked(2), Yard(reason="gcc failed"), fake)
    assert found == []
    assert reporter.findings == [f"{line(3)[0].sha[:10]} cannot be built again: gcc failed"]
    name = build_name(line(3)[0].sha, 1)
    lame, _ = measurer(2, 0.01, unimportable={name: "no"})
    assert run(asked(2), Yard(), lame)[0] == []


def test_needless_rebuilds_are_refused() -> None:
    """Before anything is done."""
    refuse_needless(0, Yard(compiles=False))
    refuse_needless(2, Yard())
    for count in (1, -3):
        with pytest.raises(UsageError, match="write 2 or more"):
            refuse_needless(count, Yard())
    with pytest.raises(UsageError, match="nothing is compiled here"):
        refuse_needless(3, Yard(compiles=False))
