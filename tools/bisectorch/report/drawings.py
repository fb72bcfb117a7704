"""Figures beside the levels: beliefs, how culprits add up, stages, operators.

Drawn as :mod:`figures` draws: the same colours, SVG and PNG, deterministic bytes, and nothing
told by colour alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bisectorch.model import Culprit, Difference, Explanation, Findings, WorkloadFindings
from bisectorch.report import account, wording
from bisectorch.report.figures import LIGHT, STYLE, settle
from bisectorch.report.wording import one_line

Link = Callable[[str], str | None]

NEIGHBOURS = 12
"""Commits shown on either side of a culprit."""
SHOWN = 12
"""Operators shown, and stages told apart."""
_GLYPHS = re.compile(r"[^\x20-\x7e\xa0-\u024f\u0370-\u052f\u2190-\u21ff\u25a0-\u25ff]")
_HATCHES = (
    "",
    "////",
    "....",
    "xxxx",
    "\\\\\\\\",
    "----",
    "++++",
    "oooo",
    "||||",
    "OO",
    "**",
    "//",
)
_WIDTH = 9.6


def _text(text: str, limit: int = 60) -> str:
    return _GLYPHS.sub("?", one_line(text, limit))


def _dress(axes: Axes, title: str, grid: Literal["x", "y"]) -> None:
    axes.set_title(_text(title, 110), loc="left", fontsize=10, color=LIGHT["ink"])
    axes.grid(axis=grid, color=LIGHT["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left" if grid == "y" else "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis=grid, length=0)


def posterior_figure(
    findings: Findings, found: WorkloadFindings, culprit: Culprit, url: Link = lambda sha: None
) -> Figure | None:
    """How probable a change is at each commit around a culprit; None where that is unknown.

    Bars of the credible set are hatched; under each bar a dot says that the commit was measured
    and a cross that it could not be.
    """
    place = account.position_of(findings, culprit)
    if place is None or found.posterior is None:
        return None
    line = findings.range.line
    first, last = max(1, place - NEIGHBOURS), min(len(line) - 1, place + NEIGHBOURS)
    chosen = set(culprit.credible_set) | {(culprit.merge or culprit.commit).sha}
    kind = account.kind(culprit)
    runs = account.runs_of(found.observations)
    broken = {item.commit.sha for item in account.broken(findings, found)}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, 2.6), layout="constrained")
        axes = figure.add_subplot()
        places = range(first, last + 1)
        bars = axes.bar(
            places,
            [found.posterior.change[p] for p in places],
            width=0.72,
            color=[LIGHT[kind] if line[p].sha in chosen else LIGHT["band"] for p in places],
            hatch=["////" if line[p].sha in chosen else "" for p in places],
            edgecolor=LIGHT["ground"],
            linewidth=0,
        )
        for p, bar in zip(places, bars, strict=True):
            link = url(line[p].sha)
            if link:
                bar.set_url(link)
        under = axes.get_xaxis_transform()
        for marker, label, where in (
            ("o", "measured", [p for p in places if line[p].sha in runs]),
            ("x", "not measurable", [p for p in places if line[p].sha in broken]),
        ):
            if where:
                axes.scatter(
                    where,
                    [-0.05] * len(where),
                    marker=marker,
                    s=14,
                    color=LIGHT["run" if marker == "o" else "broken"],
                    transform=under,
                    clip_on=False,
                    label=label,
                )
        axes.set_ylim(0, 1)
        axes.set_xlim(first - 0.6, last + 0.6)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        named = [p for p in places if p in (first, last) or p == place]
        axes.set_xticks(named, [_text(line[p].sha[:7]) for p in named], fontsize=8)
        axes.tick_params(axis="x", length=0, pad=10)
        _dress(axes, "Probability of a change of at least the smallest step", "y")
        axes.legend(
            loc="upper right", frameon=False, fontsize=8, labelcolor=LIGHT["muted"], ncols=2
        )
        settle(figure)
    return figure


def posterior_words(findings: Findings, found: WorkloadFindings, culprit: Culprit) -> str:
    """What the picture of beliefs shows."""
    size = len(culprit.credible_set)
    where = "this commit" if size == 1 else f"one of {size} commits"
    return (
        f"Probability of a change at each commit around {wording.short(culprit.commit.sha)}: "
        f"{wording.share(culprit.probability)} that it lies at {where}."
    )


def waterfall_figure(
    findings: Findings, found: WorkloadFindings, url: Link = lambda sha: None
) -> Figure | None:
    """How each culprit adds up from FROM's level to TO's; None without culprits.

    What the culprits leave over is a bar of its own, so that nothing is hidden in a total.
    """
    steps = waterfall(findings, found)
    if steps is None:
        return None
    size, unit = wording.scale([steps.start, steps.end], found.workload.unit)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, 1.5 + 0.34 * (len(steps.parts) + 2)), layout="constrained")
        axes = figure.add_subplot()
        rows = len(steps.parts) + 2
        labels = [_text(steps.names[0]), *(_text(part.label, 56) for part in steps.parts)]
        labels.append(_text(steps.names[1]))
        axes.barh(rows - 1, steps.start / size, color=LIGHT["band"], height=0.62)
        axes.barh(0, steps.end / size, color=LIGHT["band"], height=0.62)
        level = steps.start
        largest = max([steps.start, steps.end])
        for index, part in enumerate(steps.parts):
            row = rows - 2 - index
            bar = axes.barh(
                row,
                part.delta / size,
                left=level / size,
                height=0.62,
                color=LIGHT[part.kind],
                hatch="" if part.kind != "improvement" else "////",
                edgecolor=LIGHT["ground"],
                linewidth=0,
            )
            link = url(part.sha) if part.sha else None
            if link:
                bar[0].set_url(link)
            sign = {"regression": "▲ ", "improvement": "▼ "}.get(part.kind, "")
            far = max(level, level + part.delta)
            axes.annotate(
                f"{sign}{wording.quantity(part.delta, found.workload.unit, sign=True)}",
                (far / size, row),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                fontweight="bold",
                color=LIGHT[part.kind if part.kind != "band" else "muted"],
            )
            axes.plot(
                [(level + part.delta) / size] * 2,
                [row + 0.31, row - 0.69],
                color=LIGHT["muted"],
                linewidth=0.8,
            )
            level += part.delta
            largest = max(largest, level)
        for row, value in ((rows - 1, steps.start), (0, steps.end)):
            axes.annotate(
                wording.quantity(value, found.workload.unit),
                (value / size, row),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=LIGHT["ink"],
            )
        axes.set_yticks(range(rows), labels[::-1], fontsize=8.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, largest / size * 1.14)
        axes.set_xlabel(_text(f"{found.workload.kind} ({unit})"))
        _dress(axes, "How the culprits add up", "x")
        settle(figure)
    return figure


@dataclass(frozen=True)
class Part:
    """One bar: a culprit's change in the workload's unit, or what is left over."""

    label: str
    delta: float
    kind: str
    sha: str = ""


@dataclass(frozen=True)
class Waterfall:
    """From the level at FROM to that at TO, in the workload's unit."""

    names: tuple[str, str]
    start: float
    end: float
    parts: tuple[Part, ...]


