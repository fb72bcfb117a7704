"""The bisection: one loop over searches. Receives every seam and does no I/O of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from bisectorch.conclusion import NoiseOf, conclude
from bisectorch.errors import Unbuildable, UsageError
from bisectorch.knowledge import FreeOfBlocks, Knowledge, Logs, Search
from bisectorch.model import (
    Build,
    BuildEvent,
    Commit,
    Decision,
    End,
    Event,
    Evidence,
    Findings,
    Observation,
    Outcome,
    Probe,
    Purpose,
    Session,
    SideBranch,
    Step,
)
from bisectorch.seams import (
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
    anchored: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Findings:
    """Search every workload of the session to its verdict, going on from the events it holds.

    ``gauge`` reads the machine beside the blocks. ``tracer`` tells which files a workload reaches
    at the ends: a commit that changes others alone is hardly its culprit. ``rebuilder`` makes
    more builds of a commit where build effects hide a step; None where there is none. ``anchored``
    blocks also run both ends of their line, which ties them together; a metric that does not drift
    needs none of that.

    Raises UsageError when no workload can be measured on the baseline, and whatever the seams
    raise for a fault of the machine; the events recorded until then stay good for a resume.
    """
    knowledge = Knowledge(session.events, free_of_blocks, logs)
    loop = _Loop(session, history, provider, executor, measurer, recorder, reporter, knowledge)
    loop.gauge, loop.tracer, loop.anchored = gauge, tracer, anchored
    loop.rebuilder = rebuilder
    began = clock()
    spent_before = loop.knowledge.seconds
    searches = [Search(w, session.header.range.line) for w in session.header.workloads]
    settled: dict[Search, int] = {}
    # A block measured for one search may tell another something new, so a search is asked again
    # whenever its workload has more observations than when it ended.
    while open_searches := [s for s in searches if settled.get(s) != loop.heard(s)]:
        for search in open_searches:
            settled[search] = loop.heard(search)
            if loop.baseline_failure(search):
                continue
            loop.trace(search)
            evidence = loop.evidence(search, spent_before + clock() - began)
            decision = searcher.decide(evidence, loop.batch(evidence))
            loop.report(search, decision)
            if decision.probes:
                loop.probe(search, decision.probes, evidence)
            elif not search.merge:
                searches += [s for s in loop.descents(search, decision.steps) if s not in searches]
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


def build_event(commit: Commit, result: Build | Exception, reporter: Reporter) -> BuildEvent:
    """What became of a build, for the log; that it cannot be made is said, too.

    Raises what is no fault of the commit.
    """
    if isinstance(result, Build):
        return BuildEvent(commit.sha, result.route, result.seconds)
    if not isinstance(result, Unbuildable):
        raise result
    reporter.found(f"{commit.sha[:10]} cannot be built: {result.reason}")
    return BuildEvent(commit.sha, None, 0.0, result.reason)


class _Loop:
    """The loop's hands: what to build, what to interleave, and the record of it."""

    def __init__(
        self,
        session: Session,
        history: History,
        provider: Provider,
        executor: Executor,
        measurer: Measurer,
        recorder: Recorder,
        reporter: Reporter,
        knowledge: Knowledge,
    ) -> None:
        self._header = session.header
        self._history = history
        self._provider = provider
        self._executor = executor
        self._measurer = measurer
        self._recorder = recorder
        self._reporter = reporter
        self._builds: dict[str, Build] = {}
        self._rebuilt: dict[tuple[str, int], Build] = {}
        self._told: set[tuple[str, str]] = set()
        self._traced: set[tuple[str, str]] = set()
        self.events = list(session.events)
        self.knowledge = knowledge
        self.gauge: Gauge | None = None
        self.tracer: Tracer | None = None
        self.rebuilder: Rebuilder | None = None
        self.anchored = True

    def record(self, event: Event) -> None:
        """On disk first, then believed."""
        self._recorder.append(event)
        self.events.append(event)
        self.knowledge.add(event)

    def evidence(self, search: Search, spent_seconds: float) -> Evidence:
        """The evidence with what each build would cost and what was spent."""
        evidence = self.knowledge.evidence(search)
        known = set(evidence.values) | evidence.failed
        return replace(
            evidence,
            build_seconds=tuple(
                0.0
                if index in known or commit.sha in self._builds
                else self._provider.quote(commit).seconds
                for index, commit in enumerate(search.line)
            ),
            rebuild_seconds=self._rebuild_seconds(search, evidence),
            spent_seconds=max(spent_seconds, self.knowledge.seconds),
            budget_seconds=self._header.budget_seconds,
        )

    def _rebuild_seconds(self, search: Search, evidence: Evidence) -> tuple[float, ...]:
        """The quote of one more build of each measured position; empty where there are none.

        Commits that share one native build would get the same layout once more, all of them.
        """
        if self.rebuilder is None or evidence.one_build:
            return ()
        return tuple(
            self.rebuilder.rebuild_quote(commit, self._next_salt(search, commit)).seconds
            if index in evidence.values and commit.sha not in self.knowledge.not_rebuildable
            else math.inf
            for index, commit in enumerate(search.line)
        )

    def _next_salt(self, search: Search, commit: Commit) -> int:
        """The salt of the commit's next build; for another workload it may have been made."""
        return max(self.knowledge.salts(search.workload, commit.sha), default=0) + 1

    def batch(self, evidence: Evidence) -> int:
        """How many positions to probe at a time."""
        return batch_size(evidence, self._executor.width)

    def trace(self, search: Search) -> None:
        """See which files the workload reaches at both ends of the range, once they are built."""
        if self.tracer is None or search.merge:
            return
        paths = {path for commit in search.line[1:] for path in commit.paths}
        for commit in (search.line[0], search.line[-1]):
            wanted = (search.workload.name, commit.sha)
            if commit.sha not in self._builds or wanted in self._traced:
                continue
            self._traced.add(wanted)
            if wanted in self.knowledge.traces:
                continue
            changed = sorted(path for path in paths if path.endswith(".py"))
            found = self.tracer.trace(self._builds[commit.sha], search.workload, changed)
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

    def probe(self, search: Search, probes: Sequence[Probe], evidence: Evidence) -> None:
        """Build and measure what the search asked for."""
        salts = [self._salts(search, probe, evidence) for probe in probes]
        # All at once, so that they can be made side by side.
        asked = dict.fromkeys(x for each in salts for x, salt in each.items() if not salt)
        self._obtain([search.line[index] for index in asked])
        for probe, each in zip(probes, salts, strict=True):
            more = [self._rebuild(search.line[x], salt) for x, salt in each.items() if salt]
            builds = [build for build in more if build is not None]
            if probe.purpose is Purpose.REBUILD and not builds:
                continue
            usual = [index for index, salt in each.items() if not salt]
            usual += self._anchors(search, probe, usual)
            builds += self._obtain([search.line[index] for index in usual])
            enough = 2 if probe.purpose is Purpose.CONFIRM else 1
            if len(builds) < enough:
                continue
            if self.gauge is not None and not self.knowledge.conditions:
                self.record(self.gauge.conditions(builds[0], search.workload))
            block = ""
            for observation in self._measurer.measure(
                builds, search.workload, probe.runs, str(self.knowledge.events), probe.purpose
            ):
                self.record(observation)
                blocks = [run.block for run in observation.runs]
                if self.gauge is not None and blocks and blocks != [block]:
                    [block] = blocks
                    self.record(self.gauge.state(block))
                if observation.outcome is not Outcome.MEASURED:
                    self._reporter.found(
                        f"{observation.sha[:10]} {observation.outcome.value}: {observation.reason}"
                    )

    def _salts(self, search: Search, probe: Probe, evidence: Evidence) -> dict[int, int]:
        """Which build of each of the probe's positions is to be measured."""
        salts = {}
        for index in probe.positions:
            commit = search.line[index]
            if probe.purpose is Purpose.REBUILD:
                salts[index] = self._next_salt(search, commit)
            elif self.rebuilder is None or commit.sha in self.knowledge.not_rebuildable:
                salts[index] = 0
            else:
                salts[index] = evidence.build_to_run(index)
        return salts

    def _anchors(self, search: Search, probe: Probe, usual: Sequence[int]) -> list[int]:
        """Both ends of the line, but for those asked for, to tie the block to the others."""
        if not self.anchored or probe.purpose is Purpose.CONFIRM:
            return []
        return [
            end
            for end in (0, len(search.line) - 1)
            if end not in usual and self.knowledge.salts(search.workload, search.line[end].sha)
        ]

    def _obtain(self, commits: Sequence[Commit]) -> list[Build]:
        missing = [
            commit
            for commit in commits
            if commit.sha not in self._builds and commit.sha not in self.knowledge.unbuildable
        ]
        if missing:
            quoted = sum(self._provider.quote(commit).seconds for commit in missing)
            self._reporter.progress(f"obtaining {len(missing)} builds (about {quoted:.0f} s)")
        for commit, result in self._executor.build(missing):
            if isinstance(result, Build):
                self._builds[commit.sha] = result
            self.record(build_event(commit, result, self._reporter))
        return [self._builds[commit.sha] for commit in commits if commit.sha in self._builds]

    def _rebuild(self, commit: Commit, salt: int) -> Build | None:
        """The commit's build in this salt's layout; None, and said, where it cannot be made."""
        assert self.rebuilder is not None
        if (commit.sha, salt) not in self._rebuilt:
            quoted = self.rebuilder.rebuild_quote(commit, salt).seconds
            self._reporter.progress(f"building {commit.sha[:10]} again (about {quoted:.0f} s)")
            try:
                build = self.rebuilder.rebuild(commit, salt)
            except Unbuildable as error:
                self.record(BuildEvent(commit.sha, None, 0.0, error.reason, salt))
                self._reporter.found(f"{commit.sha[:10]} cannot be built again: {error.reason}")
                return None
            self._rebuilt[commit.sha, salt] = build
            self.record(BuildEvent(commit.sha, build.route, build.seconds, "", salt))
        return self._rebuilt[commit.sha, salt]

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
