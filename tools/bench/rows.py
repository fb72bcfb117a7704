"""The rows of a benchmark: a figure, a bar, ``ok`` or ``SHORT``; printed, and kept as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

BUILD = Path(__file__).resolve().parents[2] / "build" / "bench"


@dataclass(frozen=True)
class Row:
    """One figure; with no bar it is shown and never short."""

    name: str
    figure: float | str
    bar: str = ""
    short: bool = False


class Rows:
    """Collects the rows of ``make bench-NAME`` and ends it with its exit code."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []

    def note(self, name: str, figure: str) -> None:
        """A figure without a bar."""
        self.rows.append(Row(name, figure))

    def add(self, name: str, figure: float, bar: float, *, at_least: bool) -> None:
        """A figure that must reach its bar, or stay below it."""
        short = figure < bar if at_least else figure > bar
        self.rows.append(Row(name, figure, f"{'>=' if at_least else '<='} {bar:g}", short))

    def finish(self) -> int:
        """Print the rows, write build/bench/NAME.json; 1 when any row is short."""
        table = Table("figure", "value", "bar", "", box=None, pad_edge=False)
        for row in self.rows:
            value = row.figure if isinstance(row.figure, str) else f"{row.figure:.4g}"
            table.add_row(row.name, value, row.bar, row.bar and ("SHORT" if row.short else "ok"))
        Console(width=110, highlight=False).print(table)
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / f"{self.name}.json").write_text(
            json.dumps([asdict(row) for row in self.rows], indent=1) + "\n"
        )
        return int(any(row.short for row in self.rows))
