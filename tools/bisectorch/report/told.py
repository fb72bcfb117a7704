"""A session as the site tells it: its log, what it amounts to, and how the beliefs came about."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bisectorch.model import (
    BuildEvent,
    Commit,
    Count,
    Explanation,
    Findings,
    MachineState,
    Observation,
    Outcome,
    Rebuilds,
    Session,
    SideBranch,
    Trace,
)
from bisectorch.report import wording

MOMENTS = 8
"""How many pictures tell how a search went."""


@dataclass(frozen=True)
class Moment:
    """What was believed after so many events.

    Attributes:
        runs: measured by then.
        builds: made by then, not found ready.
        change: for each workload the probability of a relevant step at each position.
    """

    runs: int
    builds: int
    change: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Told:
    """A session with everything its pages show; ``mark`` changes when any of it does."""

    session: Session
    findings: Findings
    course: tuple[Moment, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Probe:
    """One line of what a session did: a block of runs, builds, or something looked into.

    Attributes:
        what: ``ends``, ``grid``, ``search``..., ``build``, ``descend``, ``explain``, ``trace``.
        workload: measured, empty for builds.
        results: each commit with its outcome in words, its runs' median (NaN-free, None where
            nothing was measured) and how many runs it got.
        seconds: what it cost.
        until: the seconds spent by all up to and with it.
    """

    number: int
    what: str
    workload: str
    results: tuple[Result, ...]
    seconds: float
    until: float


@dataclass(frozen=True)
class Result:
    """What one probe says of one build of one commit; ``reason`` says which, if not the usual."""

    sha: str
    outcome: str
    value: float | None = None
    runs: int = 0
    reason: str = ""


@dataclass
class _Open:
    """A block being gathered."""

    key: tuple[str, str, str]
    seen: list[Observation] = field(default_factory=list)


def probes(session: Session) -> tuple[Probe, ...]:
    """Every probe in the order it was made; runs of one block stand on one line."""
    return tuple(_numbered(session))


def _numbered(session: Session) -> Iterator[Probe]:
    until = 0.0
    for number, (what, workload, results, seconds) in enumerate(_lines(session), start=1):
        until += seconds
        yield Probe(number, what, workload, results, seconds, until)


_Line = tuple[str, str, tuple[Result, ...], float]


def _lines(session: Session) -> Iterator[_Line]:
    block: _Open | None = None
    for event in session.events:
        if isinstance(event, Observation):
            key = (event.workload, event.purpose.value, _block(event))
            if block is None or (key != block.key and event.runs):
                if block is not None:
                    yield _measured(block)
                block = _Open(key)
            block.seen.append(event)
            continue
        if isinstance(event, MachineState):
            continue  # it stands in the midst of its block
        if block is not None:
            yield _measured(block)
            block = None
        if isinstance(event, BuildEvent):
            outcome = event.route.value if event.route else "could not be built"
            result = Result(event.sha, outcome, reason=_reason(event))
            yield "build", "", (result,), event.seconds
        elif isinstance(event, SideBranch):
            inside = f"{len(event.line) - 1} commits inside"
            yield "descend", event.workload, (Result(event.merge, inside),), 0.0
        elif isinstance(event, Explanation):
            what = event.reason or f"{event.explained * 100:.0f} % of the step explained"
            yield "explain", event.workload, (Result(event.child, what),), 0.0
        elif isinstance(event, Trace):
            files = f"{len(event.executed)} files executed"
            yield "trace", event.workload, (Result(event.sha, files),), 0.0
        elif isinstance(event, Count):
            what = "failed"
            if event.instructions is not None:
                what = wording.quantity(event.instructions, "instructions")
            result = Result(event.sha, what, reason=event.reason)
            yield "count", event.workload, (result,), event.seconds
        elif isinstance(event, Rebuilds):
            what = f"{len(event.levels)} builds spread by {wording.share_of(event.sigma)}"
            yield "rebuilds", event.workload, (Result(event.sha, what),), event.seconds
    if block is not None:
        yield _measured(block)


def _block(event: Observation) -> str:
    return event.runs[0].block.rpartition(".")[0] if event.runs else ""


def _reason(event: BuildEvent | Observation) -> str:
    return ": ".join(filter(None, (wording.which_build(event.salt), event.reason)))


def _measured(block: _Open) -> _Line:
    by_build: dict[tuple[str, int], list[Observation]] = {}
    for event in block.seen:
        by_build.setdefault((event.sha, event.salt), []).append(event)
    results = []
    for (sha, _), seen in by_build.items():
        values = [run.value for event in seen for run in event.runs]
        broken = next((e for e in seen if e.outcome is not Outcome.MEASURED), None)
        outcome = broken.outcome if broken is not None and not values else Outcome.MEASURED
        results.append(
            Result(
                sha,
                outcome.value,
                statistics.median(values) if values else None,
                len(values),
                _reason(broken or seen[0]),
            )
        )
    seconds = sum(run.seconds for event in block.seen for run in event.runs)
    return block.key[1], block.key[0], tuple(results), seconds


@dataclass(frozen=True)
class Expense:
    """One line of what a session cost."""

    what: str
    count: int
    seconds: float


def expenses(told: Told) -> tuple[Expense, ...]:
    """Builds by route, runs, and what is left of the clock."""
    by_route: dict[str, list[float]] = {}
    runs: list[float] = []
    for event in told.session.events:
        if isinstance(event, BuildEvent):
            route = event.route.value if event.route else "could not be built"
            by_route.setdefault(route, []).append(event.seconds)
        elif isinstance(event, Observation):
            runs += [run.seconds for run in event.runs]
    lines = [Expense(f"builds: {route}", len(s), sum(s)) for route, s in by_route.items()]
    lines.append(Expense("runs", len(runs), sum(runs)))
    rest = told.findings.cost.seconds - sum(line.seconds for line in lines)
    if told.findings.finished and rest > 0:
        lines.append(Expense("deciding, preparing, saving", 0, rest))
    return tuple(lines)


def commits(told: Told) -> dict[str, Commit]:
    """Every commit that the session knows, those inside merges too."""
    known = {commit.sha: commit for commit in told.session.header.range.line}
    for event in told.session.events:
        if isinstance(event, SideBranch):
            known.update({commit.sha: commit for commit in event.line if commit.sha not in known})
    return known
