"""What asv publishes of one benchmark: its graphs, their summary, its rows and regressions.

asv's own classes are used on one benchmark at a time, so that a benchmark whose results did not
change keeps what was made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from asv.graph import Graph, GraphSet, make_summary_graph
from asv.plugins.regressions import Regressions, _GraphDataFilter
from asv.plugins.summarylist import benchmark_param_iter

from bisectorch.asv_plugin.publishing.readings import Entry, Header
from bisectorch.asv_plugin.publishing.steps import Step, steps_of


@dataclass(frozen=True)
class Context:
    """What every benchmark's output depends on.

    Attributes:
        conf: asv's configuration.
        repo: the history, answering from memory.
        benchmarks: asv's benchmarks by name.
        headers: of the results files, by number, in asv's order.
        revisions: each commit's place in the history.
        hashes: the reverse.
        branches: the branches that each measured commit belongs to.
        param_keys: every parameter that any results file has.
        all_params: every value of every graph's parameters.
    """

    conf: Any
    repo: Any
    benchmarks: Mapping[str, Mapping[str, Any]]
    headers: Mapping[int, Header]
    revisions: Mapping[str, int]
    hashes: Mapping[int, str]
    branches: Mapping[str, Sequence[str | None]]
    param_keys: Sequence[str]
    all_params: dict[str, set[str]]

    @cached_property
    def kinds(self) -> dict[int, str]:
        """What tells the graphs that a results file is drawn into, by its number."""
        return {
            number: repr((header.params, header.env_vars, self.branches[header.commit]))
            for number, header in self.headers.items()
        }


class Line(msgspec.Struct, array_like=True):
    """One graph: its path on the site, the file's bytes, its parameters and steps.

    ``steps`` holds a list for each choice of the benchmark's parameters.
    """

    path: str
    content: bytes
    params: dict[str, str | None]
    steps: list[list[Step]]


class Output(msgspec.Struct, array_like=True):
    """Everything that asv's own pages show of one benchmark.

    Attributes:
        lines: its graphs.
        summary_path, summary: of its summary graph.
        rows: of the benchmark list: the list's path and the row as asv writes it.
        regressions: as asv writes them.
        started: when each revision was measured, milliseconds since the epoch; of those that
            the regressions name.
    """

    lines: list[Line]
    summary_path: str
    summary: bytes
    rows: list[tuple[str, dict[str, Any]]]
    regressions: list[list[Any]]
    started: dict[int, int]


class _Graph(Graph):  # type: ignore[misc]
    """asv's graph, which sorts its points once, and detects steps our way."""

    _data: list[Any] | None = None
    _steps: list[list[Step]] | None

    def get_data(self) -> list[Any]:
        if self._data is None:
            self._data = self._of_single_runs() or super().get_data()
        return self._data

    def _of_single_runs(self) -> list[Any]:
        """asv's answer for one number a revision, without its averages; else nothing."""
        if not self.scalar_series or any(len(v) != 1 for v in self.data_points.values()):
            return []
        weights = self.data_weights
        return [
            (revision, value / 1, None if weight is None or weight != weight else weight / 1)
            for revision, ((value,),), ((weight,),) in sorted(
                (revision, value, weights[revision]) for revision, value in self.data_points.items()
            )
        ]

    def detect_steps(self, pool: Any = None) -> None:
        data = self.get_data()
        if not data:
            self._steps = [[]] * self.n_series
        elif self.scalar_series:
            self._steps = [steps_of(data)]
        else:
            self._steps = [
                steps_of([(revision, v[j], w[j]) for revision, v, w in data])
                for j in range(self.n_series)
            ]


def graphs_of(name: str, entries: Iterable[Entry], context: Context) -> list[Any]:
    """The benchmark's graphs, as asv's own publish fills them; steps are not yet detected."""
    is_plain = not context.benchmarks[name]["params"]
    found: dict[str, _Graph] = {}
    prototypes: dict[str, list[_Graph]] = {}
    by_number = {entry.file: entry for entry in entries}
    for number, header in context.headers.items():
        entry = by_number.get(number)
        if entry is None:
            continue
        kind = context.kinds[number]
        if kind not in prototypes:
            prototypes[kind] = []
            for branch in context.branches[header.commit]:
                graph = _Graph(name, graph_params(header, branch, context))
                prototypes[kind].append(found.setdefault(graph.path, graph))
        revision = context.revisions[header.commit]
        for graph in prototypes[kind]:
            if is_plain:
                graph.add_data_point(revision, entry.values[0], entry.weights[0])
            else:
                graph.add_data_point(revision, entry.values, entry.weights)
    return list(found.values())


