"""Figures (matplotlib, without pyplot's global state): SVG and PNG with deterministic bytes.

An SVG carries a style sheet that recolours it where the reader prefers dark; a PNG is drawn on
a solid ground. The colours are a colour-blind safe set (Okabe and Ito, "Color Universal
Design", 2008, darkened or lightened for contrast), and nothing is told by colour alone.
"""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.model import Culprit, Findings, WorkloadFindings
from bisectorch.report import account, wording
from bisectorch.report.wording import one_line

LIGHT = {
    "ground": "#ffffff",
    "ink": "#1f2430",
    "muted": "#6a7180",
    "grid": "#e3e6eb",
    "run": "#0067a8",
    "level": "#2f3644",
    "band": "#aab4c5",
    "regression": "#b54200",
    "improvement": "#00785a",
    "broken": "#8a5a00",
}
DARK = {
    "ground": "#14171d",
    "ink": "#e8ebf0",
    "muted": "#98a1b0",
    "grid": "#2a303a",
    "run": "#5ab4f0",
    "level": "#d5dae3",
    "band": "#56627a",
    "regression": "#ff9557",
    "improvement": "#3ecfa4",
    "broken": "#e0ad4d",
}
MAX_TICKS = 9
LABEL_ROWS = 4
LABEL_WIDTH = 0.165
SPREAD = 0.6
LOG_ABOVE = 10
"""The ratio of the largest to the smallest run from which on the axis is logarithmic."""
_WIDTH, _HEIGHT, _ROW = 9.6, 3.7, 0.2
_GLYPHS = re.compile(r"[^\x20-\x7e\xa0-\u024f\u0370-\u052f]")
"""What the bundled font may lack."""


@dataclass(frozen=True)
class _Scene:
    """What is drawn, in the figure's own unit."""

    findings: Findings
    found: WorkloadFindings
    size: float
    unit: str
    measured: tuple[account.Measured, ...]
    broken: tuple[int, ...]
    url: Callable[[str], str | None] = lambda sha: None


def levels_figure(
    findings: Findings,
    found: WorkloadFindings,
    url: Callable[[str], str | None] = lambda sha: None,
) -> Figure:
    """One workload's levels and every run against the commits, with its culprits marked.

    ``url`` tells a commit's page; in an SVG each run then links to its commit.

    Commits stand side by side, oldest first; each run is a point, the levels a line in a band
    of the posterior's interval. Along the bottom a tick is an unmeasured commit and a cross one
    that could not be measured. Drawn in the light colours; :func:`svg` adds the dark ones.
    """
    scene = replace(_scene(findings, found), url=url)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        _draw_levels(axes, scene)
        _draw_runs(axes, scene)
        _draw_floor(axes, scene)
        rows = _draw_culprits(axes, scene)
        figure.set_figheight(_HEIGHT + _ROW * rows)
        _dress(axes, scene, rows)
        settle(figure)
    return figure


