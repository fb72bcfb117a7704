"""asv's results as our pages take them: histories of workloads, snapshots of commits."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from bisectorch.asv_plugin.publishing.engine import Publication
from bisectorch.asv_plugin.publishing.outputs import graph_params
from bisectorch.asv_plugin.publishing.readings import Entry, Header
from bisectorch.model import Workload
from bisectorch.report.compare_pages import SnapshotSource, source_name
from bisectorch.report.comparing import Snapshot, Value
from bisectorch.report.histories import History, Line, Point, levels
from bisectorch.report.workload_pages import WorkloadSource


class Sources:
    """What a publication holds, for the pages."""

    def __init__(self, publication: Publication) -> None:
        self._publication = publication
        self._context = publication.context
        self._readings = publication.readings

    def workloads(self) -> Iterator[WorkloadSource]:
        """Every workload with results, one a choice of parameters."""
        for name in self._readings.names:
            benchmark = self._context.benchmarks[name]
            rows = self._publication.outputs[name].rows
            mark = f"{self._readings.digest(name)} {self._publication.epoch}"
            lasts: dict[int | None, float] = {}
            for _, row in rows:
                if row["last_value"] is not None:
                    lasts[row["idx"]] = row["last_value"]
            for index, workload in enumerate(workloads_of(benchmark)):
                yield WorkloadSource(
                    workload,
                    tuple(benchmark["param_names"]),
                    mark,
                    lasts.get(workload.param_index, math.nan),
                    lambda w=workload, i=index: self._history(w, i),  # type: ignore[misc]
                )

    def _history(self, workload: Workload, index: int) -> History:
        entries = {e.file: e for e in self._readings.entries(workload.benchmark)}
        steps = {
            repr(sorted(line.params.items(), key=str)): line.steps
            for line in self._publication.outputs[workload.benchmark].lines
        }
        groups: dict[str, list[tuple[Header, Point]]] = {}
        for number, header in self._context.headers.items():
            entry = entries.get(number)
            if entry is not None:
                key = repr((header.params, header.env_vars, header.environment))
                groups.setdefault(key, []).append((header, self._point(header, entry, index)))
        lines = [self._line(group, steps, index) for group in groups.values()]
        lines.sort(key=lambda line: (line.points[0].place, line.machine))
        return History(workload, tuple(lines))

    def _line(
        self,
        group: Sequence[tuple[Header, Point]],
        steps: Mapping[str, Sequence[Sequence[Any]]],
        index: int,
    ) -> Line:
        header = group[0][0]
        points = sorted((point for _, point in group), key=lambda point: point.place)
        found: Sequence[Any] = ()
        for branch in self._context.branches[header.commit]:
            params = graph_params(header, branch, self._context)
            of_graph = steps.get(repr(sorted(params.items(), key=str)), ())
            found = of_graph[index] if index < len(of_graph) else ()
        facts = {key: str(value or "") for key, value in header.params.items()}
        facts.update({key: str(value) for key, value in header.env_vars.items()})
        return Line(
            str(header.params.get("machine", "")),
            header.environment,
            facts,
            tuple(points),
            levels(points, [(step[0], step[1]) for step in found]),
        )

    def _point(self, header: Header, entry: Entry, index: int) -> Point:
        value, low, high = (
            math.nan if each[index] is None else float(each[index])  # type: ignore[arg-type]
            for each in (entry.values, entry.lows, entry.highs)
        )
        return Point(
            header.commit,
            self._context.revisions[header.commit],
            header.date / 1000,
            value,
            low,
            high,
            entry.counts[index],
            (entry.started or 0) / 1000,
        )

    def snapshots(self) -> Iterator[SnapshotSource]:
        """Every results file, as one commit on one machine."""
        for number, header in self._context.headers.items():
            machine = str(header.params.get("machine", ""))
            yield SnapshotSource(
                source_name(machine, header.commit, header.environment),
                header.commit,
                header.date / 1000,
                self._context.revisions[header.commit],
                machine,
                header.environment,
                str(zlib.crc32(repr((header.marks, header.stale)).encode())),
                lambda n=number: self._snapshot(n),  # type: ignore[misc]
            )

    def _snapshot(self, number: int) -> Snapshot:
        header = self._context.headers[number]
        entries = self._readings.read_anew(number) or self._by_file.get(number, {})
        values: dict[str, Value | None] = {}
        for name, entry in sorted(entries.items()):
            for index, workload in enumerate(workloads_of(self._context.benchmarks[name])):
                value = entry.values[index]
                values[workload.name] = (
                    None
                    if value is None
                    else Value(
                        value,
                        _or_nan(entry.lows[index]),
                        _or_nan(entry.highs[index]),
                        workload.unit,
                    )
                )
        stale = [
            workload.name
            for place in header.stale
            for workload in workloads_of(self._context.benchmarks[self._readings.every[place]])
        ]
        return Snapshot(
            header.commit,
            header.date / 1000,
            str(header.params.get("machine", "")),
            header.environment,
            values,
            frozenset(stale),
        )

    @cached_property
    def _by_file(self) -> Mapping[int, Mapping[str, Entry]]:
        """All entries by file: only needed where pages were lost and results were not."""
        found: dict[int, dict[str, Entry]] = {}
        for name in self._readings.names:
            for entry in self._readings.entries(name):
                found.setdefault(entry.file, {})[name] = entry
        return found


def workloads_of(benchmark: Mapping[str, Any]) -> Iterator[Workload]:
    """A benchmark's workloads, in asv's order."""
    kind, unit = str(benchmark.get("type", "time")), str(benchmark.get("unit", ""))
    version = str(benchmark.get("version", ""))
    if not benchmark["params"]:
        yield Workload(benchmark["name"], (), None, unit, kind, 60.0, version)
        return
    for index, choice in enumerate(product(*benchmark["params"])):
        yield Workload(benchmark["name"], tuple(choice), index, unit, kind, 60.0, version)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
