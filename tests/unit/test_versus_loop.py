"""The loop of a comparison, with a measurer that measures nothing."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from bisectorch.errors import UsageError
from bisectorch.model import (
    Block,
    Build,
    BuildEvent,
    End,
    Judgement,
    Observation,
    Outcome,
    Purpose,
    Route,
    Run,
    Session,
    Versus,
    Workload,
)
from bisectorch.search.verdict import SequentialJudge
from bisectorch.versus import SAME_BUILD, compare, conclude
from fakes import FakeRecorder, FakeReporter, line, session

OLD, NEW = line(2)
FAST, SLOW, STILL = (Workload(f"bench.time_{name}") for name in ("fast", "slow", "still"))
JUDGE = SequentialJudge(0.02, 0.95, 0.01)


@dataclass
class FakeBlocks:
    """Ratios by workload, with noise; faults by workload and side; a clock that runs along."""

    ratios: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[tuple[str, str], str] = field(default_factory=dict)
    sigma: float = 0.004
    run_seconds: float = 1.0
    stop_after: int | None = None
    now: float = 0.0
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    closed: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(5)

    def measure_in_turn(self, blocks: Sequence[Block]) -> Iterator[Observation]:
        """One block of each."""
        assert {block.purpose for block in blocks} == {Purpose.COMPARE}
        [name] = {block.name for block in blocks}
        self.calls.append((name, tuple(block.workload.name for block in blocks)))
        try:
            for block in blocks:
                for build in block.builds:
                    if self.stop_after == 0:
                        raise KeyboardInterrupt
                    if self.stop_after is not None:
                        self.stop_after -= 1
                    self.now += self.run_seconds
                    yield self._observe(block.workload, build, name)
        finally:
            self.closed += 1

    def _observe(self, workload: Workload, build: Build, block: str) -> Observation:
        reason = self.faults.get((workload.name, build.sha))
        if reason:
            outcome = Outcome.FAILED
            return Observation(workload.name, build.sha, outcome, (), reason, Purpose.COMPARE)
        level = self.ratios.get(workload.name, 1.0) if build.sha == NEW.sha else 1.0
        if level > 0:
            level *= math.exp(self._random.gauss(0, self.sigma))
        run = Run(level, f"{block}.0", (level,), 1, 0.0, self.run_seconds)
        return Observation(workload.name, build.sha, Outcome.MEASURED, (run,), "", Purpose.COMPARE)


def begun(*workloads: Workload, **more: object) -> Session:
    """A comparison that has not begun."""
    options = {"false_rate": "0.01", "old": "v1", "new": "v2"}
    return session((OLD, NEW), *workloads, smallest_step=0.02, options=options, **more)


def run(
    blocks: FakeBlocks,
    begin: Session,
    recorder: FakeRecorder | None = None,
    seconds: float = 60.0,
    keys: tuple[str, str] = ("a", "b"),
) -> Versus:
    """Compare to the end."""
    old, new = (
        Build(commit.sha, Route.OVERLAY, "", "python", key=key, seconds=0.5)
        for commit, key in zip((OLD, NEW), keys, strict=True)
    )
    return compare(
        begin,
        (old, new),
        measurer=blocks,
        judge=JUDGE,
        recorder=recorder or FakeRecorder(),
        reporter=FakeReporter(),
        seconds=seconds,
        clock=lambda: blocks.now,
    )


def test_each_workload_gets_its_answer_and_no_more_blocks_than_that() -> None:
    """A large step, none, and an improvement; the loop leaves out what is decided."""
    blocks = FakeBlocks({SLOW.name: 1.2, FAST.name: 0.8})
    found = run(blocks, begun(SLOW, FAST, STILL))
    slow, fast, still = found.comparisons
    assert (slow.judgement, slow.is_worse, slow.is_relevant) == (Judgement.DIFFERENT, True, True)
    assert (fast.judgement, fast.is_worse, fast.is_relevant) == (Judgement.DIFFERENT, False, True)
    assert (still.judgement, still.is_relevant) == (Judgement.SAME, False)
    assert slow.ratio == pytest.approx(1.2, rel=0.02)
    assert slow.ratio_interval[0] < slow.ratio < slow.ratio_interval[1]
    assert found.got_worse
    assert found.finished
    assert found.mean_ratio == pytest.approx((1.2 * 0.8) ** (1 / 3), rel=0.02)
    assert found.cost.builds == 2
    asked = [names for _, names in blocks.calls]
    assert asked[0] == (SLOW.name, FAST.name, STILL.name)
    assert all(set(later) <= set(earlier) for earlier, later in itertools.pairwise(asked))
    assert len({block for block, _ in blocks.calls}) == len(blocks.calls)


def test_time_that_is_up_leaves_unknown() -> None:
    """Noise of 5 % needs more than six runs."""
    blocks = FakeBlocks(sigma=0.05)
    found = run(blocks, begun(STILL), seconds=6.0)
    assert found.comparisons[0].judgement is Judgement.UNKNOWN
    assert found.finished
    assert not found.got_worse
    assert len(blocks.calls) == 3


def test_a_budget_ends_all_of_it_after_a_whole_block() -> None:
    """No side is left with a run that nothing is paired with."""
    blocks = FakeBlocks(sigma=0.05)
    recorder = FakeRecorder()
    run(blocks, begun(SLOW, STILL, budget_seconds=5.0), recorder)
    seen = [event for event in recorder.events if isinstance(event, Observation)]
    assert len(seen) == 6
    assert isinstance(recorder.events[-1], End)
    assert blocks.closed == len(blocks.calls)


def test_an_interrupted_comparison_goes_on_where_it_was() -> None:
    """Every run counts once; the end is the same as that of an undisturbed one."""
    recorder = FakeRecorder()
    with pytest.raises(KeyboardInterrupt):
        run(FakeBlocks({SLOW.name: 1.2}, stop_after=5), begun(SLOW, STILL), recorder)
    so_far = replace(begun(SLOW, STILL), events=tuple(recorder.events))
    assert not conclude(so_far, JUDGE).finished
    blocks = FakeBlocks({SLOW.name: 1.2})
    found = run(blocks, so_far, recorder)
    assert found.comparisons[0].judgement is Judgement.DIFFERENT
    assert found.finished
    assert sum(isinstance(event, BuildEvent) for event in recorder.events) == 2
    kept = replace(so_far, events=tuple(recorder.events))
    assert conclude(kept, JUDGE) == found
    blocks_of = [
        (event.workload, event.sha, event.runs[0].block)
        for event in recorder.events
        if isinstance(event, Observation)
    ]
    assert len(set(blocks_of)) == len(blocks_of)


def test_a_finished_comparison_is_not_measured_again() -> None:
    """Resuming it only reports."""
    recorder = FakeRecorder()
    first = run(FakeBlocks(), begun(STILL), recorder)
    again = FakeBlocks()
    done = replace(begun(STILL), events=tuple(recorder.events))
    assert run(again, done, FakeRecorder()) == first
    assert not again.calls


def test_a_benchmark_that_breaks_got_worse() -> None:
    """It ran before; asv counts that as well."""
    found = run(FakeBlocks(faults={(SLOW.name, NEW.sha): "boom"}), begun(SLOW, STILL))
    broken, still = found.comparisons
    assert (broken.is_relevant, broken.is_worse) == (True, True)
    assert broken.reason == "new side failed: boom"
    assert math.isnan(broken.ratio)
    assert still.judgement is Judgement.SAME
    assert found.got_worse


@pytest.mark.parametrize("reason", ["skipped", "boom"])
def test_a_benchmark_that_did_not_run_before_did_not_get_worse(reason: str) -> None:
    """Nor one that says of itself that it does not apply."""
    side = NEW if reason == "skipped" else OLD
    found = run(FakeBlocks(faults={(SLOW.name, side.sha): reason}), begun(SLOW, STILL))
    assert not found.got_worse
    assert found.comparisons[0].judgement is Judgement.UNKNOWN
    assert reason in found.comparisons[0].reason


def test_nothing_that_runs_before_is_an_error_of_the_request() -> None:
    """With the reason of the first."""
    faults = {(workload.name, OLD.sha): "no module" for workload in (SLOW, STILL)}
    with pytest.raises(UsageError, match=r"nothing can be measured at .*: no module"):
        run(FakeBlocks(faults=faults), begun(SLOW, STILL))


def test_one_build_for_both_is_not_measured() -> None:
    """They are the same files: same by a ratio of one."""
    blocks = FakeBlocks()
    recorder = FakeRecorder()
    found = run(blocks, begun(STILL), recorder, keys=("k", "k"))
    assert not blocks.calls
    assert (found.comparisons[0].judgement, found.comparisons[0].reason) == (
        Judgement.SAME,
        SAME_BUILD,
    )
    kept = conclude(replace(begun(STILL), events=tuple(recorder.events)), JUDGE)
    assert kept.comparisons == found.comparisons


def test_a_difference_below_what_matters_is_not_worse() -> None:
    """Found to be different at once, by 1.5 % where 2 % matter: it counts for nothing."""
    blocks = FakeBlocks({SLOW.name: 1.019}, sigma=0.0015)
    (found,) = run(blocks, begun(SLOW)).comparisons
    assert found.judgement is Judgement.DIFFERENT
    assert not found.is_relevant


@pytest.mark.parametrize(("new", "answer"), [(0.0, Judgement.DIFFERENT), (-1.0, Judgement.UNKNOWN)])
def test_tracked_numbers_may_reach_zero_but_below_there_is_no_ratio(
    new: float, answer: Judgement
) -> None:
    """Zero counts as half of the smallest; a negative number ends it with a reason."""
    blocks = FakeBlocks({STILL.name: new}, sigma=0.0)
    (found,) = run(blocks, begun(STILL)).comparisons
    assert found.judgement is answer
    assert bool(found.reason) == (answer is Judgement.UNKNOWN)
    assert len(blocks.calls) <= 5