def waterfall(findings: Findings, found: WorkloadFindings) -> Waterfall | None:
    """The bars of the waterfall, oldest culprit first; None without levels or culprits."""
    posterior = found.posterior
    if posterior is None or not found.culprits:
        return None
    ends = (math.exp(posterior.level[0]), math.exp(posterior.level[-1]))
    if not all(map(math.isfinite, ends)):
        return None
    parts = [
        Part(
            f"{culprit.commit.sha[:7]}  {culprit.commit.subject}",
            culprit.delta,
            account.kind(culprit),
            culprit.commit.sha,
        )
        for culprit in account.chronological(findings, found)
    ]
    rest = ends[1] - ends[0] - sum(part.delta for part in parts)
    parts.append(Part("left over: drift below the smallest step", rest, "band"))
    line = findings.range
    names = (f"FROM  {line.baseline.sha[:7]}", f"TO  {line.tip.sha[:7]}")
    return Waterfall(names, ends[0], ends[1], tuple(parts))


def waterfall_words(findings: Findings, found: WorkloadFindings) -> str:
    """What the waterfall shows."""
    steps = waterfall(findings, found)
    if steps is None:
        return ""
    unit = found.workload.unit
    told = "; ".join(
        f"{one_line(part.label, 60)} {wording.quantity(part.delta, unit, sign=True)}"
        for part in steps.parts
    )
    return (
        f"From {wording.quantity(steps.start, unit)} at FROM to "
        f"{wording.quantity(steps.end, unit)} at TO: {told}."
    )


