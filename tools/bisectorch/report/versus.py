"""The report of a comparison of two builds: text, markdown, JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bisectorch.model import Commit, Comparison, Judgement, Side, Versus
from bisectorch.report import jsonreport, markdown, text, wording
from bisectorch.report.wording import one_line, quantity, short

VERSION = 1
"""Grows when a field changes its meaning or goes; new fields alone do not change it."""

SORTS = ("name", "ratio", "default")

_WORSE, _BETTER, _ALIKE = "got worse", "improved", "stayed the same or are unknown"
_STYLE = {_WORSE: "red", _BETTER: "green", _ALIKE: ""}


@dataclass(frozen=True)
class Layout:
    """How the table is laid out.

    Attributes:
        split: one table for what got worse, improved, and did neither.
        only_changed: leave out what did neither.
        sort: ``name``, ``ratio`` (the largest first) or ``default`` (as discovered).
    """

    split: bool = False
    only_changed: bool = False
    sort: str = "ratio"


def write_versus(versus: Versus, form: str, stream: TextIO, layout: Layout) -> None:
    """Write it as ``text``, ``markdown`` or ``json``; JSON holds everything, in order."""
    if form == "json":
        stream.write(json.dumps(as_values(versus), indent=2, allow_nan=False) + "\n")
    elif form == "markdown":
        stream.write(text.encodable(_markdown(versus, layout), stream))
    else:
        text.write_renderables(_text(versus, layout), stream)


def summary(versus: Versus) -> str:
    """What was found, in one line."""
    groups = [group_of(each) for each in versus.comparisons]
    by_judgement = [each.judgement for each in versus.comparisons]
    different = by_judgement.count(Judgement.DIFFERENT)
    parts = [
        f"{wording.count(len(groups), 'workload')}: "
        f"{groups.count(_WORSE)} worse, {groups.count(_BETTER)} better"
    ]
    minor = different - sum(
        each.judgement is Judgement.DIFFERENT and each.is_relevant for each in versus.comparisons
    )
    if minor:
        parts.append(f"{minor} different by less than {wording.size_of(versus.smallest_step)}")
    same = by_judgement.count(Judgement.SAME)
    parts.append(f"{same} same within {wording.size_of(versus.smallest_step)}")
    unknown = sum(
        each.judgement is Judgement.UNKNOWN and not each.is_relevant for each in versus.comparisons
    )
    parts.append(f"{unknown} unknown")
    return ", ".join(parts)


def group_of(comparison: Comparison) -> str:
    """Whether it got worse, improved, or did neither."""
    if comparison.is_worse:
        return _WORSE
    return _BETTER if comparison.is_relevant else _ALIKE


def as_values(versus: Versus) -> dict[str, Any]:
    """The report as plain values, documented in docs/report-schema.md; unknown numbers are None."""
    return {
        "version": VERSION,
        "kind": "versus",
        "session": versus.session,
        "created": jsonreport.instant(versus.created_seconds),
        "finished": versus.finished,
        "old": _side_values(versus.old, versus.names[0]),
        "new": _side_values(versus.new, versus.names[1]),
        "smallest_step": _number(versus.smallest_step),
        "confidence": _number(versus.confidence),
        "false_rate": _number(versus.false_rate),
        "machine": dict(versus.machine),
        "environment": versus.environment,
        "cost": {
            "builds": versus.cost.builds,
            "runs": versus.cost.runs,
            "seconds": _number(versus.cost.seconds),
        },
        "summary": summary(versus),
        "got_worse": versus.got_worse,
        "geometric_mean": _number(versus.mean_ratio),
        "geometric_mean_interval": _numbers(versus.mean_interval),
        "workloads": [_values(each) for each in versus.comparisons],
    }


def _values(comparison: Comparison) -> dict[str, Any]:
    return {
        "benchmark": comparison.workload.name,
        "unit": comparison.workload.unit,
        "kind": comparison.workload.kind,
        "benchmark_version": comparison.workload.version,
        "verdict": comparison.judgement.value,
        "relevant": comparison.is_relevant,
        "worse": comparison.is_worse,
        "ratio": _number(comparison.ratio),
        "ratio_interval": _numbers(comparison.ratio_interval),
        "p_value": _number(comparison.p_value),
        "old": _level_values(comparison.before),
        "new": _level_values(comparison.after),
        "reason": comparison.reason,
    }


def _side_values(commit: Commit, name: str) -> dict[str, Any]:
    return {"commit": commit.sha, "name": name, "subject": commit.subject}


def _level_values(side: Side) -> dict[str, Any]:
    return {"level": _number(side.level), "runs": list(side.values)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_number(value) for value in values]


def _sections(versus: Versus, layout: Layout) -> list[tuple[str, list[Comparison]]]:
    """Titles with what stands under them; without ``split`` one section without a title."""
    chosen = list(versus.comparisons)
    if layout.only_changed:
        chosen = [each for each in chosen if each.is_relevant]
    if layout.sort == "name":
        chosen.sort(key=lambda each: each.workload.name)
    elif layout.sort == "ratio":
        chosen.sort(key=_largest_first)
    if not layout.split:
        return [("", chosen)] if chosen else []
    return [
        (f"Benchmarks that {group}", own)
        for group in (_WORSE, _BETTER, _ALIKE)
        if (own := [each for each in chosen if group_of(each) == group])
    ]


def _largest_first(comparison: Comparison) -> float:
    """What broke comes first, what has no ratio for another reason last."""
    if math.isnan(comparison.ratio):
        return -math.inf if comparison.is_worse else math.inf
    return -comparison.ratio


def _head(versus: Versus) -> list[tuple[str, str]]:
    facts = [
        ("old", _named(versus.old, versus.names[0])),
        ("new", _named(versus.new, versus.names[1])),
        (
            "asked",
            f"changes of at least {wording.size_of(versus.smallest_step)}; "
            f"intervals hold with {versus.confidence * 100:g} %; of what is called different at "
            f"most {versus.false_rate * 100:g} % is expected to be wrong",
        ),
        (
            "measured on",
            f"{one_line(versus.machine.get('machine', ''))}  {one_line(versus.environment)}",
        ),
        (
            "cost",
            f"{wording.count(versus.cost.builds, 'build')}, "
            f"{wording.count(versus.cost.runs, 'run')}, {wording.duration(versus.cost.seconds)}",
        ),
    ]
    if not versus.finished:
        again = f"bisectorch versus --resume {one_line(versus.session)}"
        facts.append(("unfinished", f"cut short; go on with: {again}"))
    return [fact for fact in facts if fact[1].strip()]


def _named(commit: Commit, name: str) -> str:
    label = one_line(name, 80)
    known = short(commit.sha)
    label = "" if commit.sha.startswith(name) else f"  ({label})"
    return f"{known}{label}  {one_line(commit.subject, 80)}".rstrip()


def _row(comparison: Comparison) -> tuple[str, str, str, str, str]:
    """Verdict, old, new, change with interval, benchmark."""
    unit = comparison.workload.unit
    levels = [
        quantity(side.level, unit) if side.values else "–"
        for side in (comparison.before, comparison.after)
    ]
    change = ""
    if math.isfinite(comparison.ratio):
        change = _change(comparison.ratio, comparison.ratio_interval)
    verdict = comparison.judgement.value
    if comparison.is_relevant and comparison.judgement is Judgement.UNKNOWN:
        verdict = "broken"
    mark = {_WORSE: "+ ", _BETTER: "- "}.get(group_of(comparison), "  ")
    name = comparison.workload.name
    if comparison.reason:
        name += f"  ({comparison.reason})"
    return f"{mark}{verdict}", levels[0], levels[1], change, name


def _change(ratio: float, interval: tuple[float, float]) -> str:
    """The change with its interval, in no more digits than the interval allows."""
    low, high = interval
    if not all(map(math.isfinite, interval)) or low == 0.0:
        return f"{_percent(ratio, 1)} %"
    decimals = 1 if high - low > 0.002 else 2
    between = f"[{_percent(low, decimals)}, {_percent(high, decimals)}] %"
    return f"{_percent(ratio, decimals)} %  {between}"


def _percent(ratio: float, decimals: int) -> str:
    shown = f"{(ratio - 1) * 100:+.{decimals}f}"
    return shown[1:] if float(shown) == 0 else shown


def _mean_line(versus: Versus) -> str:
    if len(versus.comparisons) < 2 or not math.isfinite(versus.mean_ratio):
        return ""
    return f"geometric mean {_change(versus.mean_ratio, versus.mean_interval)}"


_COLUMNS = ("verdict", "old", "new", "change", "benchmark")


def _text(versus: Versus, layout: Layout) -> list[RenderableType]:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for name, value in _head(versus):
        facts.add_row(name, Text(value))
    parts: list[RenderableType] = [facts]
    for title, comparisons in _sections(versus, layout):
        parts += ["", Text(title, style="bold")] if title else [""]
        parts.append(_table(comparisons))
    parts += ["", Text(summary(versus), style="bold")]
    mean = _mean_line(versus)
    return [*parts, Text(mean)] if mean else parts


def _table(comparisons: Sequence[Comparison]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for column in _COLUMNS[:-1]:
        table.add_column(column, no_wrap=True, justify="left" if column == "verdict" else "right")
    table.add_column(_COLUMNS[-1], overflow="fold")
    for comparison in comparisons:
        *cells, name = _row(comparison)
        style = _STYLE[group_of(comparison)]
        table.add_row(*cells, Text(one_line(name, 300)), style=style)
    return table


def _markdown(versus: Versus, layout: Layout) -> str:
    lines = [f"# {markdown.text(versus.names[0])} against {markdown.text(versus.names[1])}", ""]
    lines += [f"- {name}: {markdown.text(value)}" for name, value in _head(versus)]
    for title, comparisons in _sections(versus, layout):
        lines += ["", *([f"## {title}", ""] if title else [])]
        lines += [f"| {' | '.join(_COLUMNS)} |", "|---|--:|--:|--:|---|"]
        for comparison in comparisons:
            verdict, old, new, change, _ = _row(comparison)
            name = markdown.code(comparison.workload.name)
            if comparison.reason:
                name += f" ({markdown.text(comparison.reason)})"
            mark = f"**{verdict[2:]}**" if comparison.is_relevant else verdict[2:]
            lines.append(f"| {mark} | {old} | {new} | {change} | {name} |")
    lines += ["", f"**{summary(versus)}**"]
    mean = _mean_line(versus)
    return "\n".join([*lines, *(["", mean] if mean else [])]) + "\n"
