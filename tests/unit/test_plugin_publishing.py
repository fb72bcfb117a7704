"""Publishing asv's own files without asv's detours: the same files, however they were made."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asv import config, util
from asv.commands.publish import Publish as AsvPublish
from asv.graph import _compute_graph_steps
from asv.publishing import OutputPublisher
from asv.repo import get_repo
from bisectorch.asv_plugin import publisher
from bisectorch.asv_plugin.publisher import Culprits
from bisectorch.asv_plugin.publishing import facts
from bisectorch.asv_plugin.publishing.engine import Publication
from bisectorch.asv_plugin.publishing.sources import Sources
from bisectorch.asv_plugin.publishing.steps import steps_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))
from bigsite import Sizes, add_results, commits, make_project

SIZES = Sizes(commits=30, workloads=4, machines=2, tags=12)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """asv's configuration of a made-up project with results, one benchmark with parameters."""
    path = make_project(tmp_path / "project", SIZES)
    monkeypatch.chdir(path.parent)
    only(monkeypatch, *_asvs_own())
    _vary(path.parent)
    conf = config.Config.load("asv.conf.json")
    return conf


_iter_subclasses = util.iter_subclasses


def only(monkeypatch: pytest.MonkeyPatch, *publishers: type) -> None:
    """No other publishers exist."""

    def chosen(cls: type) -> list[type]:
        return list(publishers) if cls is OutputPublisher else list(_iter_subclasses(cls))

    monkeypatch.setattr(util, "iter_subclasses", chosen)


def _asvs_own() -> list[type]:
    every = _iter_subclasses(OutputPublisher)
    return [cls for cls in every if cls.__module__.startswith("asv.")]


def _vary(root: Path) -> None:
    """Parameters, gaps, failures, NaN, an annotated tag, old versions, a commit off the branch."""
    path = root / "results" / "benchmarks.json"
    benchmarks = json.loads(path.read_text())
    names = sorted(name for name in benchmarks if name != "version")
    benchmarks[names[0]].update(params=[["1", "2"], ["'a'"]], param_names=["n", "kind"])
    benchmarks["never.time_measured"] = {**benchmarks[names[1]], "name": "never.time_measured"}
    path.write_text(json.dumps(benchmarks))
    files = sorted((root / "results").glob("*/*-e.json"))
    for number, each in enumerate(files):
        content = json.loads(each.read_text())
        rows = content["results"]
        value = rows[names[0]][0][0]
        rows[names[0]][:2] = [[value, value * 2], [["1", "2"], ["'a'"]]]
        for column in range(5, 11):
            rows[names[0]][column] = rows[names[0]][column] * 2
        if number % 7 == 0:
            rows[names[1]][0] = None
        if number % 5 == 0:
            del rows[names[2]]
        if number % 11 == 0:
            rows[names[3]][2] = "0"
        if number % 13 == 0:
            rows[names[3]][0] = [math.nan]
        if number % 6 == 0:
            content["params"]["numpy"] = "1.26"
            content["env_vars"] = {"OMP_NUM_THREADS": "1"}
        each.write_text(json.dumps(content))
    (files[3].parent / "broken.json").write_text("{")
    repo = root / "repo"
    git(repo, "tag", "-a", "-m", "x", "annotated", "main~3")
    git(repo, "tag", "-a", "-m", "x", "nested", "annotated")
    git(repo, "tag", "of-a-tree", "main^{tree}")


def git(repo: Path, *arguments: str) -> str:
    """What git says."""
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(repo), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def publish(conf: Any, html: str) -> Publication:
    """Ours, into this folder."""
    conf.html_dir = html
    publication = Publication(conf, get_repo(conf), Path("cache"), "stamp")
    publication.make()
    publication.write()
    publication.write_index(publication.publish_others())
    publication.folder.remove_others()
    return publication


def publish_asvs(conf: Any, html: str) -> None:
    """asv's own."""
    conf.html_dir = html
    AsvPublish.run(conf, pull=False)


def canonical(value: Any) -> Any:
    """The same whatever the order that asv's sets left it in."""
    if isinstance(value, list):
        return sorted(map(canonical, value), key=lambda v: json.dumps(v, sort_keys=True))
    if isinstance(value, dict):
        return {key: canonical(each) for key, each in value.items()}
    return value


