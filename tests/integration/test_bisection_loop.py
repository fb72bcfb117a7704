"""The whole loop with the real search and real block fitting, over fakes for everything slow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from bisectorch.bisection import bisect
from bisectorch.conclusion import conclude
from bisectorch.errors import UsageError
from bisectorch.execute import LocalExecutor
from bisectorch.measure.noise import free_of_blocks, logs
from bisectorch.model import Commit, Findings, Outcome, PathClass, Session, Verdict, Workload
from bisectorch.search import BayesSearcher
from fakes import (
    FakeHistory,
    FakeMeasurer,
    FakeProvider,
    FakeRecorder,
    FakeReporter,
    commit,
    line,
    session,
)

SMALL = Workload("linear.Linear.time_forward", ("1", "10"), 0)
LARGE = Workload("linear.Linear.time_forward", ("10", "100"), 3)


def levels(commits: tuple[Commit, ...], steps: Mapping[int, float]) -> dict[str, float]:
    """The level of each commit, from relative steps by position."""
    level, by_sha = 5e-6, {}
    for index, each in enumerate(commits):
        level *= 1 + steps.get(index, 0.0)
        by_sha[each.sha] = level
    return by_sha


def run(start: Session, measurer: FakeMeasurer, **seams: object) -> Findings:
    """One bisection to its end."""
    provider = seams.pop("provider", FakeProvider())
    kept = {
        "history": FakeHistory(),
        "provider": provider,
        "executor": LocalExecutor(provider),  # type: ignore[arg-type]
        "searcher": BayesSearcher(0.03, 0.95),
        "recorder": FakeRecorder(),
        "reporter": FakeReporter(),
        "free_of_blocks": free_of_blocks,
        "logs": logs,
        "clock": lambda: 0.0,
    }
    return bisect(start, measurer=measurer, **{**kept, **seams})  # type: ignore[arg-type]


def found(findings: Findings, index: int = 0) -> list[str]:
    """The culprits' object names, oldest first."""
    order = {c.sha: i for i, c in enumerate(findings.range.line)}
    shas = [(c.merge or c.commit).sha for c in findings.workloads[index].culprits]
    return sorted(shas, key=order.__getitem__)


def test_every_culprit_of_both_signs_is_found() -> None:
    """Five steps of both signs in sixty commits, none invented."""
    commits = line(60)
    steps = {8: 0.4, 21: 0.2, 33: -0.3, 44: 0.06, 52: -0.1}
    findings = run(session(commits, SMALL), FakeMeasurer({SMALL.name: levels(commits, steps)}))
    assert found(findings) == [commits[i].sha for i in sorted(steps)]
    by_sha = {c.commit.sha: c for c in findings.workloads[0].culprits}
    for position, step in steps.items():
        low, high = by_sha[commits[position].sha].ratio_interval
        assert low - 0.02 <= 1 + step <= high + 0.02
    sizes = [abs(math.log(c.ratio)) for c in findings.workloads[0].culprits]
    assert sizes == sorted(sizes, reverse=True)


def test_nothing_changed_is_an_answer() -> None:
    """No culprit, and a detection limit within the smallest step."""
    commits = line(40)
    findings = run(session(commits, SMALL), FakeMeasurer({SMALL.name: levels(commits, {})}))
    assert findings.workloads[0].verdict is Verdict.NO_CHANGE
    assert not findings.workloads[0].culprits
    assert findings.workloads[0].limit <= 0.03
    assert findings.finished


def test_two_workloads_share_their_builds_and_get_a_verdict_each() -> None:
    """One changes, the other does not; no commit is built twice."""
    commits = line(30)
    provider = FakeProvider()
    measurer = FakeMeasurer(
        {SMALL.name: levels(commits, {11: 0.3}), LARGE.name: levels(commits, {})}
    )
    findings = run(session(commits, SMALL, LARGE), measurer, provider=provider)
    assert found(findings, 0) == [commits[11].sha]
    assert findings.workloads[1].verdict is Verdict.NO_CHANGE
    assert len(provider.provided) == len(set(provider.provided))


def test_workloads_that_ask_for_the_same_builds_share_their_start() -> None:
    """The same culprits as alone; blocks of one workload are never measured together."""
    commits = line(30)
    truth = {
        SMALL.name: levels(commits, {11: 0.3}),
        LARGE.name: levels(commits, {11: 0.3, 20: 0.2}),
    }
    measurer = FakeMeasurer(truth, unimportable={commits[15].sha: "SyntaxError"})
    findings = run(session(commits, SMALL, LARGE), measurer, sharer=measurer)
    assert found(findings, 0) == [commits[11].sha]
    assert found(findings, 1) == [commits[11].sha, commits[20].sha]
    assert {tuple(sorted(names)) for names in measurer.together} == {(SMALL.name, LARGE.name)}
    blocks = [
        (o.workload, run.block)
        for w in findings.workloads
        for o in w.observations
        for run in o.runs
    ]
    by_block = {block: {w for w, b in blocks if b == block} for _, block in blocks}
    assert all(len(workloads) == 1 for workloads in by_block.values())


