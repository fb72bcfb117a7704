"""The bisection: one loop over searches. Receives every seam and does no I/O of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bisectorch.conclusion import NoiseOf, conclude
from bisectorch.errors import UsageError
from bisectorch.knowledge import FreeOfBlocks, Knowledge, Logs, Search
from bisectorch.model import (
    Build,
    Decision,
    End,
    Event,
    Evidence,
    Findings,
    Observation,
    Session,
    SideBranch,
    Step,
    Workload,
)
from bisectorch.probing import Asked, Prober
from bisectorch.seams import (
    BlockMeasurer,
    Executor,
    Gauge,
    History,
    Measurer,
    Provider,
    Rebuilder,
    Recorder,
    Reporter,
    Searcher,
    Tracer,
)

BATCH = 6
"""Positions probed in one block: enough to share its anchors, few enough to drift little."""

DEAR_RUNS = 10.0
"""A build is dear when it costs more than so many runs: none is then made but for an answer."""


def bisect(
    session: Session,
    *,
    history: History,
    provider: Provider,
    executor: Executor,
    measurer: Measurer,
    searcher: Searcher,
    recorder: Recorder,
    reporter: Reporter,
    free_of_blocks: FreeOfBlocks,
    logs: Logs,
    noise_of: NoiseOf | None = None,
    gauge: Gauge | None = None,
    tracer: Tracer | None = None,
    rebuilder: Rebuilder | None = None,
    sharer: BlockMeasurer | None = None,
    anchored: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Findings:
    """Search every workload of the session to its verdict, going on from the events it holds.

    ``gauge`` reads the machine beside the blocks. ``tracer`` tells which files a workload reaches
    at the ends: a commit that changes others alone is hardly its culprit. ``rebuilder`` makes
    more builds of a commit where build effects hide a step; None where there is none. ``sharer``
    measures what several workloads ask of the same builds with one start of each. ``anchored``
    blocks also run both ends of their line, which ties them together; a metric that does not drift
    needs none of that.

    Raises UsageError when no workload can be measured on the baseline, and whatever the seams
    raise for a fault of the machine; the events recorded until then stay good for a resume.
    """
    knowledge = Knowledge(session.events, free_of_blocks, logs)
    loop = _Loop(session, history, recorder, reporter, knowledge, tracer)
    prober = Prober(
        loop.record,
        knowledge,
        provider=provider,
        executor=executor,
        measurer=measurer,
        reporter=reporter,
        gauge=gauge,
        rebuilder=rebuilder,
        sharer=sharer,
        anchored=anchored,
    )
    budget = session.header.budget_seconds
    began = clock()
    spent_before = loop.knowledge.seconds
    searches = [Search(w, session.header.range.line) for w in session.header.workloads]
    settled: dict[Search, int] = {}
    # A block measured for one search may tell another something new, so a search is asked again
    # whenever its workload has more observations than when it ended.
    while open_searches := [s for s in searches if settled.get(s) != loop.heard(s)]:
        asked: dict[Workload, Asked] = {}
        for search in open_searches:
            if search.workload in asked:
                continue  # what was asked for its workload may answer it
            spent = max(spent_before + clock() - began, loop.knowledge.seconds)
            ahead = sum(each.seconds for each in asked.values())
            if asked and budget is not None and spent + ahead >= budget:
                break  # the others decide when it is known what that took
            settled[search] = loop.heard(search)
            if loop.baseline_failure(search):
                continue
            loop.trace(search, prober.builds)
            evidence = loop.evidence(search, prober, spent)
            decision = searcher.decide(evidence, batch_size(evidence, executor.width))
            loop.report(search, decision)
            if decision.probes:
                asked[search.workload] = Asked(search, decision.probes, evidence)
            elif not search.merge:
                searches += [s for s in loop.descents(search, decision.steps) if s not in searches]
        prober.probe(list(asked.values()))
    loop.refuse_if_nothing_ran()
    if not loop.knowledge.finished:
        loop.record(End(spent_before + clock() - began))
    return conclude(
        Session(session.header, tuple(loop.events)),
        searcher,
        free_of_blocks=free_of_blocks,
        logs=logs,
        noise_of=noise_of,
    )


def batch_size(evidence: Evidence, width: int) -> int:
    """How many positions to probe at a time: where builds are dear, one a builder."""
    left = [seconds for seconds in evidence.build_seconds if seconds > 0]
    dear = DEAR_RUNS * evidence.run_seconds
    if left and sum(left) / len(left) > dear:
        return width
    return max(BATCH, width)


class _Loop:
    """What the loop knows, keeps and tells."""

    def __init__(
        self,
        session: Session,
        history: History,
        recorder: Recorder,
        reporter: Reporter,
        knowledge: Knowledge,
        tracer: Tracer | None,
    ) -> None:
        self._header = session.header
        self._history = history
        self._recorder = recorder
        self._reporter = reporter
        self._tracer = tracer
        self._told: set[tuple[str, str]] = set()
        self._traced: set[tuple[str, str]] = set()
        self.events = list(session.events)
        self.knowledge = knowledge

    def record(self, event: Event) -> None:
        """On disk first, then believed."""
        self._recorder.append(event)
        self.events.append(event)
        self.knowledge.add(event)

    def evidence(self, search: Search, prober: Prober, spent_seconds: float) -> Evidence:
        """The evidence with what each build would cost and what was spent."""
        evidence = self.knowledge.evidence(search)
        return replace(
            evidence,
            build_seconds=prober.build_seconds(search, evidence),
            rebuild_seconds=prober.rebuild_seconds(search, evidence),
            spent_seconds=spent_seconds,
            budget_seconds=self._header.budget_seconds,
        )

    def trace(self, search: Search, builds: Mapping[str, Build]) -> None:
        """See which files the workload reaches at both ends of the range, once they are built."""
        if self._tracer is None or search.merge:
            return
        paths = {path for commit in search.line[1:] for path in commit.paths}
        for commit in (search.line[0], search.line[-1]):
            wanted = (search.workload.name, commit.sha)
            if commit.sha not in builds or wanted in self._traced:
                continue
            self._traced.add(wanted)
            if wanted in self.knowledge.traces:
                continue
            changed = sorted(path for path in paths if path.endswith(".py"))
            found = self._tracer.trace(builds[commit.sha], search.workload, changed)
            if found is not None:
                self.record(found)

    def baseline_failure(self, search: Search) -> Observation | None:
        """Why the search has nothing to stand on, if it hasn't."""
        return self.knowledge.failure(search.workload, search.line[0].sha)

    def refuse_if_nothing_ran(self) -> None:
        """One clear line when the baseline served no workload at all."""
        baseline = self._header.range.baseline
        failures = [
            self.knowledge.failure(workload, baseline.sha) for workload in self._header.workloads
        ]
        if failures[0] and all(failures):
            raise UsageError(
                f"FROM ({baseline.sha[:10]}) cannot be measured: {failures[0].outcome.value}: "
                f"{failures[0].reason}. Choose a FROM where the benchmark works."
            )

    def heard(self, search: Search) -> int:
        """How much is known of the search's workload: it grows with all that may change it."""
        return (
            len(self.knowledge.observations[search.workload.name])
            + len(self.knowledge.unbuildable)
            + len(self.knowledge.not_rebuildable)
        )

    def descents(self, search: Search, steps: Sequence[Step]) -> list[Search]:
        """A search of the side branch for each step that is a merge."""
        searches = []
        for step in steps:
            merge = search.line[step.position]
            if len(merge.parents) < 2 or len(step.credible) > 1:
                continue
            known = self.knowledge.side_branches.get((merge.sha, search.workload.name))
            if known is None:
                known = SideBranch(
                    merge.sha, search.workload.name, self._history.side_branch(merge)
                )
                self.record(known)
            if len(known.line) > 1:
                searches.append(Search(search.workload, known.line, merge.sha))
        return searches

    def report(self, search: Search, decision: Decision) -> None:
        """One line of progress a decision, and one for each culprit as it is confirmed."""
        for step in decision.steps:
            commit = search.line[step.position]
            if step.confirmed and (search.workload.name, commit.sha) not in self._told:
                self._told.add((search.workload.name, commit.sha))
                self._reporter.found(
                    f"{search.workload.name}: {math.expm1(step.log_ratio):+.1%} at "
                    f"{commit.sha[:10]} {commit.subject}"
                )
        where = f"inside merge {search.merge[:10]}: " if search.merge else ""
        if decision.probes:
            shas = [search.line[i].sha[:8] for p in decision.probes for i in p.positions]
            what = f"{decision.probes[0].purpose.value} {' '.join(shas)}"
        else:
            what = decision.verdict.value if decision.verdict else "ended"
        knowledge = self.knowledge
        self._reporter.progress(
            f"{search.workload.name}: {where}{what} "
            f"[{knowledge.run_count} runs, {knowledge.builds} builds so far]"
        )
