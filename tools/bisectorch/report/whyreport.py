"""Explanations as reports of their own: for a terminal, as markdown, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bisectorch.model import CodeChange, Difference, Explanation, TouchedFile
from bisectorch.report import markdown, text, wording
from bisectorch.report.why import CAUSES_SHOWN, calls, headline, place, touched_words, values
from bisectorch.report.wording import one_line, quantity

VERSION = 1
"""Of the JSON; grows when a field changes its meaning or goes."""

PARTS_SHOWN = 4
FILES_SHOWN = 8


def write_explanations(found: Sequence[Explanation], form: str, stream: TextIO) -> None:
    """Write explanations as ``text``, ``markdown`` or ``json``."""
    if form == "json":
        report = {"version": VERSION, "explanations": [values(each) for each in found]}
        stream.write(json.dumps(report, indent=2, allow_nan=False) + "\n")
    elif form == "markdown":
        parts = [f"## {markdown.code(each.workload)}\n\n{as_markdown(each)}" for each in found]
        stream.write(text.encodable("\n\n".join(parts) + "\n", stream))
    else:
        shown: list[RenderableType] = []
        for explanation in found:
            shown += ["", Text(one_line(explanation.workload), style="bold cyan")]
            shown += [Padding(part, (0, 2)) for part in renderables(explanation)]
        text.write_renderables(shown[1:], stream)


def renderables(explanation: Explanation) -> Iterator[RenderableType]:
    """Everything, for a rich console."""
    if explanation.level_seconds[0]:
        yield Text(one_line(headline(explanation)))
    if explanation.reason:
        yield Text(one_line(explanation.reason, 400), style="yellow")
    if explanation.causes:
        yield ""
        yield _causes(explanation)
    elif explanation.functions:
        yield ""
        yield _differences(explanation.functions[:CAUSES_SHOWN])
    if explanation.touched:
        yield ""
        yield _touched(explanation.touched)
    for note in explanation.notes:
        yield Text(f"({one_line(note, 400)})", style="dim")


def _columns(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("calls", no_wrap=True)
    return table


def _causes(explanation: Explanation) -> Table:
    table = _columns("cause")
    step = explanation.step_seconds
    for cause in explanation.causes[:CAUSES_SHOWN]:
        head = Text(one_line(cause.name, 200), style="bold")
        if cause.path:
            head.append(f"  {one_line(place(cause), 200)}", style="dim")
        if cause.why:
            head.append(f"\n{one_line(cause.why, 300)}", style="")
        table.add_row(
            head,
            quantity(cause.seconds, "seconds", sign=True),
            f"{cause.share * 100:.0f} %",
            calls(cause.calls),
        )
        for part in cause.parts[:PARTS_SHOWN]:
            share = part.grew_seconds / step * 100 if step else 0.0
            table.add_row(
                Text(f"  in it {one_line(part.name, 200)}{_note(part.change)}", style="dim"),
                Text(quantity(part.grew_seconds, "seconds", sign=True), style="dim"),
                Text(f"{share:.0f} %", style="dim"),
                Text(calls(part.calls), style="dim"),
            )
    more = explanation.causes[CAUSES_SHOWN:]
    if more:
        seconds = sum(cause.seconds for cause in more)
        table.add_row(
            f"{wording.count(len(more), 'smaller cause')}",
            quantity(seconds, "seconds", sign=True),
            f"{seconds / step * 100:.0f} %" if step else "",
            "",
        )
    rest = explanation.unexplained_seconds
    table.add_row(
        Text("unexplained", style="italic"),
        quantity(rest, "seconds", sign=True),
        f"{rest / step * 100:.0f} %" if step else "",
        "",
    )
    return table


def _note(change: CodeChange) -> str:
    return f" ({change.value})" if change not in (CodeChange.SAME, CodeChange.COMPILED) else ""


def _differences(found: Sequence[Difference]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("function", overflow="fold")
    table.add_column("own time", justify="right", no_wrap=True)
    table.add_column("calls", no_wrap=True)
    for row in found:
        table.add_row(
            Text(one_line(f"{row.name}  {place(row)}", 200)),
            quantity(row.grew_seconds, "seconds", sign=True),
            calls(row.calls),
        )
    return table


def _touched(files: Sequence[TouchedFile]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for file in files[:FILES_SHOWN]:
        table.add_row(Text(one_line(file.path, 200)), Text(one_line(touched_words(file), 300)))
    if len(files) > FILES_SHOWN:
        table.add_row(f"and {wording.count(len(files) - FILES_SHOWN, 'more file')}", "")
    return table


def as_markdown(explanation: Explanation) -> str:
    """The explanation as markdown, without a heading."""
    parts = []
    if explanation.level_seconds[0]:
        parts.append(markdown.text(headline(explanation)) + ".")
    if explanation.reason:
        parts.append(f"*{markdown.text(explanation.reason)}*")
    if explanation.causes:
        parts.append(_markdown_causes(explanation))
    if explanation.touched:
        parts.append(
            "\n".join(
                f"- {markdown.code(file.path)}: {markdown.text(touched_words(file))}"
                for file in explanation.touched[:FILES_SHOWN]
            )
        )
    parts += [f"<sub>{markdown.text(note)}</sub>" for note in explanation.notes]
    return "\n\n".join(parts)


def _markdown_causes(explanation: Explanation) -> str:
    step = explanation.step_seconds
    lines = ["| cause | | time | share | calls |", "|---|---|--:|--:|---|"]
    for cause in explanation.causes[:CAUSES_SHOWN]:
        where = f" {markdown.code(place(cause))}" if cause.path else ""
        lines.append(
            f"| {markdown.code(cause.name)}{where} | {markdown.text(cause.why)} "
            f"| {quantity(cause.seconds, 'seconds', sign=True)} | {cause.share * 100:.0f} % "
            f"| {calls(cause.calls)} |"
        )
    rest = sum(cause.seconds for cause in explanation.causes[CAUSES_SHOWN:])
    for name, seconds in (
        ("smaller causes", rest),
        ("unexplained", explanation.unexplained_seconds),
    ):
        if seconds:
            lines.append(
                f"| {name} | | {quantity(seconds, 'seconds', sign=True)} "
                f"| {seconds / step * 100:.0f} % | |"
            )
    return "\n".join(lines)
