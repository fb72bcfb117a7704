"""A page a workload: its levels through the history, who measured, its culprits, its parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bisectorch.model import Workload
from bisectorch.report import charts, drawings, exports, figures, histories, tables
from bisectorch.report.histories import History, Line, Point
from bisectorch.report.parts import File, Parts
from bisectorch.report.render import Renderer
from bisectorch.report.site import Entry, Site, workload_path

STAGE = "stage"
"""A benchmark's parameter of this name splits it into stages, each with all before it."""
BARS = 8
"""Commits told apart by stage or operator."""


@dataclass(frozen=True)
class WorkloadSource:
    """A workload of asv's results, loaded when its page is made.

    Attributes:
        param_names: the names of the benchmark's parameters.
        mark: changes whenever its history does.
        last: its newest value; NaN where it has none.
    """

    workload: Workload
    param_names: tuple[str, ...]
    mark: str
    last: float
    load: Callable[[], History]


@dataclass(frozen=True)
class Stages:
    """What each stage takes: a value a stage for each commit's label, NaN where unknown."""

    names: tuple[str, ...]
    bars: Mapping[str, tuple[float, ...]]
    unit: str


class WorkloadPages:
    """The pages of all workloads that asv's results or a session know."""

    def __init__(
        self,
        render: Renderer,
        site: Site,
        sources: Sequence[WorkloadSource],
        listed: Sequence[Entry],
    ) -> None:
        self._render = render
        self._site = site
        self._sources = {source.workload.name: source for source in sources}
        self._culprits: dict[str, list[Entry]] = {}
        for entry in listed:
            self._culprits.setdefault(entry.found.workload.name, []).append(entry)

    def has(self, name: str) -> bool:
        """There is a page of this workload."""
        return name in self._sources

    def write(self, parts: Parts, base: str) -> None:
        """Every page that changed, and the list of workloads."""
        marks = []
        for name, source in self._sources.items():
            own = self._culprits.get(name, ())
            told = [
                (entry.path, entry.culprit.ratio, self._site.places.get(_where(entry)))
                for entry in own
            ]
            siblings = [each.mark for each in self._siblings(source)]
            mark = f"{base} {source.mark} {siblings} {told}"
            marks.append(f"{name} {source.last} {len(own)}")
            parts.part(f"workload {name}", mark, lambda s=source: self._page(s))  # type: ignore[misc]
        parts.part("workloads", f"{base} {marks}", self._list)

    def _list(self) -> Iterator[File]:
        path = "workloads/index.html"
        rows = [
            (source, self._culprits.get(name, [])) for name, source in sorted(self._sources.items())
        ]
        yield path, self._render("workloads.html", path, rows=rows, here="workloads")

    def _page(self, source: WorkloadSource) -> Iterator[File]:
        history = source.load()
        name = source.workload.name
        path = workload_path(name)
        stem = path.removesuffix(".html")
        entries = self._culprits.get(name, [])
        marks = list(self._marks(entries))
        changed = histories.changes(history)
        stages = self._stages(source)
        operators = _operators(entries)
        pictures: dict[str, Markup] = {}
        for what, title, found in (
            ("stages", "What each stage takes", stages),
            ("operators", "Own time of each operator, where a change was explained", operators),
        ):
            if found is None:
                continue
            drawn = drawings.stages_figure(title, found.unit, found.names, found.bars)
            picture = figures.svg(drawn)
            words = drawings.stages_words(found.unit, found.names, found.bars)
            # Escaped where it came from: it is matplotlib's own XML.
            pictures[what] = Markup(figures.inside_page(picture, what, words).decode())
            yield f"{stem}-{what}.svg", picture
            yield f"{stem}-{what}.png", figures.png(drawn, dpi=110)
        yield (
            path,
            self._render(
                "workload.html",
                path,
                source=source,
                history=history,
                chart=charts.history_chart(history, marks, changed, self._site.commit_url),
                changed=changed,
                entries=entries,
                stages=stages,
                operators=operators,
                pictures=pictures,
                stem=stem.rpartition("/")[2],
                here="workloads",
                labels=histories.labels(history),
            ),
        )
        yield from tables.files(exports.history(stem, history))

    def _marks(self, entries: Sequence[Entry]) -> Iterator[charts.Mark]:
        """Each culprit once, where asv's results have its commit or one after it."""
        seen = set()
        for entry in entries:
            place = self._site.places.get(_where(entry))
            if place is not None and place not in seen:
                seen.add(place)
                yield charts.Mark(place, entry.culprit, f"../{entry.path}")

    def _siblings(self, source: WorkloadSource) -> list[WorkloadSource]:
        """The workloads that differ from this one in their stage alone, in asv's order."""
        if STAGE not in source.param_names:
            return []
        at = source.param_names.index(STAGE)
        own = source.workload
        return [
            other
            for other in self._sources.values()
            if other.workload.benchmark == own.benchmark
            and len(other.workload.params) == len(own.params)
            and all(
                mine == theirs
                for place, (mine, theirs) in enumerate(
                    zip(own.params, other.workload.params, strict=True)
                )
                if place != at
            )
        ]

    def _stages(self, source: WorkloadSource) -> Stages | None:
        """What each stage adds to those before it, at the ends and at culprits."""
        siblings = sorted(self._siblings(source), key=lambda s: s.workload.param_index or 0)
        if len(siblings) < 2:
            return None
        at = source.param_names.index(STAGE)
        by_stage = [_main_line(each.load()) for each in siblings]
        common = [
            sha
            for sha in by_stage[0]
            if all(sha in line and math.isfinite(line[sha].value) for line in by_stage)
        ]
        if not common:
            return None
        chosen = self._chosen(common, source.workload.benchmark)
        bars = {}
        for sha in chosen:
            totals = [line[sha].value for line in by_stage]
            steps = [b - a for a, b in zip([0.0, *totals], totals, strict=False)]
            bars[self._label(sha)] = tuple(max(step, 0.0) for step in steps)
        names = tuple(each.workload.params[at].strip("'\"") for each in siblings)
        return Stages(names, bars, source.workload.unit)

    def _chosen(self, common: Sequence[str], benchmark: str) -> list[str]:
        """The ends, the commits at culprits, and tagged ones while there is room."""
        culprits = {
            sha
            for entries in self._culprits.values()
            for entry in entries
            if entry.found.workload.benchmark.partition(".")[0] == benchmark.partition(".")[0]
            for sha in (entry.culprit.parent.sha, entry.culprit.child.sha)
        }
        wanted = [common[0], common[-1]]
        wanted += [sha for sha in common if sha in culprits]
        wanted += [sha for sha in common if self._site.label(sha)]
        wanted += [common[round(k * (len(common) - 1) / (BARS - 1))] for k in range(BARS)]
        kept = list(dict.fromkeys(wanted))[:BARS]
        return sorted(kept, key=common.index)

    def _label(self, sha: str) -> str:
        name = self._site.label(sha)
        return f"{sha[:7]} {name}".strip()