def test_a_workload_alone_has_nothing_to_share() -> None:
    """All its processes are fresh."""
    commits = line(30)
    measurer = FakeMeasurer({SMALL.name: levels(commits, {11: 0.3})})
    findings = run(session(commits, SMALL), measurer, sharer=measurer)
    assert found(findings) == [commits[11].sha]
    assert not measurer.together


def test_broken_neighbours_join_the_credible_set() -> None:
    """Two commits before the culprit cannot be imported: the set holds them."""
    commits = line(30)
    broken = {commits[14].sha: "SyntaxError", commits[15].sha: "SyntaxError"}
    measurer = FakeMeasurer({SMALL.name: levels(commits, {16: 0.3})}, unimportable=broken)
    findings = run(session(commits, SMALL), measurer)
    (culprit,) = findings.workloads[0].culprits
    assert set(culprit.credible_set) == {commits[i].sha for i in (14, 15, 16)}


def test_what_cannot_be_imported_is_tried_once_for_all_workloads() -> None:
    """Two workloads of one benchmark file: a broken commit costs one attempt."""
    commits = line(30)
    broken = {commits[i].sha: "SyntaxError" for i in range(1, 29)}
    recorder = FakeRecorder()
    findings = run(
        session(commits, SMALL, LARGE),
        FakeMeasurer(
            {SMALL.name: levels(commits, {}), LARGE.name: levels(commits, {})},
            unimportable=broken,
        ),
        recorder=recorder,
    )
    tried = [e.sha for e in recorder.events if getattr(e, "outcome", None) is Outcome.UNIMPORTABLE]
    assert tried
    assert len(tried) == len(set(tried))
    for workload in findings.workloads:
        told = {o.sha for o in workload.observations if o.outcome is Outcome.UNIMPORTABLE}
        assert told == set(tried), "each report says why they were not measured"


def test_reports_show_values_freed_of_drift() -> None:
    """Blocks drift by 30 %; the runs shown spread by their own noise."""
    commits = line(12)
    measurer = FakeMeasurer({SMALL.name: levels(commits, {5: 0.3})}, sigma=0.005, drift=0.3)
    (culprit,) = run(session(commits, SMALL), measurer).workloads[0].culprits
    for side in (culprit.parent, culprit.child):
        assert max(side.values) / min(side.values) < 1.1
        assert min(side.values) < side.level * 1.02
        assert max(side.values) > side.level / 1.02


def test_unbuildable_commits_are_outcomes() -> None:
    """A commit without a build is skipped over, with its reason kept."""
    commits = line(20)
    provider = FakeProvider(broken={commits[10].sha: "gcc failed"})
    measurer = FakeMeasurer({SMALL.name: levels(commits, {5: 0.3})})
    findings = run(session(commits, SMALL), measurer, provider=provider)
    assert found(findings) == [commits[5].sha]


def test_a_merge_is_descended_into() -> None:
    """The culprit is the side branch's commit, and the merge is named with it."""
    trunk = list(line(20))
    side = (trunk[8], commit("s0", [trunk[8].sha]), commit("s1"), commit("s2"))
    trunk[12] = replace(trunk[12], parents=(trunk[11].sha, side[-1].sha))
    levels_of = levels(tuple(trunk), {12: 0.25})
    base = levels_of[trunk[8].sha]
    levels_of.update({side[1].sha: base, side[2].sha: base * 1.25, side[3].sha: base * 1.25})
    findings = run(
        session(trunk, SMALL),
        FakeMeasurer({SMALL.name: levels_of}),
        history=FakeHistory({trunk[12].sha: side}),
    )
    (culprit,) = findings.workloads[0].culprits
    assert culprit.commit.sha == side[2].sha
    assert culprit.merge is not None
    assert culprit.merge.sha == trunk[12].sha


@pytest.mark.parametrize("stop", [1, 7, 23, 40])
def test_resume_goes_on_without_measuring_again(stop: int) -> None:
    """Stopped anywhere, the resumed session reaches the same culprits and repeats no run."""
    commits = line(40)
    truth = {SMALL.name: levels(commits, {9: 0.3, 25: -0.2})}
    recorder = FakeRecorder()
    start = session(commits, SMALL)
    with pytest.raises(KeyboardInterrupt):
        run(start, FakeMeasurer(truth, stop_after=stop), recorder=recorder)
    assert sum(bool(getattr(e, "runs", ())) for e in recorder.events) == stop
    before = len(recorder.events)
    resumed = Session(start.header, tuple(recorder.events))
    findings = run(resumed, FakeMeasurer(truth, seed=2), recorder=recorder)
    assert found(findings) == [commits[9].sha, commits[25].sha]
    blocks = [(e.sha, r.block) for e in recorder.events for r in getattr(e, "runs", ())]
    assert len(blocks) == len(set(blocks))
    assert findings.cost.runs == len(blocks)
    assert len(recorder.events) > before