def graph_params(header: Header, branch: str | None, context: Context) -> dict[str, Any]:
    """What tells a graph from the others of its benchmark."""
    params = {**header.params, **{f"env-{k}": v for k, v in header.env_vars.items()}}
    params["branch"] = context.repo.get_branch_name(branch)
    params = {key: "" if value is None else value for key, value in params.items()}
    for key in context.param_keys:
        params.setdefault(key, None)
    return params


def make_output(name: str, entries: Sequence[Entry], context: Context) -> Output:
    """Everything that asv's pages show of this benchmark."""
    benchmark = context.benchmarks[name]
    graphs = graphs_of(name, entries, context)
    regressions = list(_regressions(benchmark, graphs, context))
    summary = make_summary_graph(graphs) if graphs else None
    return Output(
        lines=[
            Line(
                f"{graph.path}.json",
                _json([point[:2] for point in graph.get_data()]),
                graph.params,
                [graph.get_steps()] if graph.scalar_series else graph.get_steps(),
            )
            for graph in graphs
        ],
        summary_path=f"{summary.path}.json" if summary else "",
        summary=_json([point[:2] for point in summary.get_data()]) if summary else b"",
        rows=list(_rows(name, benchmark, graphs)),
        regressions=regressions,
        started=_started(entries, regressions, context),
    )


def _json(value: object) -> bytes:
    return json.dumps(value).encode("ascii")


def _rows(
    name: str, benchmark: Mapping[str, Any], graphs: Sequence[Any]
) -> Iterable[tuple[str, dict[str, Any]]]:
    """The benchmark list's rows: the last level and the change that led to it."""
    title = benchmark.get("pretty_name") or name
    for place, choice in benchmark_param_iter(benchmark):
        for graph in graphs:
            steps = graph.get_steps()
            if place is not None and steps:
                steps = steps[place] if place < len(steps) else []
            last = steps[-1] if steps else None
            before = steps[-2] if len(steps) > 1 else None
            change = None
            if last is not None and before is not None:
                change = [None if before[1] == last[0] else before[1] - 1, last[0]]
            yield (
                f"{Graph.get_file_path(graph.params, 'summary')}.json",
                {
                    "name": name,
                    "idx": place,
                    "pretty_name": f"{title}({', '.join(choice)})" if place is not None else title,
                    "last_rev": last[1] - 1 if last else None,
                    "last_value": last[2] if last else None,
                    "last_err": last[4] if last else None,
                    "prev_value": before[2] if before else None,
                    "change_rev": change,
                },
            )


def _regressions(
    benchmark: Mapping[str, Any], graphs: Sequence[Any], context: Context
) -> Iterable[list[Any]]:
    """What asv takes for regressions, by asv's own rules."""
    chosen = _GraphDataFilter(context.conf, context.repo, context.revisions)
    found: list[list[Any]] = []
    for graph in graphs:
        if graph.path.rpartition("/")[2] != benchmark["name"]:
            continue  # as asv does: a name that no file can have
        for data in chosen.get_graph_data(graph, benchmark):
            Regressions._process_regression(
                found, context.hashes, context.repo, context.all_params, data, graph
            )
    return found


def _started(
    entries: Sequence[Entry], regressions: Sequence[list[Any]], context: Context
) -> dict[int, int]:
    """When the revisions that the regressions name were measured; by the last file of each."""
    wanted = {
        revision for found in regressions for jump in found[6] for revision in jump[:2] if revision
    }
    by_number = {entry.file: entry for entry in entries}
    started = {}
    for number, header in context.headers.items():
        entry = by_number.get(number)
        revision = context.revisions.get(header.commit)
        if entry is not None and revision is not None and revision in wanted:
            started[revision] = entry.started or header.date
    return started


def graph_set(names: Iterable[str], graphs: Iterable[Sequence[Any]]) -> Any:
    """asv's set of graphs, for publishers of other plugins."""
    every = GraphSet()
    for name, group in zip(names, graphs, strict=True):
        every._graphs.update({graph.path: graph for graph in group})
        every._groups[name] = list(group)
    return every
