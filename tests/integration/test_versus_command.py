"""``bisectorch versus`` as a person meets it: real git, real processes, each bad request."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from minihistory import MiniRepo, make_wheel, write_project

VALUE = "def value():\n    return {}\n"
BENCHMARKS = """\
import mini


def track_value():
    return mini.value()


def track_constant():
    return 7


def track_first_half():
    assert mini.value() < 150
    return 1


def time_value():
    sum(range(mini.value() * 20))


class Suite:
    params = [1, 2]

    def setup(self, n):
        self.numbers = list(range(mini.value() * 5 * n))

    def time_sorted(self, n):
        sorted(self.numbers)


time_value.warmup_time = Suite.warmup_time = 0.0
"""


@dataclass
class Project:
    """An asv project over a mini history, with results and sessions of its own."""

    config: Path
    home: Path
    repo: MiniRepo
    shas: list[str]

    def command(self, *arguments: str) -> list[str]:
        """The command line of one call."""
        words = [sys.executable, "-m", "bisectorch", "--config", str(self.config)]
        return [*words, "versus", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """As for a person who has never run this before."""
        return {**os.environ, "HOME": str(self.home), "COLUMNS": "160"}

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error; never a traceback."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def compared(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, JSON report, standard error."""
        code, out, err = self.run(*arguments, "--format", "json")
        assert out, err
        return code, json.loads(out), err

    def logs(self) -> list[Path]:
        """The logs of comparisons, oldest first."""
        return sorted((self.config.parent / "sessions" / "versus").glob("*.jsonl"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """100, 100 (a document changed), 150, broken, 120; one environment and store for all."""
    root = tmp_path_factory.mktemp("versus")
    repo = MiniRepo(root / "repo")
    shas = [
        repo.commit("Start", {"mini/nn/linear.py": VALUE.format(100)}),
        repo.commit("Write", {"docs/x.md": "x\n"}),
        repo.commit("Slow down", {"mini/nn/linear.py": VALUE.format(150)}),
        repo.commit("Break", {"mini/nn/linear.py": "def value(:\n"}),
        repo.commit("Mend", {"mini/nn/linear.py": VALUE.format(120)}),
        repo.commit("Compile", {"native.c": "int x;\n"}),
    ]
    repo.git("reset", "-q", "--hard", shas[4])
    make_wheel(root / "wheels")
    config = write_project(
        root / "project", repo.path, root / "wheels", root / "store", env_dir=str(root / "env")
    )
    (config.parent / "benchmarks" / "tracked.py").write_text(BENCHMARKS)
    conf = json.loads(config.read_text())
    config.write_text(json.dumps({**conf, "repo": str(repo.path)}))
    (root / "home").mkdir()
    return Project(config, root / "home", repo, shas)


@pytest.fixture
def project(made: Project, tmp_path: Path) -> Project:
    """The same history in a working tree, results and sessions that no other test touches."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copytree(made.config.parent / "benchmarks", folder / "benchmarks")
    repo = MiniRepo.__new__(MiniRepo)
    repo.path, repo._minutes = tmp_path / "repo", 1000
    shutil.copytree(made.repo.path, repo.path)
    conf = json.loads(made.config.read_text())
    (folder / "asv.conf.json").write_text(json.dumps({**conf, "repo": str(repo.path)}))
    return Project(folder / "asv.conf.json", made.home, repo, made.shas)


def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The workloads of a report by the last part of their names."""
    return {each["benchmark"].removeprefix("tracked."): each for each in report["workloads"]}


def test_two_commits_on_many_benchmarks(project: Project) -> None:
    """Slower, unchanged and broken ones, saved for asv with their samples; exit 1."""
    old, new = project.shas[0], project.shas[2]
    asked = ("-b", r"track|time_value|sorted\(2", "--smallest-step", "10%", "--seconds", "5m")
    code, report, err = project.compared(old, new, *asked)
    assert code == 1, err
    found = by_name(report)
    assert found["track_value"]["verdict"] == "different"
    assert found["track_value"]["ratio"] == pytest.approx(1.5)
    assert found["track_constant"]["verdict"] == "same"
    assert found["time_value"]["verdict"] == "different"
    assert 1.3 < found["time_value"]["ratio"] < 1.7
    assert found["Suite.time_sorted(2)"]["worse"], found
    assert found["track_first_half"]["reason"].startswith("new side failed: AssertionError")
    assert found["track_first_half"]["worse"]
    assert report["got_worse"]
    assert report["finished"]
    (results,) = [
        json.loads(path.read_text())
        for path in (project.config.parent / "results").rglob(f"{new[:8]}-*.json")
    ]
    columns = results["result_columns"]
    saved = dict(zip(columns, results["results"]["tracked.time_value"], strict=False))
    assert len(saved["samples"][0]) > 20


def test_an_improvement_is_no_failure_and_the_table_says_so(project: Project) -> None:
    """Text, split and not; exit 0."""
    code, out, err = project.run(*project.shas[2::2], "-b", "track_(value|constant)", "--split")
    assert code == 0, err
    assert "Benchmarks that improved" in out
    assert "- different" in out
    assert "-20.00 %  [-20.00, -20.00] %" in out, out
    assert "1 same within 2 %" in out
    code, out, _ = project.run(
        *project.shas[2::2],
        "-b",
        "track_(value|constant)",
        "--only-changed",
        "--format",
        "markdown",
    )
    assert code == 0
    assert "| **different** |" in out
    assert "track_constant" not in out


def test_commits_of_the_same_files_are_the_same_without_measuring(project: Project) -> None:
    """Only a document changed between them."""
    code, report, _ = project.compared(*project.shas[:2], "-b", "track_value")
    assert code == 0
    (workload,) = report["workloads"]
    assert (workload["verdict"], workload["reason"]) == ("same", "both commits give the same build")
    assert report["cost"]["runs"] == 0


def test_the_working_tree_is_compared_as_it_is(project: Project) -> None:
    """A change that is not committed, and a new file; git's own state does not change."""
    tree = project.repo.path
    (tree / "mini/nn/linear.py").write_text(
        "from mini.nn.fresh import LEVEL\n\n\n" + VALUE.format("LEVEL")
    )
    (tree / "mini/nn/fresh.py").write_text("LEVEL = 360\n")
    before = project.repo.git("status", "--porcelain")
    refs = project.repo.git("for-each-ref")
    code, report, err = project.compared("HEAD", "-b", "track_value")
    assert code == 1, err
    assert report["workloads"][0]["ratio"] == pytest.approx(3.0)
    assert report["new"]["name"] == "working tree"
    assert project.repo.git("status", "--porcelain") == before
    assert project.repo.git("for-each-ref") == refs
    results = project.config.parent / "results"
    assert [*results.rglob(f"{project.shas[4][:8]}-*.json")]
    assert not [*results.rglob(f"{report['new']['commit'][:8]}-*.json")]
    code, again, _ = project.compared("HEAD", ".", "-b", "track_value", "--dry-run")
    assert again["new"]["commit"] == report["new"]["commit"]


def test_a_comparison_that_was_stopped_goes_on(project: Project) -> None:
    """Ctrl-C keeps every run; --resume measures what was missing, once."""
    (project.config.parent / "benchmarks" / "tracked.py").write_text(
        "import time\nimport mini\n\n\ndef track_value():\n    time.sleep(1)\n"
        "    return mini.value()\n"
    )
    process = subprocess.Popen(
        project.command(project.shas[0], project.shas[2], "-b", "track_value"),
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        if project.logs() and project.logs()[0].read_text().count("observation") >= 2:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert not out
    assert "go on with `bisectorch versus --resume" in err
    kept = project.logs()[0].read_text()
    code, report, err = project.compared("--resume")
    assert code == 1, err
    assert report["finished"]
    assert report["workloads"][0]["verdict"] == "different"
    whole = project.logs()[0].read_text()
    assert whole.startswith(kept)
    assert project.compared("--resume") == (1, report, "")
    assert [log.read_text() for log in project.logs()] == [whole]


BAD = {
    "nothing named": ((), 2, "say what to compare: OLD NEW"),
    "no such commit": (("nowhere", "main"), 2, "no commit is named 'nowhere'"),
    "the same commit twice": (("main", "HEAD"), 2, "are the same commit"),
    "an unchanged working tree": (("HEAD",), 2, "nothing is changed in the working tree"),
    "no such benchmark": (("main~1", "main", "-b", "none"), 2, "no benchmark matches 'none'"),
    "no regular expression": (("main~1", "main", "-b", "("), 2, "is not a regular expression"),
    "no such step": (("main~1", "main", "--smallest-step", "2"), 2, "is not a step"),
    "a side without a build": (
        ("main", "{compiled}"),
        4,
        "cannot be built: no route: native files changed and no source route is configured",
    ),
    "nothing to resume": (("--resume",), 2, "there is no comparison to go on with"),
    "no such comparison": (("--resume", "x"), 2, "there is no comparison 'x' to go on with"),
    "the old side broken": (
        ("main~1", "main", "-b", "track_value"),
        2,
        "nothing can be measured at",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_each_bad_request_is_one_clear_line(project: Project, case: str) -> None:
    """With the exit code that its kind has."""
    arguments, code, line = BAD[case]
    words = [word.format(compiled=project.shas[5]) for word in arguments]
    found, out, err = project.run(*words)
    assert (found, out) == (code, ""), err
    assert line in err.splitlines()[-1]


def test_changed_native_files_that_nothing_builds_are_named(project: Project) -> None:
    """The working tree needs a route then."""
    (project.repo.path / "native.c").write_text("int y;\n")
    project.repo.git("add", "native.c")
    code, _, err = project.run("HEAD", "-b", "track_value")
    assert code == 2
    assert "changes files that are compiled (native.c), and it cannot be built" in err


def test_very_many_workloads_need_a_budget(project: Project) -> None:
    """The refusal says how long it would take."""
    (project.config.parent / "benchmarks" / "tracked.py").write_text(
        "def time_it(n):\n    pass\n\n\ntime_it.params = [list(range(150))]\n"
    )
    code, _, err = project.run("main~2", "main", "-b", "time_it")
    assert code == 2
    assert "150 workloads match: at 30 s each that may take 1 h 15 min" in err


def test_a_benchmark_that_hangs_is_told_and_the_others_go_on(project: Project) -> None:
    """On the new side alone; that is worse."""
    (project.config.parent / "benchmarks" / "tracked.py").write_text(
        "import time\nimport mini\n\n\ndef time_it():\n    if mini.value() > 110:\n"
        "        time.sleep(60)\n\n\ntime_it.timeout = 1\n\n\ndef track_it():\n    return 1\n"
    )
    code, report, _ = project.compared(project.shas[0], "main", "-b", "_it")
    assert code == 1
    found = by_name(report)
    assert found["time_it"]["reason"].startswith("new side timed out: no answer within 1 s")
    assert found["track_it"]["verdict"] == "same"
