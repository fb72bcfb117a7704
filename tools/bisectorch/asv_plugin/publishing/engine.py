"""``publish`` without asv's detours: the same files, made from what changed since the last time.

asv's own publish starts two git processes a tag and one a step, reads every result three times
and judges every series anew. Here git is asked a few times in all, results are read once and
remembered, and each benchmark's part of the site is made anew only when its results changed.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import asv
import msgspec
from asv import util
from asv.benchmarks import Benchmarks
from asv.commands.publish import check_benchmark_params
from asv.console import log
from asv.machine import iter_machine_files
from asv.plugins import regressions, summarygrid, summarylist
from asv.publishing import OutputPublisher

from bisectorch.asv_plugin.publishing import libraries, marks, outputs
from bisectorch.asv_plugin.publishing.cores import on_every_core
from bisectorch.asv_plugin.publishing.facts import FastHistory
from bisectorch.asv_plugin.publishing.outputs import Context, Output
from bisectorch.asv_plugin.publishing.readings import Header, Readings, read
from bisectorch.report.folder import Folder


class _Kept(msgspec.Struct):
    """What was made the last time: valid while the history still says what it said."""

    stamp: str = ""
    revisions: dict[str, int] = msgspec.field(default_factory=dict)
    branches: dict[str, list[str | None]] = msgspec.field(default_factory=dict)
    outputs: dict[str, tuple[int, bytes]] = msgspec.field(default_factory=dict)
    epoch: str = ""


_output_decoder = msgspec.msgpack.Decoder(Output)


class Publication:
    """One publish of asv's pages.

    Attributes:
        context: what the site is made from.
        readings: every result.
        changed: the benchmarks whose part was made anew.
        epoch: changes when the history no longer says what it said.
    """

    def __init__(self, conf: Any, repo: Any, cache: Path, stamp: str) -> None:
        self.conf = conf
        self.repo = FastHistory(repo)
        self.folder = Folder(Path(conf.html_dir))
        self.benchmarks = Benchmarks.load(conf)
        for name, benchmark in self.benchmarks.items():
            check_benchmark_params(name, benchmark)
        self._cache = cache
        self._stamp = stamp
        self.readings: Readings = read(
            conf.results_dir, self.benchmarks, cache / "readings.bin", stamp
        )
        self.tags = self.repo.get_tags()
        self.context = self._make_context()
        self.outputs: dict[str, Output] = {}
        self.changed: frozenset[str] = frozenset()
        self.epoch = ""

    def _make_context(self) -> Context:
        headers = self.readings.headers
        commits = {header.commit for header in headers.values()}
        revisions = self.repo.get_revisions(commits | set(self.tags.values()))
        lost = {sha for sha in commits if sha not in revisions}
        if lost:
            raise util.UserError(
                f"results of {len(lost)} commits are not in the repository, {min(lost)} among "
                "them; fetch what it lacks, or remove their results"
            )
        lines = {branch: set(self.repo.get_branch_commits(branch)) for branch in self.conf.branches}
        tagged = set(self.tags.values())
        branches = {}
        for sha in commits:
            branches[sha] = [branch for branch, line in lines.items() if sha in line]
            if not branches[sha] and sha in tagged:
                branches[sha] = list(self.conf.branches)
            elif not branches[sha]:
                names = ", ".join(map(str, self.conf.branches))
                log.warning(f"Couldn't find {sha[: self.conf.hash_length]} in branches ({names})")
        keys = {key for header in headers.values() for key in header.params}
        keys |= {f"env-{key}" for header in headers.values() for key in header.env_vars}
        context = Context(
            conf=self.conf,
            repo=self.repo,
            benchmarks=self.benchmarks,
            headers=headers,
            revisions=revisions,
            hashes={revision: sha for sha, revision in revisions.items()},
            branches=branches,
            param_keys=sorted(keys),
            all_params={},
        )
        for params in _graph_params(context):
            for key, value in params.items():
                context.all_params.setdefault(key, set()).update({value} if value else ())
        return context

    def make(self) -> None:
        """Make every benchmark's part of the site, from what was kept where it still holds."""
        context, readings = self.context, self.readings
        stamp = self._outputs_stamp()
        kept = self._kept(stamp)
        todo = []
        packed: dict[str, tuple[int, bytes]] = {}
        for name in readings.names:
            digest = readings.digest(name)
            known = kept.outputs.get(name)
            if known is not None and known[0] == digest:
                packed[name] = known
            else:
                todo.append(name)
        for name, output in on_every_core(self._make_one, todo):
            packed[name] = (readings.digest(name), output)
        self.changed = frozenset(todo)
        self.epoch = kept.epoch or uuid.uuid4().hex
        self.outputs = {name: _output_decoder.decode(packed[name][1]) for name in readings.names}
        commits = {header.commit for header in readings.headers.values()}
        now = _Kept(
            stamp,
            {sha: context.revisions[sha] for sha in commits},
            {sha: list(context.branches[sha]) for sha in commits},
            packed,
            self.epoch,
        )
        self._cache.mkdir(parents=True, exist_ok=True)
        if todo or kept.outputs.keys() != packed.keys() or now.revisions != kept.revisions:
            _replace(self._cache / "outputs.bin", msgspec.msgpack.encode(now))
        if readings.changed or not (self._cache / "readings.bin").exists():
            readings.save(self._cache / "readings.bin")

    def _make_one(self, name: str) -> tuple[str, bytes]:
        output = outputs.make_output(name, self.readings.entries(name), self.context)
        return name, msgspec.msgpack.encode(output)

    def _outputs_stamp(self) -> str:
        """Of everything but results and history that the outputs depend on."""
        conf, context = self.conf, self.context
        parts = [
            self._stamp,
            conf.branches,
            conf.regressions_first_commits,
            conf.regressions_thresholds,
            context.param_keys,
            sorted(key for key, values in context.all_params.items() if len(values) > 1),
            min(context.revisions.values(), default=0),
            [(name, self.benchmarks[name]) for name in sorted(self.benchmarks)],
        ]
        if conf.regressions_first_commits:
            parts.append(sorted(context.revisions.values()))
        return json.dumps(parts, default=str)

    def _kept(self, stamp: str) -> _Kept:
        try:
            kept = msgspec.msgpack.decode((self._cache / "outputs.bin").read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return _Kept()
        context = self.context
        holds = (
            kept.stamp == stamp
            and all(context.revisions.get(s, r) == r for s, r in kept.revisions.items())
            and all(context.branches.get(s, b) == b for s, b in kept.branches.items())
        )
        return kept if holds else _Kept()

    def write(self) -> None:
        """asv's scripts, graphs, lists and index, where they differ from what lies there."""
        www = Path(asv.__file__).parent / "www"
        for path in sorted(www.rglob("*")):
            if path.is_file():
                name = str(path.relative_to(www))
                self.folder.write(name, marks.edited(name, path.read_bytes()))
        for name, content in libraries.files().items():
            self.folder.write(name, content)
        lists: dict[str, list[dict[str, Any]]] = {}
        found: list[list[Any]] = []
        for output in self.outputs.values():
            for line in output.lines:
                self.folder.write(line.path, line.content)
            if output.summary_path:
                self.folder.write(output.summary_path, output.summary)
            for listing, row in output.rows:
                lists.setdefault(listing, []).append(row)
            found += output.regressions
        for listing, rows in lists.items():
            rows.sort(key=lambda row: (row["name"], row["idx"] or 0))
            self.folder.write(listing, _json(rows))
        self.folder.write("regressions.json", _json({"regressions": found}))
        with _results_from_memory(self._light_results()):
            regressions.Regressions._save_feed(
                self.conf, self.benchmarks, found, self.context.revisions, self.context.hashes
            )
        self.folder.keep(["regressions.xml"])

    def _light_results(self) -> list[_LightResult]:
        """What asv's feed asks of results: dates, and when what it names was measured."""
        by_revision: dict[int, dict[str, int]] = {}
        for name, output in self.outputs.items():
            for revision, started in output.started.items():
                by_revision.setdefault(revision, {})[name] = started
        dates = {header.commit: header.date for header in self.readings.headers.values()}
        return [
            _LightResult(sha, date, by_revision.get(self.context.revisions[sha], {}))
            for sha, date in dates.items()
        ]

    def publish_others(self) -> list[list[Any]]:
        """Run every other publisher, ours among them; what asv's index says of each one."""
        own = {summarygrid.SummaryGrid, summarylist.SummaryList, regressions.Regressions}
        graphs: Any = None
        pages = []
        for each in sorted(util.iter_subclasses(OutputPublisher), key=lambda cls: cls.order):
            if each not in own:
                log.info(f"Generating output for {each.__name__}")
                if hasattr(each, "publish_into"):
                    each.publish_into(self)
                else:
                    graphs = graphs or self._graphs()
                    each.publish(
                        self.conf, self.repo, self.benchmarks, graphs, self.context.revisions
                    )
            pages.append([each.name, each.button_label, each.description])
        return pages

    def _graphs(self) -> Any:
        names = list(self.readings.names)
        made = [outputs.graphs_of(n, self.readings.entries(n), self.context) for n in names]
        return outputs.graph_set(names, made)

    def write_index(self, pages: Sequence[Any]) -> None:
        """asv's index of everything, and when it was made."""
        context, conf = self.context, self.conf
        dates = {header.commit: header.date for header in context.headers.values()}
        dates.update({sha: self.repo.get_date_from_name(sha) for sha in self.tags.values()})
        params: dict[str, list[Any]] = {}
        for each in _graph_params(context, per_branch=False):
            for key, value in each.items():
                known = params.setdefault(key, [])
                if value not in known:
                    known.append(value)
        for known in params.values():
            known.sort(key=lambda value: "[none]" if value is None else str(value))
        params["branch"] = [self.repo.get_branch_name(branch) for branch in conf.branches]
        listed: list[Mapping[str, Any]] = []
        seen: set[str] = set()
        for output in self.outputs.values():
            for line in output.lines:
                mark = json.dumps(line.params, sort_keys=True)
                if mark not in seen:
                    seen.add(mark)
                    listed.append(line.params)
        machines = {}
        for path in iter_machine_files(conf.results_dir):
            machine = util.load_json(path)
            machines[machine["machine"]] = machine
        index = {
            "project": conf.project,
            "project_url": conf.project_url,
            "show_commit_url": conf.show_commit_url,
            "hash_length": conf.hash_length,
            "revision_to_hash": context.hashes,
            "revision_to_date": {r: dates[sha] for sha, r in context.revisions.items()},
            "params": params,
            "graph_param_list": listed,
            "benchmarks": dict(self.benchmarks),
            "machines": machines,
            "tags": {tag: context.revisions[sha] for tag, sha in self.tags.items()},
            "pages": pages,
        }
        self.folder.write("index.json", _json(index))
        now = datetime.datetime.now(datetime.timezone.utc)
        info = {"asv-version": version("asv"), "timestamp": util.datetime_to_js_timestamp(now)}
        self.folder.write("info.json", _json(info))


class _LightResult:
    """A result as asv's feed reads it."""

    def __init__(self, sha: str, date: int, started_at: Mapping[str, int]) -> None:
        self.commit_hash = sha
        self.date = date
        self.started_at = started_at

    def get_result_keys(self, benchmarks: object) -> Sequence[str]:
        """Nothing beyond ``started_at``, which is complete."""
        return ()


@contextmanager
def _results_from_memory(results: Sequence[_LightResult]) -> Iterator[None]:
    """asv's feed reads every result anew; here it gets what is known."""
    original = regressions.iter_results
    regressions.iter_results = lambda results_dir: iter(results)
    try:
        yield
    finally:
        regressions.iter_results = original


def _graph_params(context: Context, *, per_branch: bool = True) -> Iterator[dict[str, Any]]:
    """The parameters of each kind of graph, once."""
    seen: set[str] = set()
    header: Header
    for header in context.headers.values():
        branches = context.branches[header.commit] if per_branch else [None]
        mark = repr((header.params, header.env_vars, branches))
        if mark in seen:
            continue
        seen.add(mark)
        for branch in branches:
            yield outputs.graph_params(header, branch, context)


def _json(value: object) -> bytes:
    return json.dumps(value).encode("ascii")


def _replace(path: Path, content: bytes) -> None:
    scratch = path.with_suffix(".new")
    scratch.write_bytes(content)
    scratch.replace(path)