@pytest.mark.parametrize("stop", range(1, 13))
def test_a_resumed_session_never_adds_to_a_block_of_before(stop: int) -> None:
    """Stopped between blocks that share a start: what comes later is not paired with them."""
    commits = line(40)
    many = [Workload("linear.Linear.time_forward", (str(n),), n) for n in range(3)]
    truth = {w.name: levels(commits, {9: 0.3}) for w in many}
    recorder = FakeRecorder()
    start = session(commits, *many)
    first = FakeMeasurer(truth, stop_after=stop)
    with pytest.raises(KeyboardInterrupt):
        run(start, first, sharer=first, recorder=recorder)
    before = {(o.workload, r.block) for o in recorder.events for r in getattr(o, "runs", ())}
    stopped = len(recorder.events)
    second = FakeMeasurer(truth, seed=2)
    resumed = Session(start.header, tuple(recorder.events))
    findings = run(resumed, second, sharer=second, recorder=recorder)
    assert all(found(findings, index) == [commits[9].sha] for index in range(3))
    for event in recorder.events[stopped:]:
        assert not before & {
            (getattr(event, "workload", ""), r.block) for r in getattr(event, "runs", ())
        }


def test_many_workloads_do_not_spend_more_than_one_beyond_the_budget() -> None:
    """Their searches decide together, but not all of them on the same last seconds."""
    commits = line(60)
    many = [Workload("linear.Linear.time_forward", (str(n),), n) for n in range(12)]
    levels_of = {w.name: levels(commits, {31: 0.05}) for w in many}
    measurer = FakeMeasurer(levels_of, sigma=0.05)
    findings = run(session(commits, *many, budget_seconds=100.0), measurer, sharer=measurer)
    assert findings.cost.runs * 1.5 < 100 + 30
    assert {w.verdict for w in findings.workloads} <= {Verdict.INCONCLUSIVE, Verdict.CULPRITS}


def test_findings_follow_from_the_log_alone() -> None:
    """What the loop returned is what its log concludes."""
    commits = line(30)
    recorder = FakeRecorder()
    start = session(commits, SMALL)
    findings = run(start, FakeMeasurer({SMALL.name: levels(commits, {11: 0.3})}), recorder=recorder)
    again = conclude(
        Session(start.header, tuple(recorder.events)),
        BayesSearcher(0.03, 0.95),
        free_of_blocks=free_of_blocks,
        logs=logs,
    )
    assert again == findings


def test_a_baseline_that_cannot_be_measured_is_refused() -> None:
    """One clear line, not a culprit."""
    commits = line(10)
    measurer = FakeMeasurer(
        {SMALL.name: levels(commits, {})}, unimportable={commits[0].sha: "ImportError: no"}
    )
    with pytest.raises(UsageError, match=r"FROM .* cannot be measured: unimportable: ImportError"):
        run(session(commits, SMALL), measurer)


def test_a_budget_ends_the_search_without_inventing() -> None:
    """Out of time: inconclusive, and what it would take is said."""
    commits = line(60)
    measurer = FakeMeasurer({SMALL.name: levels(commits, {31: 0.05})}, sigma=0.05)
    findings = run(session(commits, SMALL, budget_seconds=20.0), measurer)
    assert findings.workloads[0].verdict is Verdict.INCONCLUSIVE
    assert findings.workloads[0].needed


def test_irrelevant_commits_are_not_built_for_nothing() -> None:
    """Of a range of documentation commits only a few are ever built."""
    commits = tuple(
        replace(c, path_class=PathClass.IRRELEVANT) if 0 < i < 49 else c
        for i, c in enumerate(line(50))
    )
    provider = FakeProvider()
    findings = run(
        session(commits, SMALL),
        FakeMeasurer({SMALL.name: levels(commits, {})}),
        provider=provider,
    )
    assert findings.workloads[0].verdict is Verdict.NO_CHANGE
    assert len(provider.provided) <= 4


def test_a_metric_that_reaches_zero_is_bisected() -> None:
    """A tracked value may be 0: the change is large, finite, and found."""
    commits = line(12)
    levels_of = {c.sha: 3.0 if i < 7 else 0.0 for i, c in enumerate(commits)}
    findings = run(
        session(commits, SMALL), FakeMeasurer({SMALL.name: levels_of}, sigma=0.0, drift=0.0)
    )
    assert found(findings) == [commits[7].sha]


def test_a_cancelling_pair_is_seen_where_builds_are_cheap() -> None:
    """A regression reverted three commits later, between equal ends: both are named."""
    commits = line(24)
    findings = run(
        session(commits, SMALL),
        FakeMeasurer({SMALL.name: levels(commits, {10: 0.2, 13: 1 / 1.2 - 1})}),
    )
    assert found(findings) == [commits[10].sha, commits[13].sha]
