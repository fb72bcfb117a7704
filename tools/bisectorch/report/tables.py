"""Every table of the site for programs and for people's documents: CSV, markdown and JSON.

docs/report-schema.md documents the JSON.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bisectorch.report import markdown

VERSION = 1
"""Of every table's JSON; grows when a column changes its meaning or goes."""

Cell = str | int | float | bool | None

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Table:
    """A table: its name on the site, its title, its columns and rows.

    Columns carry their units in their names (``before_seconds``, ``ratio_low``); numbers that
    are not known are None.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def files(table: Table) -> Iterator[tuple[str, bytes]]:
    """The table's three files, by their names."""
    yield f"{table.name}.csv", to_csv(table)
    yield f"{table.name}.md", to_markdown(table)
    yield f"{table.name}.json", to_json(table)


def to_csv(table: Table) -> bytes:
    """The table as CSV (RFC 4180) in UTF-8.

    A text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([_csv_cell(cell) for cell in row])
    return stream.getvalue().encode("utf-8", "replace")


def _csv_cell(cell: Cell) -> Cell:
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(_FORMULA) else cell
    return cell


def to_markdown(table: Table) -> bytes:
    """The table as markdown, its numbers with six significant digits."""
    right = [all(isinstance(row[i], int | float) for row in table.rows) for i in _each(table)]
    lines: list[Sequence[str]] = [
        [markdown.text(column) for column in table.columns],
        ["--:" if is_right and table.rows else "---" for is_right in right],
        *([_markdown_cell(cell) for cell in row] for row in table.rows),
    ]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"# {markdown.text(table.title)}\n\n{body}\n".encode("utf-8", "replace")


def _each(table: Table) -> range:
    return range(len(table.columns))


def _markdown_cell(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.6g}" if isinstance(cell, float) else markdown.text(str(cell))


def to_json(table: Table) -> bytes:
    """The table as JSON in ASCII: ``version``, ``title`` and a list of objects."""
    rows = [
        {
            column: None if isinstance(cell, float) and not math.isfinite(cell) else cell
            for column, cell in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]
    content = {"version": VERSION, "title": table.title, "rows": rows}
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode("ascii")
