"""Charts drawn as part of a page: a workload's history, and how a search went.

They hold thousands of points in few bytes, take their colours from the page's style sheet, and
have the same bytes for the same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from bisectorch.model import Culprit
from bisectorch.report import account, wording
from bisectorch.report.histories import Change, History, Line, Point
from bisectorch.report.wording import one_line

WIDTH, HEIGHT = 960, 340
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 46, 40
LINKED = 1500
"""So many points get links of their own; more would make the page too large."""
LOG_ABOVE = 10
_LABEL = 118
"""The width that a label needs."""
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "bar")


@dataclass(frozen=True)
class Mark:
    """A culprit on a chart: the place of its commit, and its page."""

    place: int
    culprit: Culprit
    url: str


@dataclass(frozen=True)
class _Frame:
    """Where data lies on the drawing."""

    ranks: dict[int, int]
    low: float
    high: float
    is_log: bool
    size: float
    unit: str

    def x(self, place: int) -> float:
        """Commits stand side by side, however far apart in the history."""
        rank = self.ranks.get(place)
        if rank is None:
            later = [self.ranks[p] for p in self.ranks if p >= place]
            rank = min(later, default=len(self.ranks) - 1)
        inner = WIDTH - LEFT - RIGHT
        return round(LEFT + inner * (rank + 0.5) / max(1, len(self.ranks)), 1)

    def y(self, value: float) -> float:
        """Higher values are higher up."""
        low, high, at = self.low, self.high, value
        if self.is_log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, low))
        inner = HEIGHT - TOP - BOTTOM
        return round(HEIGHT - BOTTOM - inner * (at - low) / ((high - low) or 1.0), 1)


def history_chart(
    history: History,
    marks: Sequence[Mark],
    changed: Sequence[Change],
    url: Callable[[str], str | None],
) -> Markup:
    """Every value with its interval, the levels in their bands, culprits, and who measured."""
    points = [p for line in history.lines for p in line.points if math.isfinite(p.value)]
    if not points:
        return Markup('<p class="note">Nothing was measured yet.</p>')
    frame = _frame(points, history.workload.unit)
    linked = len(points) <= LINKED
    pieces = [
        *_grid(frame, points),
        *(piece for change in changed for piece in _change(frame, change)),
        *_marks(frame, marks),
    ]
    for index, line in enumerate(history.lines):
        pieces += _line(frame, line, index, url if linked else lambda sha: None)
    label = escape(history_words(history, marks, changed))
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{label}">'
        f"{''.join(pieces)}</svg>"
    )


def history_words(history: History, marks: Sequence[Mark], changed: Sequence[Change]) -> str:
    """What the chart shows."""
    unit = history.workload.unit
    count = sum(len(line.points) for line in history.lines)
    told = [
        f"{one_line(history.workload.name, 200)}: {wording.count(count, 'value')} by "
        f"{wording.count(len(history.lines), 'line')}."
    ]
    told += [
        f"{one_line(line.machine, 60)}: {wording.count(len(line.levels), 'level')}, from "
        f"{wording.quantity(line.levels[0].value, unit)} to "
        f"{wording.quantity(line.levels[-1].value, unit)}."
        for line in history.lines
        if line.levels
    ]
    told += [
        f"{wording.short(mark.culprit.commit.sha)} {wording.percent(mark.culprit.ratio)}."
        for mark in marks[:20]
    ]
    told += [f"From {wording.short(c.sha)} on: {one_line(c.what, 120)}." for c in changed[:20]]
    return " ".join(told)


def _frame(points: Sequence[Point], unit: str) -> _Frame:
    places = sorted({point.place for point in points})
    values = [point.value for point in points]
    # One wild interval must not flatten everything else.
    low, high = min(values), max(values)
    is_log = low > 0 and high > LOG_ABOVE * low
    margin = 0.08 * ((high - low) or abs(high) or 1.0)
    # Twice as much below, where changes of who measured are named.
    low, high = (low * 0.8, high * 1.1) if is_log else (low - 2 * margin, high + margin)
    size, name = wording.scale(values, unit)
    return _Frame({p: r for r, p in enumerate(places)}, low, high, is_log, size, name)


def _grid(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    for value in _ticks(frame):
        y = frame.y(value)
        label = f"{value / frame.size:.6g}"
        yield f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{y + 3.5}" text-anchor="end">{label}</text>'
    yield f'<text class="tick" x="0" y="{TOP - 28}">{escape(one_line(frame.unit, 30))}</text>'
    by_place = {point.place: point for point in points}
    places = sorted(by_place)
    chosen = sorted({round(k * (len(places) - 1) / 7) for k in range(8)})
    taken = -math.inf
    for rank in chosen:
        point = by_place[places[rank]]
        x = frame.x(point.place)
        if x - taken < 78:
            continue
        taken = x
        anchor = "end" if x > WIDTH - 50 else "middle"
        y = HEIGHT - BOTTOM + 18
        yield f'<text class="tick" x="{x}" y="{y}" text-anchor="{anchor}">'
        yield f"{escape(one_line(point.sha[:7]))}</text>"
        yield f'<text class="tick faint" x="{x}" y="{y + 14}" text-anchor="{anchor}">'
        yield f"{escape(wording.day(point.date_seconds))}</text>"


def _ticks(frame: _Frame) -> list[float]:
    if frame.is_log:
        first, last = math.floor(math.log10(frame.low)), math.ceil(math.log10(frame.high))
        every = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
        shown = [value for value in every if frame.low <= value <= frame.high]
        return shown[:: max(1, len(shown) // 6)]
    rough = (frame.high - frame.low) / frame.size / 6
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(m * base for m in (1, 2, 5, 10) if m * base >= rough)
    first, last = (
        math.ceil(frame.low / frame.size / step),
        math.floor(frame.high / frame.size / step),
    )
    return [k * step * frame.size for k in range(first, last + 1)]


def _line(frame: _Frame, line: Line, index: int, url: Callable[[str], str | None]) -> Iterator[str]:
    """One machine: bands, levels, intervals and points."""
    shown = [point for point in line.points if math.isfinite(point.value)]
    yield f'<g class="line l{index % len(SHAPES)}">'
    half = (WIDTH - LEFT - RIGHT) / max(1, len(frame.ranks)) / 2
    for level in line.levels:
        left, right = frame.x(level.first) - half, frame.x(level.last) + half
        top, bottom = frame.y(level.high), frame.y(level.low)
        width, height = round(right - left, 1), round(max(bottom - top, 1.5), 1)
        yield (
            f'<rect class="band" x="{round(left, 1)}" y="{top}" width="{width}" height="{height}"/>'
            f'<path class="level" d="M{round(left, 1)} {frame.y(level.value)}h{width}"/>'
        )
    whiskers = "".join(
        f"M{frame.x(p.place)} {_inside(frame.y(p.low))}V{_inside(frame.y(p.high))}"
        for p in shown
        if math.isfinite(p.low) and math.isfinite(p.high) and (p.low > 0 or not frame.is_log)
    )
    if whiskers:
        yield f'<path class="whisker" d="{whiskers}"/>'
    bare = []
    for point in shown:
        link = url(point.sha)
        drawn = _shape(frame.x(point.place), frame.y(point.value), index)
        if link is None:
            bare.append(drawn)
        else:
            yield (
                f'<a href="{escape(link)}" tabindex="-1" aria-hidden="true">'
                f'<path class="point" d="{drawn}"/></a>'
            )
    if bare:
        yield f'<path class="point" d="{"".join(bare)}"/>'
    yield "</g>"


def _inside(y: float) -> float:
    return max(TOP, min(HEIGHT - BOTTOM, y))


def _shape(x: float, y: float, index: int) -> str:
    """A small mark whose form tells lines apart where colour does not."""
    kind = SHAPES[index % len(SHAPES)]
    if kind == "circle":
        return f"M{x - 2.2:.1f} {y}a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0-4.4 0"
    if kind == "square":
        return f"M{x - 2:.1f} {y - 2:.1f}h4v4h-4z"
    if kind == "triangle":
        return f"M{x} {y - 2.8:.1f}l2.8 4.8h-5.6z"
    if kind == "diamond":
        return f"M{x} {y - 3:.1f}l3 3-3 3-3-3z"
    if kind == "cross":
        return f"M{x - 2.5:.1f} {y - 0.7:.1f}h1.8v-1.8h1.4v1.8h1.8v1.4h-1.8v1.8h-1.4v-1.8h-1.8z"
    return f"M{x - 3:.1f} {y - 1:.1f}h6v2h-6z"


def _marks(frame: _Frame, marks: Iterable[Mark]) -> Iterator[str]:
    """Culprits: a broken line, an arrow with the effect, and the way to its page."""
    ends = [-math.inf, -math.inf]
    for mark in sorted(marks, key=lambda m: m.place):
        x = frame.x(mark.place)
        kind = account.kind(mark.culprit)
        yield f'<path class="mark {kind}" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
        row = next((r for r, end in enumerate(ends) if x - _LABEL / 2 > end), None)
        if row is None:
            continue
        middle = min(max(x, LEFT + _LABEL / 2), WIDTH - RIGHT - _LABEL / 2)
        ends[row] = middle + _LABEL / 2
        arrow = "▲" if mark.culprit.is_regression else "▼"
        text = f"{arrow} {wording.percent(mark.culprit.ratio)} {mark.culprit.commit.sha[:7]}"
        yield (
            f'<a href="{escape(mark.url)}"><text class="mark-label {kind}" x="{middle:.1f}" '
            f'y="{TOP - 6 - 15 * row}" text-anchor="middle">{escape(one_line(text))}</text></a>'
        )


def _change(frame: _Frame, change: Change) -> Iterator[str]:
    """Who measured changes here: no commit's doing."""
    x = frame.x(change.place)
    words = escape(one_line(change.what, 46))
    anchor, shift = ("end", -5) if x > WIDTH * 0.7 else ("start", 5)
    y = HEIGHT - BOTTOM - 8
    yield f'<path class="change" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
    yield (
        f'<text class="change-label" x="{x + shift}" y="{y}" text-anchor="{anchor}">'
        f"◆ {words}</text>"
    )


def beliefs_chart(change: Sequence[float], chosen: Sequence[str]) -> Markup:
    """A small picture of the probability of a change at each commit of a line.

    ``chosen`` is ``regression``, ``improvement`` or an empty text for each position.
    """
    size = max(len(change) - 1, 1)
    pieces = []
    for kind in ("", "regression", "improvement"):
        bars = "".join(
            f"M{round(3 + 234 * (place - 0.5) / size, 1)} 60v{-round(54 * value, 1)}"
            for place, value in enumerate(change)
            if place and value > 0.004 and chosen[place] == kind
        )
        if bars:
            pieces.append(f'<path class="belief {kind}" d="{bars}"/>')
    width = round(max(1.2, min(6.0, 234 / size * 0.7)), 1)
    return Markup(
        f'<svg class="beliefs" viewBox="0 0 240 64" preserveAspectRatio="none" '
        f'aria-hidden="true" focusable="false" stroke-width="{width}">'
        f'<path class="grid" d="M0 6H240M0 33H240"/><path class="floor" d="M0 60.5H240"/>'
        f"{''.join(pieces)}</svg>"
    )
