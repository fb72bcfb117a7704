"""Tables written: text, markdown, CSV, JSON; and one file of each, with a figure, in a folder."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from bisectorch.errors import EnvironmentFailure
from bisectorch.tables.shapes import Kind, Row, Table, shown

SCHEMA = 1


def heads(table: Table) -> list[str]:
    """The columns' titles with their units, and the last one for reasons."""
    titles = [f"{c.title}, {c.unit}" if c.unit else c.title for c in table.columns]
    return [*titles, "note"] if any(row.why for row in table.rows) else titles


def lines(table: Table) -> list[list[str]]:
    """The rows as people read them, as long as ``heads``."""
    width = len(heads(table))
    made = []
    for row in table.rows:
        pairs = zip(row.cells, table.columns, strict=True)
        cells = [shown(cell, column) for cell, column in pairs]
        made.append([*cells, row.why][:width])
    return made


def text(tables: Sequence[Table]) -> str:
    """Aligned columns, one table below the other."""
    return "\n".join(_text(table) for table in tables)


def _text(table: Table) -> str:
    rows = [heads(table), *lines(table)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    left = [column.kind is Kind.NAME for column in table.columns] + [True]
    out = [f"{table.name}: {table.title}", f"account: {table.source}", ""]
    for row in rows:
        cells = [
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=False)
        ]
        out.append("  ".join(cells).rstrip())
    out.append("")
    out += [f"* {note}" for note in table.notes]
    out += [f"{name}: {value}" for name, value in table.conditions.items()]
    return "\n".join(out) + "\n"


def markdown(tables: Sequence[Table]) -> str:
    """A heading and a pipe table each."""
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    titles = heads(table)
    right = [column.kind is not Kind.NAME for column in table.columns] + [False]
    out = [f"## {table.name}: {table.title}", "", f"Account: {table.source}.", ""]
    out.append(_piped(titles))
    out.append("|" + "|".join("---:" if each else "---" for each in right[: len(titles)]) + "|")
    out += [_piped(line) for line in lines(table)]
    out.append("")
    out += [f"- {note}" for note in table.notes]
    out += [f"- {name}: {value}" for name, value in table.conditions.items()]
    return "\n".join(out) + "\n"


def _piped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def comma_separated(tables: Sequence[Table]) -> str:
    """One line a cell: table, row, column, what it is, unit, value, why it is missing."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["table", "row", "column", "kind", "unit", "value", "note"])
    for table in tables:
        for row in table.rows:
            name = _row_name(row, table)
            for cell, column in zip(row.cells, table.columns, strict=True):
                value = "" if cell is None else cell
                kind = column.kind.value
                writer.writerow([table.name, name, column.title, kind, column.unit, value, row.why])
    return stream.getvalue()


def _row_name(row: Row, table: Table) -> str:
    """The leading name cells, joined."""
    names = []
    for cell, column in zip(row.cells, table.columns, strict=True):
        if column.kind is not Kind.NAME:
            break
        names.append(str(cell))
    return " ".join(names[:2]).strip()


def as_json(tables: Sequence[Table]) -> str:
    """All of it, numbers as numbers: {"schema": 1, "tables": [...]}."""
    made = [asdict(table) for table in tables]
    for each in made:
        for column in each["columns"]:
            column["kind"] = column["kind"].value
    return json.dumps({"schema": SCHEMA, "tables": made}, indent=1, ensure_ascii=False) + "\n"


WRITERS: dict[str, Callable[[Sequence[Table]], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": comma_separated,
    "json": as_json,
}
FORMATS = tuple(WRITERS)
ENDINGS = {"text": "txt", "markdown": "md", "csv": "csv", "json": "json"}


def write(tables: Sequence[Table], form: str, stream: TextIO) -> None:
    """Write the tables in one of FORMATS; what the stream cannot encode is escaped."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    made = WRITERS[form](tables)
    stream.write(made.encode(encoding, "backslashreplace").decode(encoding))


def save(table: Table, folder: Path) -> None:
    """``NAME.txt``, ``.md``, ``.csv``, ``.json`` and ``.svg``; EnvironmentFailure for the disk."""
    # Drawing takes long to load.
    from bisectorch.tables.figures import save_figure

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for form, ending in ENDINGS.items():
            (folder / f"{table.name}.{ending}").write_text(WRITERS[form]([table]), "utf-8")
        save_figure(table, folder / f"{table.name}.svg")
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write {table.name} into {folder}: {error.strerror}; choose another folder"
        ) from error
