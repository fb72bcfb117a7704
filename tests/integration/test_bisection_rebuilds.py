"""Fresh builds in the loop: asked for, measured beside the anchors, logged, found again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from bisectorch.bisection import bisect
from bisectorch.conclusion import conclude
from bisectorch.execute import LocalExecutor
from bisectorch.measure.noise import free_of_blocks, logs
from bisectorch.model import (
    BuildEvent,
    Commit,
    Findings,
    Observation,
    Outcome,
    Purpose,
    Session,
    Verdict,
    Workload,
)
from bisectorch.search import BayesSearcher
from fakes import (
    FakeHistory,
    FakeMeasurer,
    FakeProvider,
    FakeRebuilder,
    FakeRecorder,
    FakeReporter,
    build_name,
    line,
    session,
)

WORKLOAD = Workload("linear.Linear.time_forward", ("1", "10"), 0)
TRUTH, HIDES = 4, 3
"""The step, and the commit before it whose usual build lies half way up."""
USUAL = (0.985, 1.02, 0.99, 1.05, 0.99, 1.015, 1.0, 0.985)
FRESH = (0.99, 1.01, 1.0, 1.012, 0.988, 1.0, 1.006, 0.994)
"""What the layout of each commit's usual build makes of its level; and that of each salt."""


def native(count: int = len(USUAL)) -> tuple[Commit, ...]:
    """Commits with native files of their own."""
    return tuple(replace(each, fingerprint=str(i)) for i, each in enumerate(line(count)))


def levels(commits: tuple[Commit, ...]) -> Mapping[str, Mapping[str, float]]:
    """The level of each build of each commit."""
    found = {}
    for index, each in enumerate(commits):
        level = 5e-6 * (1.1 if index >= TRUTH else 1.0)
        for salt, factor in enumerate((USUAL[index], *FRESH)):
            found[build_name(each.sha, salt)] = level * factor
    return {WORKLOAD.name: found}


def run(
    start: Session,
    rebuilder: FakeRebuilder | None,
    recorder: FakeRecorder | None = None,
    reporter: FakeReporter | None = None,
    **measuring: object,
) -> Findings:
    """One bisection to its end."""
    provider = FakeProvider(seconds=5.0)
    commits = start.header.range.line
    return bisect(
        start,
        history=FakeHistory(),
        provider=provider,
        executor=LocalExecutor(provider),
        measurer=FakeMeasurer(levels(commits), sigma=0.004, **measuring),  # type: ignore[arg-type]
        searcher=BayesSearcher(0.03, 0.95),
        recorder=recorder or FakeRecorder(),
        reporter=reporter or FakeReporter(),
        free_of_blocks=free_of_blocks,
        logs=logs,
        rebuilder=rebuilder,
        clock=lambda: 0.0,
    )


def credible(findings: Findings) -> list[tuple[str, ...]]:
    """The credible set of each culprit."""
    return [culprit.credible_set for culprit in findings.workloads[0].culprits]


def answer(commits: tuple[Commit, ...]) -> list[tuple[str, ...]]:
    """The truth, as credible sets."""
    return [(commits[TRUTH].sha,)]


def observed(recorder: FakeRecorder) -> list[Observation]:
    """What was measured, in order."""
    return [event for event in recorder.events if isinstance(event, Observation)]


