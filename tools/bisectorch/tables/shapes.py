"""What the tables are made of: jobs to measure, what came of them, and the tables themselves."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = float | int | str | None


class Form(enum.Enum):
    """How much is measured: enough to see that all of it works, or as much as the account did."""

    SHORT = "short"
    FULL = "full"


class Side(enum.Enum):
    """Whose child measures: each side may have an interpreter of its own."""

    TORCH = "PyTorch"
    DYNET = "DyNet"
    KERAS = "keras-tcn"


@dataclass(frozen=True)
class Job:
    """What one child measures in one process: an action of child.py with its arguments.

    Attributes:
        side: whose interpreter runs it.
        action: the function of child.py.
        arguments: its arguments, as pairs.
        threads: OMP_NUM_THREADS of the child; with one it is pinned to one core. None: a thread
            a core, the child's libraries' default.
    """

    side: Side
    action: str
    arguments: tuple[tuple[str, Any], ...] = ()
    threads: int | None = 1


def job(side: Side, action: str, *, threads: int | None = 1, **arguments: Any) -> Job:
    """A job, its arguments given by name."""
    return Job(side, action, tuple(sorted(arguments.items())), threads)


@dataclass(frozen=True)
class Measured:
    """What came of a job, over all rounds.

    Attributes:
        figures: name -> one value a round, in the unit that the action says (seconds).
        missing: name -> why that figure could not be had; ``""`` is for all of them.
        facts: what the first child told beside: versions, losses, parameter counts.
    """

    figures: Mapping[str, Sequence[float]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def value(self, name: str, scale: float = 1.0) -> float | None:
        """The median over the rounds, or None."""
        values = self.figures.get(name)
        return statistics.median(values) * scale if values else None

    def why(self, name: str = "") -> str:
        """Why there is no such figure; empty when there is one."""
        if name in self.figures:
            return ""
        return self.missing.get(name) or self.missing.get("", "not measured")


class Kind(enum.Enum):
    """What a column holds."""

    NAME = "name"
    ACCOUNT = "account"
    OURS = "ours"
    ACCOUNT_RATIO = "account, ratio"
    OURS_RATIO = "ours, ratio"


@dataclass(frozen=True)
class Column:
    """A column: its title, what it holds, the unit of its numbers, and whose they are."""

    title: str
    kind: Kind
    unit: str = ""
    series: str = ""


@dataclass(frozen=True)
class Row:
    """One cell a column, and, where one is missing, why."""

    cells: tuple[Cell, ...]
    why: str = ""


@dataclass(frozen=True)
class Table:
    """One published table, made anew.

    Attributes:
        name: A1 to A7, B, profile.
        title: what it shows.
        source: where the account's figures come from.
        notes: what a reader must know to compare the two.
        conditions: time, cores, threads, versions: what our figures hold for.
    """

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)


def ratio(value: float | None, base: float | None) -> float | None:
    """``value / base``, or None where that says nothing."""
    return value / base if value is not None and base else None


NOTHING = "-"


def shown(cell: Cell, column: Column) -> str:
    """A cell as people read it: four significant digits, a ratio's times sign."""
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if column.kind in (Kind.ACCOUNT_RATIO, Kind.OURS_RATIO) and "%" not in column.title:
        return f"{cell:.2f}×"
    return f"{cell:.4g}" if abs(cell) < 1000 else f"{cell:.1f}"