def differences(one: Path, other: Path) -> list[str]:
    """Files that say something else, those of the libraries and of the time aside."""
    names = {
        str(path.relative_to(root))
        for root in (one, other)
        for path in root.rglob("*")
        if path.is_file()
    }
    wrong = []
    for name in sorted(names):
        if name.startswith("libraries/") or name in {"info.json", "index.html", "error.html"}:
            continue
        if not ((one / name).is_file() and (other / name).is_file()):
            wrong.append(f"{name} is on one side only")
        elif name.endswith(".json"):
            loaded = [json.loads((root / name).read_text()) for root in (one, other)]
            loose = name in {"index.json", "regressions.json"}
            if (canonical(loaded[0]) != canonical(loaded[1])) if loose else loaded[0] != loaded[1]:
                wrong.append(name)
        elif name == "regressions.xml":
            entries = [sorted((root / name).read_text().split("<entry>")) for root in (one, other)]
            ends = [[e.replace("</feed>", "") for e in each] for each in entries]
            if ends[0] != ends[1]:
                wrong.append(name)
        elif (one / name).read_bytes() != (other / name).read_bytes():
            wrong.append(name)
    return wrong


@pytest.mark.filterwarnings("ignore")
def test_the_files_are_asvs(project: Any) -> None:
    """Graphs, lists, regressions and index say what asv's own publish says; so again later."""
    git(Path("repo"), "tag", "-d", "of-a-tree")  # asv's own fails at it
    publish_asvs(project, "theirs")
    publish(project, "ours")
    assert differences(Path("theirs"), Path("ours")) == []
    shas = commits(Path("asv.conf.json"))
    name = sorted(project_benchmarks())[3]
    add_results(Path("asv.conf.json"), shas[20], name, 1.5)
    for path in Path("results").glob(f"*/{shas[8][:8]}-e.json"):
        path.unlink()
    publish_asvs(project, "theirs")
    publish(project, "ours")
    assert differences(Path("theirs"), Path("ours")) == []


def project_benchmarks() -> list[str]:
    """The names of the project's benchmarks."""
    loaded = json.loads(Path("results/benchmarks.json").read_text())
    return [name for name in loaded if name not in {"version", "never.time_measured"}]


