"""A workload's history: every value that asv's results hold, by who measured it.

Values of two machines, or of one machine before and after it was changed, are different lines:
a step between them is no commit's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bisectorch.model import Workload


@dataclass(frozen=True)
class Point:
    """One value: of a commit, in the workload's unit, with asv's 99 % interval.

    Attributes:
        sha: the commit.
        place: where the commit stands among all, oldest first.
        date_seconds: the commit's date.
        value: NaN where the benchmark failed.
        low, high: NaN where asv has no interval.
        count: how many samples stand behind the value.
        measured_seconds: when it was measured; 0 when that is not known.
    """

    sha: str
    place: int
    date_seconds: float
    value: float
    low: float
    high: float
    count: int
    measured_seconds: float


@dataclass(frozen=True)
class Level:
    """A stretch without a step, as asv's step detection sees it.

    Attributes:
        first, last: places of the commits it begins and ends with.
        value: the median.
        low, high: a 95 % interval of the median by order statistics.
    """

    first: int
    last: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Line:
    """All values of one machine in one state and one environment, oldest commit first.

    Attributes:
        facts: the machine's and the environment's parameters.
    """

    machine: str
    environment: str
    facts: Mapping[str, str]
    points: tuple[Point, ...]
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True)
class History:
    """A workload with all its lines, the one that begins first first."""

    workload: Workload
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Change:
    """Where another machine, environment or state of a machine begins.

    Attributes:
        place: of the first commit it measured.
        sha: that commit.
        what: in words, for example ``bench-2`` or ``os: Linux 5.4 -> Linux 6.1``.
    """

    place: int
    sha: str
    date_seconds: float
    what: str


def changes(history: History) -> tuple[Change, ...]:
    """Every change of who measured, at the first commit that it concerns."""
    found = []
    for before, line in zip(history.lines, history.lines[1:], strict=False):
        if not line.points:
            continue
        first = line.points[0]
        found.append(Change(first.place, first.sha, first.date_seconds, _difference(before, line)))
    return tuple(found)


def labels(history: History) -> tuple[str, ...]:
    """What tells each line from the others: who measured, or what changed in who did."""
    told: list[str] = []
    before: Line | None = None
    for line in history.lines:
        name = f"{line.machine}, {line.environment}"
        if before is not None and name in told:
            name = _difference(before, line)
        told.append(name)
        before = line
    return tuple(told)


def _difference(before: Line, line: Line) -> str:
    if before.machine != line.machine:
        return f"machine {line.machine}"
    told = []
    for key in sorted({*before.facts, *line.facts}):
        old, new = before.facts.get(key, ""), line.facts.get(key, "")
        if old != new:
            told.append(f"{key}: {old or 'none'} → {new or 'none'}")
    if before.environment != line.environment and not told:
        told.append(f"environment {line.environment}")
    return f"{line.machine}, {'; '.join(told)}" if told else line.machine


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and a 95 % interval of it, by order statistics.

    The interval's ranks are those of the binomial distribution's normal approximation (Conover,
    "Practical Nonparametric Statistics", 3.2); the extremes where there are few values.
    """
    ordered = sorted(values)
    size = len(ordered)
    middle = (ordered[(size - 1) // 2] + ordered[size // 2]) / 2
    half = 1.96 * math.sqrt(size) / 2
    low = max(0, math.floor(size / 2 - half))
    high = min(size - 1, math.ceil(size / 2 + half))
    return middle, ordered[low], ordered[high]


def levels(points: Sequence[Point], bounds: Sequence[tuple[int, int]]) -> tuple[Level, ...]:
    """The levels between these bounds: places of a first commit and of the one after the last."""
    return tuple(_levels(points, bounds))


def _levels(points: Sequence[Point], bounds: Sequence[tuple[int, int]]) -> Iterator[Level]:
    for left, right in bounds:
        inside = [p for p in points if left <= p.place < right and math.isfinite(p.value)]
        if inside:
            middle, low, high = median_interval([point.value for point in inside])
            yield Level(inside[0].place, inside[-1].place, middle, low, high)
