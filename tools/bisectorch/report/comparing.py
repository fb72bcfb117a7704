"""Two measured commits side by side: a verdict a workload, and what cannot be compared.

What asv's results say of one commit on one machine is a snapshot. The intervals are asv's own,
of the samples in one file: they do not know how much one process differs from the next, so a
verdict here is a hint, and a bisection of the two commits the proof.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


class Change(enum.Enum):
    """What became of a workload."""

    SLOWER = "slower"
    FASTER = "faster"
    SMALL = "real, but below the limit"
    NONE = "no difference seen"
    UNSURE = "one sample, no interval"
    NOT_COMPARABLE = "not comparable"


RELEVANT = 0.03
"""The smallest change that pages made beforehand call relevant."""


@dataclass(frozen=True)
class Value:
    """A workload's value in its unit, with its 99 % interval; NaN bounds where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan
    unit: str = "seconds"


@dataclass(frozen=True)
class Snapshot:
    """What one machine in one environment says of one commit.

    Attributes:
        values: by workload; None where it failed or was left out (asv does not tell which).
        stale: benchmarks of which only another version was measured.
    """

    commit: str
    date_seconds: float
    machine: str
    environment: str
    values: Mapping[str, Value | None]
    stale: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One workload compared: ratio is after over before, NaN where there is none."""

    workload: str
    change: Change
    before: Value | None
    after: Value | None
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """Two snapshots of one machine and environment, workload by workload."""

    before: Snapshot
    after: Snapshot
    rows: tuple[Row, ...]

    def count(self, *changes: Change) -> int:
        """How many workloads became that."""
        return sum(row.change in changes for row in self.rows)

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios of all comparable workloads; NaN of none."""
        logs = [math.log(row.ratio) for row in self.rows if math.isfinite(row.ratio)]
        return math.exp(sum(logs) / len(logs)) if logs else math.nan


def compare(before: Snapshot, after: Snapshot, relevant: float = RELEVANT) -> Comparison:
    """Every workload of either side, the largest changes first, what cannot be compared last."""
    names = sorted({*before.values, *after.values, *before.stale, *after.stale})
    rows = [_row(name, before, after, relevant) for name in names]
    rows.sort(
        key=lambda row: (
            row.change is Change.NOT_COMPARABLE,
            -abs(math.log(row.ratio)) if math.isfinite(row.ratio) else 0.0,
            row.workload,
        )
    )
    return Comparison(before, after, tuple(rows))


def _row(name: str, before: Snapshot, after: Snapshot, relevant: float) -> Row:
    old, new = before.values.get(name), after.values.get(name)
    reason = _obstacle(name, before, "before") or _obstacle(name, after, "after")
    if reason or old is None or new is None:
        return Row(name, Change.NOT_COMPARABLE, old, new, reason=reason)
    if not old.value > 0 or not new.value > 0:
        reason = "a value is not above zero, so there is no ratio"
        return Row(name, Change.NOT_COMPARABLE, old, new, reason=reason)
    ratio = new.value / old.value
    half = math.hypot(_half_width(old), _half_width(new))
    if not math.isfinite(half):
        return Row(name, Change.UNSURE, old, new, ratio)
    low, high = ratio * math.exp(-half), ratio * math.exp(half)
    if low <= 1 <= high:
        change = Change.NONE
    elif abs(ratio - 1) < relevant:
        change = Change.SMALL
    else:
        change = Change.SLOWER if ratio > 1 else Change.FASTER
    return Row(name, change, old, new, ratio, low, high)


def _obstacle(name: str, snapshot: Snapshot, side: str) -> str:
    if name in snapshot.values:
        return f"failed or left out {side}" if snapshot.values[name] is None else ""
    if name in snapshot.stale:
        return f"another version of the benchmark was measured {side}"
    return f"not measured {side}"


def _half_width(value: Value) -> float:
    """Half the width of the interval, in logarithms."""
    if not (value.low > 0 and math.isfinite(value.high)):
        return math.nan
    return math.log(value.high / value.low) / 2


def pairs(
    before: Iterable[Snapshot], after: Iterable[Snapshot]
) -> tuple[tuple[Snapshot, Snapshot], ...]:
    """The snapshots of two commits that one machine measured in one environment."""
    by_place = {(snapshot.machine, snapshot.environment): snapshot for snapshot in before}
    return tuple(
        (by_place[place], snapshot)
        for snapshot in after
        if (place := (snapshot.machine, snapshot.environment)) in by_place
    )


def only_one_side(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> tuple[str, ...]:
    """What measured only one of two commits, in words."""
    old, new = ({(s.machine, s.environment) for s in side} for side in (before, after))
    told = [f"{m} ({e}) measured only the commit before" for m, e in sorted(old - new)]
    told += [f"{m} ({e}) measured only the commit after" for m, e in sorted(new - old)]
    return tuple(told)
