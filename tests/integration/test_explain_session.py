"""A session that looks into its builds: traces guide the search, culprits are explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from bisectorch.asv_plugin.explaining import explain_all, told
from bisectorch.bisection import bisect
from bisectorch.conclusion import conclude
from bisectorch.execute import LocalExecutor
from bisectorch.measure.noise import free_of_blocks, logs
from bisectorch.model import (
    Build,
    Cause,
    CodeChange,
    Commit,
    Explanation,
    Findings,
    Session,
    SpentIn,
    Trace,
    Workload,
)
from bisectorch.search import BayesSearcher
from fakes import FakeHistory, FakeMeasurer, FakeProvider, FakeRecorder, FakeReporter, line, session

TIMED = Workload("linear.Linear.time_forward", ("1", "10"), 0)
HOT, COLD, NEW = "pkg/hot.py", "pkg/cold.py", "pkg/new.py"
STEP = 17


def commits(size: int = 40) -> tuple[Commit, ...]:
    """Every commit changes a file that nothing runs, but some."""
    hot = {STEP, 5, 30}
    return tuple(
        replace(commit, paths=(HOT,) if index in hot else (COLD,))
        for index, commit in enumerate(line(size))
    )


@dataclass
class FakeTracer:
    """Both ends run the hot file and have the cold one."""

    asked: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    blind: bool = False

    def trace(self, build: Build, workload: Workload, paths: Sequence[str] = ()) -> Trace | None:
        """What was asked is kept."""
        self.asked.append((build.sha, workload.name, tuple(paths)))
        return None if self.blind else Trace(workload.name, build.sha, (HOT,), (), (), (COLD,))


@dataclass
class FakeExplainer:
    """Always knows why."""

    asked: list[dict[str, object]] = field(default_factory=list)

    def explain(
        self,
        parent: Build,
        child: Build,
        workload: Workload,
        *,
        levels: tuple[float, float] | None = None,
        paths: Sequence[str] = (),
        compiled_differs: bool = True,
    ) -> Explanation:
        """What was asked is kept."""
        self.asked.append({"levels": levels, "paths": paths, "compiled": compiled_differs})
        assert levels
        step = levels[1] - levels[0]
        cause = Cause("f", SpentIn.PYTHON, HOT, 3, CodeChange.CHANGED, step, 1.0, (1, 2), "changed")
        return Explanation(workload.name, parent.sha, child.sha, levels, causes=(cause,))


def found(tracer: FakeTracer | None, recorder: FakeRecorder) -> tuple[Findings, Session, int]:
    """A bisection over the line; its findings, its session, and the builds it made."""
    history = commits()
    levels = {c.sha: 5e-6 * (1.3 if i >= STEP else 1) for i, c in enumerate(history)}
    provider = FakeProvider()
    start = session(history, TIMED)
    findings = bisect(
        start,
        history=FakeHistory(),
        provider=provider,
        executor=LocalExecutor(provider),
        measurer=FakeMeasurer({TIMED.name: levels}),
        searcher=BayesSearcher(0.03, 0.95),
        recorder=recorder,
        reporter=FakeReporter(),
        free_of_blocks=free_of_blocks,
        logs=logs,
        tracer=tracer,
        clock=lambda: 0.0,
    )
    return findings, Session(start.header, tuple(recorder.events)), len(set(provider.provided))


def test_both_ends_are_traced_once_and_the_search_is_shorter() -> None:
    """The same culprit with fewer builds than without a trace."""
    tracer, recorder = FakeTracer(), FakeRecorder()
    findings, _, builds = found(tracer, recorder)
    (culprit,) = findings.workloads[0].culprits
    assert culprit.commit.sha == commits()[STEP].sha
    assert [sha for sha, _, _ in tracer.asked] == [commits()[0].sha, commits()[-1].sha]
    assert tracer.asked[0][2] == (COLD, HOT)
    assert sum(isinstance(event, Trace) for event in recorder.events) == 2
    _, _, without = found(None, FakeRecorder())
    assert builds < without


def test_a_build_that_cannot_be_traced_is_not_tried_again() -> None:
    """The search goes on as without a tracer."""
    tracer, recorder = FakeTracer(blind=True), FakeRecorder()
    findings, _, _ = found(tracer, recorder)
    assert len(findings.workloads[0].culprits) == 1
    assert len(tracer.asked) == 2
    assert not any(isinstance(event, Trace) for event in recorder.events)


def test_every_culprit_is_explained_once() -> None:
    """From its own levels and its own commit's files; and a second time nothing is left to do."""
    findings, seen, _ = found(None, FakeRecorder())
    explainer, recorder, reporter = FakeExplainer(), FakeRecorder(), FakeReporter()
    provider = FakeProvider()
    (made,) = explain_all(seen, findings, explainer, provider, recorder, reporter)
    assert recorder.events == [made]
    culprit = findings.workloads[0].culprits[0]
    (asked,) = explainer.asked
    assert asked["levels"] == (culprit.parent.level, culprit.child.level)
    assert asked["paths"] == (HOT,)
    assert reporter.findings == [told(made, culprit)]
    assert "f (pkg/hot.py:3): changed; +1." in reporter.findings[0]
    again = conclude(
        Session(seen.header, (*seen.events, made)),
        BayesSearcher(0.03, 0.95),
        free_of_blocks=free_of_blocks,
        logs=logs,
    )
    assert again.workloads[0].culprits[0].explanation == made
    assert not list(explain_all(seen, again, explainer, provider, recorder, reporter))


def test_a_side_that_is_not_built_any_more_is_said() -> None:
    """An explanation with its reason, so that it is not tried with every report."""
    findings, seen, _ = found(None, FakeRecorder())
    parent = findings.workloads[0].culprits[0].parent.sha
    provider = FakeProvider(broken={parent: "the disk ate it"})
    reporter = FakeReporter()
    (made,) = explain_all(seen, findings, FakeExplainer(), provider, FakeRecorder(), reporter)
    assert made.causes == ()
    assert made.reason == f"{parent[:10]} cannot be built: the disk ate it"
    assert "not explained" in reporter.findings[0]


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        (Workload("mem.peakmem_x", kind="peakmemory", unit="bytes"), {}),
        (TIMED, {"metric": "instructions"}),
    ],
)
def test_what_is_no_time_is_not_divided(workload: Workload, options: dict[str, str]) -> None:
    """Bytes and instructions have no profile."""
    findings, seen, _ = found(None, FakeRecorder())
    other = replace(findings.workloads[0], workload=workload)
    session_of = replace(seen, header=replace(seen.header, options=options))
    explainer = FakeExplainer()
    made = explain_all(
        session_of,
        replace(findings, workloads=(other,)),
        explainer,
        FakeProvider(),
        FakeRecorder(),
        FakeReporter(),
    )
    assert list(made) == []
    assert explainer.asked == []