def stages_figure(
    title: str, unit: str, stages: Sequence[str], bars: Mapping[str, Sequence[float]]
) -> Figure:
    """What each stage of a workload takes, a stacked bar a commit.

    ``bars`` holds for each commit's label a value a stage, in ``unit``, NaN where it is unknown.
    """
    values = [value for bar in bars.values() for value in bar if math.isfinite(value)]
    size, name = wording.scale(values, unit)
    palette = [LIGHT[c] for c in ("run", "regression", "improvement", "broken", "muted", "band")]
    with mpl.rc_context({**STYLE, "hatch.linewidth": 0.6}):
        figure = Figure(figsize=(_WIDTH, 1.7 + 0.36 * len(bars)), layout="constrained")
        axes = figure.add_subplot()
        rows = range(len(bars))[::-1]
        left = [0.0] * len(bars)
        for index, stage in enumerate(stages):
            widths = [
                bar[index] / size if math.isfinite(bar[index]) else 0.0 for bar in bars.values()
            ]
            axes.barh(
                list(rows),
                widths,
                left=left,
                height=0.66,
                color=palette[index % len(palette)],
                hatch=_HATCHES[index % len(_HATCHES)],
                edgecolor=LIGHT["ground"],
                linewidth=0.6,
                label=_text(stage, 24),
            )
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.set_yticks(list(rows), [_text(label, 40) for label in bars], fontsize=8.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(name)
        _dress(axes, title, "x")
        figure.legend(
            loc="outside lower left",
            ncols=min(6, len(stages)),
            frameon=False,
            fontsize=8,
            labelcolor=LIGHT["muted"],
        )
        settle(figure)
    return figure


def stages_words(unit: str, stages: Sequence[str], bars: Mapping[str, Sequence[float]]) -> str:
    """What the picture of stages shows."""
    told = (
        f"{one_line(label, 40)}: "
        + ", ".join(
            f"{one_line(stage, 24)} {wording.quantity(value, unit)}"
            for stage, value in zip(stages, bar, strict=True)
        )
        for label, bar in bars.items()
    )
    return f"Stages by commit. {'; '.join(told)}."


def shown_differences(explanation: Explanation) -> tuple[Difference, ...]:
    """The operators, or the functions where there are none, whose own time changed most."""
    listed = explanation.operators or explanation.functions
    return tuple(sorted(listed, key=lambda d: abs(d.grew_seconds), reverse=True)[:SHOWN])


def operators_figure(explanation: Explanation) -> Figure | None:
    """Own time of each operator before and after, those that changed most; None without any."""
    shown = shown_differences(explanation)
    if not shown:
        return None
    values = [second for each in shown for second in each.self_seconds]
    size, unit = wording.scale(values, "seconds")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, 1.5 + 0.34 * len(shown)), layout="constrained")
        axes = figure.add_subplot()
        rows = list(range(len(shown)))[::-1]
        for row, each in zip(rows, shown, strict=True):
            before, after = (second / size for second in each.self_seconds)
            colour = LIGHT["regression" if after > before else "improvement"]
            axes.plot([before, after], [row, row], color=colour, linewidth=2.2, zorder=2)
            axes.annotate(
                wording.quantity(each.grew_seconds, "seconds", sign=True),
                (max(before, after), row),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                fontweight="bold",
                color=colour,
            )
        axes.scatter(
            [each.self_seconds[0] / size for each in shown],
            rows,
            s=34,
            facecolor=LIGHT["ground"],
            edgecolor=LIGHT["ink"],
            linewidth=1.4,
            zorder=3,
            label="before",
        )
        axes.scatter(
            [each.self_seconds[1] / size for each in shown],
            rows,
            s=34,
            marker="D",
            color=LIGHT["ink"],
            linewidth=0,
            zorder=3,
            label="after",
        )
        axes.set_yticks(rows, [_text(each.name, 44) for each in shown], fontsize=8.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, max(values) / size * 1.16 or 1.0)
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.set_xlabel(f"own time a call ({unit})")
        _dress(axes, "What the time went into, before and after", "x")
        figure.legend(
            loc="outside lower left",
            ncols=2,
            frameon=False,
            fontsize=8,
            labelcolor=LIGHT["muted"],
        )
        settle(figure)
    return figure


def operators_words(explanation: Explanation) -> str:
    """What the picture of operators shows."""
    told = (
        f"{one_line(each.name, 60)} from {wording.quantity(each.self_seconds[0], 'seconds')} to "
        f"{wording.quantity(each.self_seconds[1], 'seconds')}"
        for each in shown_differences(explanation)
    )
    return f"Own time a call: {'; '.join(told)}."
