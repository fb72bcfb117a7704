"""Two builds compared on many workloads: blocks until each has its answer. One loop, no I/O."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from bisectorch.errors import UsageError
from bisectorch.model import (
    Block,
    Build,
    BuildEvent,
    Comparison,
    Cost,
    End,
    Event,
    Judged,
    Judgement,
    Observation,
    Outcome,
    Purpose,
    Route,
    Run,
    Session,
    Side,
    Versus,
    Workload,
)
from bisectorch.seams import BlockMeasurer, Judge, Recorder, Reporter

SKIPPED = "skipped"
"""How a benchmark that says that it does not apply is told, as in asv."""

SAME_BUILD = "both commits give the same build"


def compare(
    session: Session,
    builds: tuple[Build, Build],
    *,
    measurer: BlockMeasurer,
    judge: Judge,
    recorder: Recorder,
    reporter: Reporter,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Versus:
    """Measure block after block until every workload is judged, going on from the session's events.

    Args:
        session: its range is the old side, then the new one.
        builds: the same two, ready to run.
        measurer: runs them.
        judge: says when it is enough.
        recorder: every event is written before it is believed.
        reporter: is told what stands.
        seconds: the most that measuring one workload may take; the session's budget is the most
            for all of it. What is not judged by then stays UNKNOWN.
        clock: seconds that never run backwards.

    Raises UsageError when nothing at all can be measured on the old side.
    """
    ledger = _Ledger(session, judge)
    began, spent_before = clock(), ledger.seconds
    budget = session.header.budget_seconds
    limit = math.inf if budget is None else budget - spent_before

    def record(event: Event) -> None:
        recorder.append(event)
        ledger.add(event)

    if not ledger.built:
        for build in builds:
            record(BuildEvent(build.sha, build.route, build.seconds))
    undecided = 0
    same_build = builds[0].key != "" and builds[0].key == builds[1].key
    while not same_build and (open_workloads := ledger.open(seconds)) and clock() - began < limit:
        if len(open_workloads) != undecided:
            undecided = len(open_workloads)
            reporter.progress(
                f"measuring; {undecided} of {len(session.header.workloads)} workloads undecided "
                f"after {ledger.blocks} blocks"
            )
        name, pair = str(ledger.events), tuple(builds)
        blocks = [Block(workload, pair, name, Purpose.COMPARE) for workload in open_workloads]
        seen = measurer.measure_in_turn(blocks)
        with closing(seen):  # type: ignore[type-var]
            for observation in seen:
                record(observation)
                if observation.outcome is not Outcome.MEASURED:
                    reporter.found(
                        f"{observation.workload}: {observation.sha[:10]} "
                        f"{observation.outcome.value}: {observation.reason}"
                    )
                if clock() - began >= limit and ledger.is_paired(observation):
                    break
        ledger.refuse_if_nothing_ran()
    if not ledger.finished:
        record(End(spent_before + clock() - began))
    return ledger.conclude(same_build=same_build)


def conclude(session: Session, judge: Judge) -> Versus:
    """What a session's log amounts to, without measuring anything."""
    ledger = _Ledger(session, judge)
    return ledger.conclude(same_build=ledger.finished and not ledger.events_of_runs)