def _where(entry: Entry) -> str:
    return (entry.culprit.merge or entry.culprit.commit).sha


def _main_line(history: History) -> Mapping[str, Point]:
    """The values of the line that holds most of them, by commit."""
    lines: Sequence[Line] = history.lines
    if not lines:
        return {}
    line = max(lines, key=lambda each: len(each.points))
    return {point.sha: point for point in line.points}


def _operators(entries: Sequence[Entry]) -> Stages | None:
    """Own time by operator on both sides of each explained culprit, oldest first."""
    explained = [
        (entry, entry.culprit.explanation)
        for entry in sorted(entries, key=lambda e: e.culprit.commit.date_seconds)
        if entry.culprit.explanation is not None
        and (entry.culprit.explanation.operators or entry.culprit.explanation.functions)
    ][-(BARS // 2) :]
    if not explained:
        return None
    columns: dict[str, dict[str, float]] = {}
    unit = "seconds"
    for _, told in explained:
        listed = told.operators or told.functions
        for side, sha in enumerate((told.parent, told.child)):
            columns[f"{sha[:7]} {'before' if side == 0 else 'after'}"] = {
                each.name: each.self_seconds[side] for each in listed
            }
    totals: dict[str, float] = {}
    for column in columns.values():
        for name, value in column.items():
            totals[name] = max(totals.get(name, 0.0), value)
    names = sorted(totals, key=lambda name: -totals[name])[: drawings.SHOWN - 1]
    bars = {
        label: (
            *(column.get(name, 0.0) for name in names),
            sum(value for name, value in column.items() if name not in names),
        )
        for label, column in columns.items()
    }
    return Stages((*names, "others"), bars, unit)