def settle(figure: Figure) -> None:
    """Lay out once: laid out at each drawing, bytes would depend on those before."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def alt_text(findings: Findings, found: WorkloadFindings) -> str:
    """What the figure shows, for those who do not see it."""
    scene = _scene(findings, found)
    unit = found.workload.unit
    runs = sum(len(point.values) for point in scene.measured)
    parts = [
        f"Levels of {one_line(found.workload.name)} along "
        f"{wording.count(len(findings.range.line), 'commit')}: "
        f"{wording.count(runs, 'run')} of {wording.count(len(scene.measured), 'commit')}."
    ]
    line = account.chronological(findings, found)
    parts += [
        f"At {wording.short(culprit.commit.sha)} a step from "
        f"{wording.quantity(culprit.parent.level, unit)} to "
        f"{wording.quantity(culprit.child.level, unit)}, {wording.percent(culprit.ratio)}."
        for culprit in line
    ]
    if not line:
        parts.append(f"{account.verdict_line(findings, found)}.")
    if scene.broken:
        parts.append(f"{wording.count(len(scene.broken), 'commit')} could not be measured.")
    return " ".join(parts)


def svg(figure: Figure) -> bytes:
    """The figure as an SVG on a clear ground, with the same bytes for the same figure.

    It follows the reader's preference for dark or light, alone and inside a page.
    """
    stream = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    head, tag, rest = stream.getvalue().partition(b"<defs>")
    return head + _DARK_SHEET.encode() + tag + rest


_OUTSIDE = re.compile(rb"\A.*?(?=<svg )", re.DOTALL)
_METADATA = re.compile(rb"<metadata>.*?</metadata>", re.DOTALL)
_IDENTIFIER = re.compile(rb'(\bid="|url\(#|href="#)')
_LINK = re.compile(rb'<a xlink:href="')


def inside_page(drawn: bytes, name: str, words: str) -> bytes:
    """An SVG of ours as part of a page: its identifiers made its own, its words for all readers.

    ``name`` tells it from other figures of the page. Its links are reached by pointing, not by
    the keyboard: each commit is also linked from a table.
    """
    body = _METADATA.sub(b"", _OUTSIDE.sub(b"", drawn))
    mark = name.encode("ascii") + b"-"
    body = _IDENTIFIER.sub(lambda found: found[1] + mark, body)
    body = _LINK.sub(b'<a tabindex="-1" aria-hidden="true" xlink:href="', body)
    label = html.escape(words).encode("utf-8", "replace")
    return body.replace(b"<svg ", b'<svg role="group" aria-label="' + label + b'" ', 1)


def png(figure: Figure, dpi: int = 160) -> bytes:
    """The figure as a PNG on white, with the same bytes for the same figure."""
    stream = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(
            stream, format="png", dpi=dpi, facecolor=LIGHT["ground"], metadata={"Software": None}
        )
    return stream.getvalue()


def save_figure(findings: Findings, path: Path) -> None:
    """Write the figure of each workload, as the name's ending asks (.svg or .png).

    One workload goes to ``path`` itself; of several, each but the first gets ``-2``, ``-3``...
    before the ending.
    """
    writers = {".svg": svg, ".png": png}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"{path} must end in .svg or .png")
    for number, found in enumerate(findings.workloads, start=1):
        target = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            target.write_bytes(write(levels_figure(findings, found)))
        except OSError as error:
            raise EnvironmentFailure(f"cannot write {target}: {error.strerror}") from error


STYLE: Any = {
    "svg.hashsalt": "bisectorch",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["muted"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.unicode_minus": False,
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "text.parse_math": False,
    "path.simplify": True,
}

_DARK_SHEET = (
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif!important}\n"
    "@media screen and (prefers-color-scheme:dark){\n"
    + "".join(
        f'[style*="{what}: {light}"]{{{what}:{DARK[name]}!important}}\n'
        for name, light in LIGHT.items()
        for what in ("fill", "stroke")
    )
    # Hatched areas are patterns, which name their ground as an attribute.
    + "".join(
        f'pattern [fill="{light}"]{{fill:{DARK[name]}!important}}\n'
        for name, light in LIGHT.items()
    )
    + "}\n</style>\n "
)


def _scene(findings: Findings, found: WorkloadFindings) -> _Scene:
    measured = account.measured(findings, found)
    values = [value for point in measured for value in point.values]
    size, unit = wording.scale(values, found.workload.unit)
    order = account.positions(findings)
    broken = tuple(
        order[item.commit.sha]
        for item in account.broken(findings, found)
        if item.commit.sha in order
    )
    return _Scene(findings, found, size, unit, measured, broken)


def _draw_levels(axes: Axes, scene: _Scene) -> None:
    posterior = scene.found.posterior
    if posterior is None:
        return
    edges = [index - 0.5 for index in range(len(posterior.level) + 1)]

    def stairs(logs: Sequence[float]) -> list[float]:
        return [math.exp(value) / scene.size for value in logs]

    low, high = stairs(posterior.level_low), stairs(posterior.level_high)
    axes.stairs(
        high,
        edges,
        baseline=low,
        fill=True,
        facecolor=LIGHT["band"],
        edgecolor="none",
        alpha=0.45,
        label=f"{scene.findings.confidence * 100:g} % interval of the level",
        zorder=1,
    )
    axes.stairs(
        stairs(posterior.level),
        edges,
        baseline=None,
        color=LIGHT["level"],
        linewidth=1.6,
        label="level",
        zorder=2,
    )


def _draw_runs(axes: Axes, scene: _Scene) -> None:
    # A commit's runs stand side by side in the order they were made, so that each is seen.
    points = [
        (
            point.position + SPREAD * ((turn + 0.5) / len(point.values) - 0.5),
            value / scene.size,
            scene.url(point.commit.sha),
        )
        for point in scene.measured
        for turn, value in enumerate(point.values)
    ]
    if not points:
        axes.text(0.5, 0.5, "nothing was measured", transform=axes.transAxes, ha="center")
        return
    drawn = axes.scatter(
        [x for x, _, _ in points],
        [y for _, y, _ in points],
        s=11,
        color=LIGHT["run"],
        linewidths=0,
        alpha=0.75,
        label="one run",
        zorder=3,
    )
    if any(link for _, _, link in points):
        drawn.set_urls([link for _, _, link in points])


def _draw_floor(axes: Axes, scene: _Scene) -> None:
    """What was not measured, along the bottom axis."""
    known = {point.position for point in scene.measured} | set(scene.broken)
    unmeasured = [x for x in range(len(scene.findings.range.line)) if x not in known]
    axis = axes.get_xaxis_transform()
    floor = 0.03
    if unmeasured:
        axes.scatter(
            unmeasured,
            [floor] * len(unmeasured),
            marker="|",
            s=26,
            color=LIGHT["muted"],
            linewidths=0.9,
            transform=axis,
            clip_on=False,
            label="not measured",
            zorder=4,
        )
    if scene.broken:
        axes.scatter(
            scene.broken,
            [floor] * len(scene.broken),
            marker="x",
            s=28,
            color=LIGHT["broken"],
            linewidths=1.5,
            transform=axis,
            clip_on=False,
            label="not measurable",
            zorder=4,
        )


def _draw_culprits(axes: Axes, scene: _Scene) -> int:
    """Mark each culprit and label it above; returns how many rows the labels take."""
    size = len(scene.findings.range.line)
    order = account.positions(scene.findings)
    ends: list[float] = []
    for culprit in account.chronological(scene.findings, scene.found):
        x = account.position_of(scene.findings, culprit)
        if x is None:
            continue
        name = "regression" if culprit.is_regression else "improvement"
        span = [order[sha] for sha in culprit.credible_set if sha in order] or [x]
        axes.axvspan(
            min(span) - 0.5,
            max(span) + 0.5,
            facecolor=LIGHT[name],
            edgecolor="none",
            alpha=0.13,
            zorder=0,
        )
        axes.axvline(x, color=LIGHT[name], linewidth=1.3, linestyle=(0, (4, 2)), zorder=2)
        # Labels stand in the first row that is free at their place; the last one takes the rest.
        place = min(max(x / max(size - 1, 1), LABEL_WIDTH / 2), 1 - LABEL_WIDTH / 2)
        row = next((r for r, end in enumerate(ends) if end <= place - LABEL_WIDTH / 2), len(ends))
        row = min(row, LABEL_ROWS - 1)
        ends[row : row + 1] = [place + LABEL_WIDTH / 2]
        axes.annotate(
            _label(culprit),
            (x, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4 + row * 14),
            textcoords="offset points",
            ha="left" if x < size * 0.06 else "right" if x > size * 0.94 else "center",
            color=LIGHT[name],
            fontsize=9,
            fontweight="bold",
            annotation_clip=False,
        )
    return len(ends)


def _label(culprit: Culprit) -> str:
    sign = "\N{BLACK UP-POINTING TRIANGLE}"
    if not culprit.is_regression:
        sign = "\N{BLACK DOWN-POINTING TRIANGLE}"
    return f"{sign} {wording.percent(culprit.ratio)}  {one_line(culprit.commit.sha[:7])}"


def _dress(axes: Axes, scene: _Scene, rows: int) -> None:
    """Title, axes, grid and legend."""
    line = scene.findings.range.line
    title = _GLYPHS.sub("?", one_line(scene.found.workload.name, 90))
    axes.set_title(title, loc="left", fontsize=10, color=LIGHT["ink"], pad=8 + rows * 14)
    ticks = _ticks(scene)
    axes.set_xticks(ticks, [one_line(line[index].sha[:7]) for index in ticks], fontsize=8)
    axes.set_xlim(-0.9, len(line) - 0.1)
    axes.margins(y=0.12)
    values = [value for point in scene.measured for value in point.values]
    if values and min(values) > 0 and max(values) > LOG_ABOVE * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
        # Room for the floor, so that no run hides behind it.
        low, high = axes.get_ylim()
        axes.set_ylim(low - 0.06 * (high - low), high)
    kind = scene.found.workload.kind
    axes.set_ylabel(_GLYPHS.sub("?", one_line(f"{kind} ({scene.unit})", 40)))
    axes.set_xlabel("commits, oldest first")
    axes.grid(axis="y", color=LIGHT["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.figure.legend(
            loc="outside lower left",
            ncols=5,
            frameon=False,
            fontsize=8,
            labelcolor=LIGHT["muted"],
            handletextpad=0.5,
            columnspacing=1.4,
        )


def _ticks(scene: _Scene) -> list[int]:
    """A few commits along the axis: the ends, the culprits, and others where there is room."""
    size = len(scene.findings.range.line)
    wanted = [0, size - 1]
    for culprit in scene.found.culprits:
        position = account.position_of(scene.findings, culprit)
        if position is not None:
            wanted.append(position)
    wanted += [round(k * (size - 1) / MAX_TICKS) for k in range(1, MAX_TICKS)]
    room = size / (MAX_TICKS + 4)
    ticks: list[int] = []
    for position in wanted:
        if all(abs(position - other) >= room for other in ticks):
            ticks.append(position)
    return sorted(ticks)