def test_only_what_changed_is_made_anew(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at first; one benchmark after one value; everything after the history moved."""
    publish(project, "ours")
    again = publish(project, "ours")
    assert again.changed == frozenset()
    assert again.folder.written <= 1  # when it was made
    shas = commits(Path("asv.conf.json"))
    name = sorted(project_benchmarks())[3]
    add_results(Path("asv.conf.json"), shas[10], name, 1.01)
    assert publish(project, "ours").changed == {name}
    git(Path("repo"), "checkout", "-q", "--orphan", "other")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
    git(Path("repo"), "commit", "-q", "-m", "older than all")
    assert publish(project, "ours").changed == set(project_benchmarks())


def test_git_is_asked_a_few_times_in_all(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tags and steps there are."""
    asked: list[Any] = []
    original = subprocess.Popen.__init__

    def count(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        asked.append(args)
        original(self, args, *rest, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", count)
    for number in range(40):
        git(Path("repo"), "tag", f"more-{number}", f"main~{number % 9}")
    asked.clear()
    publish(project, "ours")
    assert len(asked) <= 8, asked


def test_tags_are_those_of_commits(project: Any) -> None:
    """Annotated and nested ones lead to their commit; a tag of a tree is no release."""
    tags = facts.FastHistory(get_repo(project)).get_tags()
    main = git(Path("repo"), "rev-parse", "main~3").strip()
    assert tags["annotated"] == tags["nested"] == main
    assert "of-a-tree" not in tags
    assert len(tags) == SIZES.tags + 2


def test_steps_are_asvs_to_the_last_bit() -> None:
    """On series of any length, with gaps, weights and steps."""
    dice = random.Random(5)
    for _ in range(60):
        level, points = 1.0, []
        for place in range(dice.choice([1, 2, 3, 7, 40, 150])):
            level *= dice.choice([1.0] * 12 + [0.8, 1.3])
            value = None if dice.random() < 0.1 else level * math.exp(dice.gauss(0, 0.01))
            points.append((place * 2, value, dice.choice([None, 50.0, 80.0])))
        if any(value is not None for _, value, _ in points):
            assert steps_of(points) == _compute_graph_steps(points)


def test_histories_and_snapshots_hold_every_value(project: Any) -> None:
    """One line a machine and environment; failures and other versions are told apart."""
    publication = publish(project, "ours")
    sources = Sources(publication)
    workloads = {source.workload.name: source for source in sources.workloads()}
    names = sorted(project_benchmarks())
    assert f"{names[0]}(1, 'a')" in workloads
    assert "never.time_measured" not in workloads
    history = workloads[names[1]].load()
    assert len(history.lines) == 4  # two machines, with and without numpy
    points = [point for line in history.lines for point in line.points]
    assert len(points) == SIZES.commits * SIZES.machines
    assert sum(math.isnan(point.value) for point in points) == 9
    assert all(line.levels for line in history.lines)
    snapshots = list(sources.snapshots())
    assert len({snapshot.name for snapshot in snapshots}) == SIZES.commits * SIZES.machines
    loaded = [snapshot.load() for snapshot in snapshots]
    assert sum(snapshot.values[names[1]] is None for snapshot in loaded) == 9
    assert sum(names[3] in snapshot.stale for snapshot in loaded) == 6
    again = publish(project, "ours")
    assert [s.load() for s in Sources(again).snapshots()] == loaded


def test_results_of_unknown_commits_are_named(project: Any) -> None:
    """One line that says what to do, instead of a KeyError."""
    path = next(iter(sorted(Path("results").glob("*/*-e.json"))))
    content = json.loads(path.read_text())
    content["commit_hash"] = "f" * 40
    path.write_text(json.dumps(content))
    with pytest.raises(util.UserError, match="not in the repository"):
        publish(project, "ours")


def test_other_plugins_publish_too(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher that is not asv's gets graphs with steps, as from asv."""
    seen = []

    class Another:
        name, button_label, description, order = "another", "b", "d", 9

        @classmethod
        def publish(
            cls, conf: Any, repo: Any, benchmarks: Any, graphs: Any, revisions: Any
        ) -> None:
            seen.extend(len(graph.get_steps()) for _, graph in graphs)

    only(monkeypatch, *_asvs_own(), Another)
    publication = publish(project, "ours")
    assert len(seen) == sum(len(output.lines) for output in publication.outputs.values())
    assert json.loads(Path("ours/index.json").read_text())["pages"][-1][0] == "another"


def test_a_missing_repository_costs_only_asvs_graphs(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says so, and the rest is published."""
    from bisectorch.asv_plugin.commands.publish import Publish

    project.repo = str(Path("gone").absolute())
    project.html_dir = "html"
    monkeypatch.setattr(publisher, "stamp", lambda: "stamp")
    monkeypatch.setattr(Culprits, "conclude", staticmethod(lambda session: None), raising=False)
    Publish.run(project)
    page = Path("html/culprits/index.html").read_text()
    assert "left out" in page
    assert "gone" in page
    assert "culprits/index.html" in Path("html/index.html").read_text()


def test_an_odd_cache_is_no_fault(project: Any) -> None:
    """Cut, foreign or of another version: everything is made anew."""
    publish(project, "ours")
    for content in (b"", b"\x93\x01\x02\x03", b"not msgpack"):
        for path in Path("cache").iterdir():
            path.write_bytes(content)
        assert publish(project, "ours").changed == set(project_benchmarks())


def test_settings_name_where_the_site_will_be() -> None:
    """For feeds; only web addresses."""
    from bisectorch.asv_plugin.settings import Settings
    from bisectorch.errors import UsageError

    conf = SimpleNamespace(bisectorch={"site_address": "https://perf.example.org/x"})
    assert Settings.from_conf(conf).site_address == "https://perf.example.org/x"
    with pytest.raises(UsageError, match="site_address"):
        Settings.from_conf(SimpleNamespace(bisectorch={"site_address": "javascript:x"}))