class _Ledger:
    """What the events of one comparison amount to."""

    def __init__(self, session: Session, judge: Judge) -> None:
        self._header = session.header
        self._judge = judge
        self._old, self._new = session.header.range.line[0], session.header.range.line[-1]
        self._runs: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
        self._failures: dict[str, dict[str, Observation]] = defaultdict(dict)
        self._judged: tuple[Judged, ...] | None = None
        self.events = 0
        self.events_of_runs = 0
        self.builds = 0
        self.seconds = 0.0
        self.built = False
        self.finished = False
        for event in session.events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Take in one event."""
        self.events += 1
        if isinstance(event, Observation):
            self._judged = None
            self.events_of_runs += 1
            self.finished = False
            self._runs[event.workload][event.sha].extend(event.runs)
            self.seconds += sum(run.seconds for run in event.runs)
            if event.outcome is not Outcome.MEASURED:
                self._failures[event.workload][event.sha] = event
        elif isinstance(event, BuildEvent):
            self.built = True
            self.builds += event.route is not Route.CACHED
        elif isinstance(event, End):
            self.finished = True

    @property
    def blocks(self) -> int:
        """The most blocks that any workload has."""
        return max((len(self._ratios(w)) for w in self._header.workloads), default=0)

    def is_paired(self, observation: Observation) -> bool:
        """Whether the block of this observation is complete."""
        runs = self._runs[observation.workload]
        return len(runs[self._old.sha]) == len(runs[self._new.sha])

    def open(self, seconds: float) -> list[Workload]:
        """The workloads that have no answer yet, and time left to get one."""
        return [
            workload
            for workload, judged in zip(self._header.workloads, self.judged, strict=True)
            if judged.judgement is Judgement.UNKNOWN
            and not self._failures[workload.name]
            and not self._has_no_ratio(workload)
            and sum(run.seconds for run in self._all_runs(workload)) < seconds
        ]

    def refuse_if_nothing_ran(self) -> None:
        """One clear line when the old side served no workload at all."""
        failures = [
            self._failures[workload.name].get(self._old.sha) for workload in self._header.workloads
        ]
        if failures[0] and all(failures):
            raise UsageError(
                f"nothing can be measured at {self._old.sha[:10]}: "
                f"{failures[0].outcome.value}: {failures[0].reason}"
            )

    @property
    def judged(self) -> tuple[Judged, ...]:
        """The answers so far, one a workload."""
        if self._judged is None:
            self._judged = self._judge.judge([self._ratios(w) for w in self._header.workloads])
        return self._judged

    def conclude(self, *, same_build: bool) -> Versus:
        """The answers and what they rest on."""
        header = self._header
        comparisons = tuple(
            self._comparison(workload, judged, same_build)
            for workload, judged in zip(header.workloads, self.judged, strict=True)
        )
        mean, low, high = self._judge.overall([self._ratios(w) for w in header.workloads])
        return Versus(
            session=header.session,
            old=self._old,
            new=self._new,
            names=(header.options.get("old", ""), header.options.get("new", "")),
            comparisons=comparisons,
            mean_ratio=math.exp(mean),
            mean_interval=(math.exp(low), math.exp(high)),
            smallest_step=header.smallest_step,
            confidence=header.confidence,
            false_rate=float(header.options.get("false_rate", "nan")),
            cost=Cost(self.builds, self.events_of_runs, self.seconds),
            machine=header.machine,
            environment=header.environment,
            created_seconds=header.created_seconds,
            finished=self.finished,
        )

    def _comparison(self, workload: Workload, judged: Judged, same_build: bool) -> Comparison:
        failures = self._failures[workload.name]
        old, new = failures.get(self._old.sha), failures.get(self._new.sha)
        judgement, relevant, reason = judged.judgement, False, ""
        ratio, low, high = judged.log_ratio, judged.log_low, judged.log_high
        if same_build:
            judgement, reason = Judgement.SAME, SAME_BUILD
            ratio, low, high = 0.0, 0.0, 0.0
        elif old or new:
            judgement = Judgement.UNKNOWN
            relevant = old is None and new is not None and new.reason != SKIPPED
            ratio, low, high = math.nan, -math.inf, math.inf
            sides = (("old", old), ("new", new))
            reason = "; ".join(
                f"{name} side {each.outcome.value}: {each.reason}" for name, each in sides if each
            )
        elif self._has_no_ratio(workload):
            reason = "its values are not positive, so they have no ratio"
        elif judgement is Judgement.DIFFERENT:
            relevant = abs(ratio) >= math.log1p(self._header.smallest_step)
        return Comparison(
            workload=workload,
            judgement=judgement,
            ratio=math.exp(ratio),
            ratio_interval=(math.exp(low), _exp(high)),
            p_value=judged.p_value,
            before=self._side(workload, self._old.sha),
            after=self._side(workload, self._new.sha),
            is_relevant=relevant,
            reason=reason,
        )

    def _side(self, workload: Workload, sha: str) -> Side:
        values = tuple(run.value for run in self._runs[workload.name][sha])
        if not values:
            return Side(sha, (), math.nan)
        if min(values) <= 0:
            return Side(sha, values, math.fsum(values) / len(values))
        return Side(sha, values, math.exp(math.fsum(map(math.log, values)) / len(values)))

    def _ratios(self, workload: Workload) -> list[float]:
        """The paired log ratios, new over old, one a block, in order."""
        runs = self._runs[workload.name]
        old = {run.block: run.value for run in runs[self._old.sha]}
        pairs = [(old[run.block], run.value) for run in runs[self._new.sha] if run.block in old]
        floor = _floor(value for pair in pairs for value in pair)
        return [math.log(max(new, floor) / max(was, floor)) for was, new in pairs]

    def _all_runs(self, workload: Workload) -> Sequence[Run]:
        runs = self._runs[workload.name]
        return [*runs[self._old.sha], *runs[self._new.sha]]

    def _has_no_ratio(self, workload: Workload) -> bool:
        """Values below zero, or zero on one side alone, have no ratio; zero throughout is one."""
        values = [run.value for run in self._all_runs(workload)]
        return any(value < 0 for value in values)


def _floor(values: Iterable[float]) -> float:
    """What a value of 0 counts as: half of the smallest positive one."""
    return 0.5 * min((value for value in values if value > 0), default=2.0)


def _exp(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)