def test_fresh_builds_tell_what_one_build_hides() -> None:
    """One build a commit misleads; fresh builds are measured beside the ends, and say so."""
    commits = native()
    assert credible(run(session(commits, WORKLOAD), None)) != answer(commits)
    recorder, rebuilder = FakeRecorder(), FakeRebuilder()
    findings = run(session(commits, WORKLOAD), rebuilder, recorder)
    assert credible(findings) == answer(commits)
    fresh = [seen for seen in observed(recorder) if seen.purpose is Purpose.REBUILD and seen.salt]
    assert {(seen.sha, seen.salt) for seen in fresh} == set(rebuilder.rebuilt)
    assert build_name(commits[HIDES].sha, 1) in {build_name(x.sha, x.salt) for x in fresh}
    beside = {
        (x.sha, x.salt) for x in observed(recorder) if x.runs[0].block == fresh[0].runs[0].block
    }
    assert beside >= {(commits[0].sha, 0), (commits[-1].sha, 0)}
    made = [e for e in recorder.events if isinstance(e, BuildEvent) and e.salt]
    assert {(event.sha, event.salt) for event in made} == set(rebuilder.rebuilt)
    assert findings.cost.builds == len(commits) + len(rebuilder.rebuilt)
    sides = findings.workloads[0].culprits[0]
    for side in (sides.parent, sides.child):
        own = [x for x in observed(recorder) if x.sha == side.sha]
        assert len(side.values) == len(own), "runs of every build are told"
    start = session(commits, WORKLOAD)
    again = conclude(
        Session(start.header, tuple(recorder.events)),
        BayesSearcher(0.03, 0.95),
        free_of_blocks=free_of_blocks,
        logs=logs,
    )
    assert again == findings


@pytest.mark.parametrize("before_end", [1, 4, 9])
def test_resume_finds_fresh_builds_again(before_end: int) -> None:
    """Stopped amid them: no build is made twice, and no run of one is measured again."""
    commits = native()
    start = session(commits, WORKLOAD)
    whole = FakeRecorder()
    run(start, FakeRebuilder(), whole)
    recorder, rebuilder = FakeRecorder(), FakeRebuilder()
    stop = len(observed(whole)) - before_end
    with pytest.raises(KeyboardInterrupt):
        run(start, rebuilder, recorder, stop_after=stop)
    made = list(rebuilder.rebuilt)
    assert made
    findings = run(Session(start.header, tuple(recorder.events)), rebuilder, recorder, seed=2)
    assert credible(findings) == answer(commits)
    assert rebuilder.rebuilt[: len(made)] == made
    assert len(rebuilder.rebuilt) == len(set(rebuilder.rebuilt))
    runs = [(x.sha, x.salt, r.block) for x in observed(recorder) for r in x.runs]
    assert len(runs) == len(set(runs))
    salts = {(x.sha, x.salt) for x in observed(recorder) if x.salt}
    assert salts <= set(rebuilder.rebuilt)
    for sha, salt in salts:
        assert salt == 1 or (sha, salt - 1) in salts, "no salt is passed over"


def test_a_commit_that_cannot_be_built_again_is_not_asked_for_twice() -> None:
    """It stays measured; its reason is kept, and the search ends with what it has."""
    commits = native()
    broken = {each.sha: "gcc failed" for each in commits}
    recorder, reporter = FakeRecorder(), FakeReporter()
    findings = run(session(commits, WORKLOAD), FakeRebuilder(broken), recorder, reporter)
    failed = [e.sha for e in recorder.events if isinstance(e, BuildEvent) and e.reason]
    assert failed
    assert len(failed) == len(set(failed))
    assert f"{failed[0][:10]} cannot be built again: gcc failed" in reporter.findings
    assert findings.workloads[0].verdict is Verdict.CULPRITS
    assert not [x for x in findings.workloads[0].observations if x.outcome is not Outcome.MEASURED]


def test_a_fresh_build_that_cannot_be_imported_is_not_the_commit_s_fault() -> None:
    """The commit keeps the runs of its usual build, and is not built again."""
    commits = native()
    names = {build_name(each.sha, 1): "ImportError" for each in commits}
    recorder = FakeRecorder()
    findings = run(session(commits, WORKLOAD), FakeRebuilder(), recorder, unimportable=names)
    lame = [x.sha for x in observed(recorder) if x.outcome is Outcome.UNIMPORTABLE]
    assert lame
    assert len(lame) == len(set(lame))
    assert findings.workloads[0].verdict is Verdict.CULPRITS
    assert all(culprit.parent.values for culprit in findings.workloads[0].culprits)


def test_commits_of_one_native_build_are_never_built_again() -> None:
    """Nothing but their Python files tells them apart."""
    commits = tuple(replace(each, fingerprint="one") for each in native())
    rebuilder = FakeRebuilder()
    run(session(commits, WORKLOAD), rebuilder)
    assert rebuilder.rebuilt == []
