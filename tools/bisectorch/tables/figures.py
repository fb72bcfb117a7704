"""A table as a figure: for each row the account's dot and ours, on a logarithmic scale.

Dots, because a bar's length says nothing where the scale has no zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bisectorch.tables.shapes import Column, Kind, Row, Table, shown

COLOURS = {Kind.ACCOUNT: ("#b8bcc4", "#8d939e"), Kind.OURS: ("#2f6fb3", "#1f9e89")}
SPREAD = 0.7
"""How much of a row's height its dots share."""


def save_figure(table: Table, path: Path) -> None:
    """Draw the table into an ``.svg`` or ``.png``."""
    figure = draw(table)
    # Without a date the same table is the same file.
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=150, metadata=metadata)


def draw(table: Table) -> Figure:
    """A figure that belongs to no window, so that it can be drawn anywhere."""
    series = [
        (place, column)
        for place, column in enumerate(table.columns)
        if column.kind in COLOURS
        and any(isinstance(row.cells[place], int | float) for row in table.rows)
    ]
    rows = [row for row in table.rows if any(row.cells[place] is not None for place, _ in series)]
    height = 1.4 + len(rows) * max(0.34, 0.17 * len(series))
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    _dots(axes, series, rows)
    axes.set_yticks(range(len(rows)), [_label(row, table) for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    for edge in range(1, len(rows)):
        axes.axhline(edge - 0.5, color="#e3e5e9", linewidth=0.6, zorder=0)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    units = list(dict.fromkeys(column.unit for _, column in series if column.unit))
    axes.set_xlabel({"s": "seconds", "%": "percent"}.get(units[0], units[0]) if units else "")
    axes.set_title(f"{table.name}: {table.title}", loc="left", fontsize=10)
    if series and rows:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _dots(axes: Any, series: Sequence[tuple[int, Column]], rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(column.series for _, column in series))
    step = SPREAD / max(1, len(series))
    for number, (place, column) in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * step
        cells = [row.cells[place] for row in rows]
        # Nothing and what is below zero have no place on a logarithmic scale.
        drawn = [(y + offset, c) for y, c in enumerate(cells) if isinstance(c, int | float)]
        drawn = [(y, c) for y, c in drawn if c > 0]
        is_ours = column.kind is Kind.OURS
        axes.plot(
            [value for _, value in drawn],
            [y for y, _ in drawn],
            linestyle="none",
            marker="o" if is_ours else "D",
            markersize=6 if is_ours else 5,
            color=COLOURS[column.kind][names.index(column.series) % 2],
            label=column.title,
        )
        for y, value in drawn:
            axes.annotate(
                shown(value, column),
                (value, y),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )


def _label(row: Row, table: Table) -> str:
    names = [
        str(cell)
        for cell, column in zip(row.cells, table.columns, strict=True)
        if column.kind is Kind.NAME and cell is not None
    ]
    leading = 2 if table.columns[1].kind is Kind.NAME and table.name in ("A3", "profile") else 1
    label = " ".join(names[:leading])
    return label if len(label) <= 48 else label[:45] + "..."
