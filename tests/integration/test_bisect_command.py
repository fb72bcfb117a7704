"""The command line as a person meets it: real git, real asv discovery, real child processes."""

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


def time_value():
    sum(range(mini.value() * 20))


time_value.warmup_time = 0.0
"""
LEVELS = [100, 100, 100, 150, 150, None, 150, 150, 150, 120, 120, 120]
"""What mini.value() returns along the line; None cannot be imported; 4 is documentation only."""


@dataclass
class Project:
    """An asv project over a mini history, in a directory of its own."""

    config: Path
    home: Path
    shas: list[str]

    def environment(self) -> dict[str, str]:
        """As for a person who has never run this before; pip's settings are kept."""
        return {**os.environ, "HOME": str(self.home), "COLUMNS": "100"}

    def command(self, *arguments: str) -> list[str]:
        """The command line of one call."""
        return [sys.executable, "-m", "bisectorch", "--config", str(self.config), *arguments]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error; never a traceback."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def logs(self) -> list[Path]:
        """The session logs, oldest first."""
        return sorted((self.config.parent / "sessions").glob("*.jsonl"))

    def copy(self, folder: Path) -> Project:
        """The same project with results and sessions of its own."""
        folder.mkdir()
        for name in ("asv.conf.json", "benchmarks"):
            source = self.config.parent / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        return Project(folder / "asv.conf.json", self.home, self.shas)

    def settings(self, **changes: object) -> None:
        """Change asv.conf.json."""
        conf = json.loads(self.config.read_text())
        conf.update(changes)
        self.config.write_text(json.dumps(conf))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The history, its wheel, one environment and one store for all tests of this file."""
    root = tmp_path_factory.mktemp("bisect")
    repo = MiniRepo(root / "repo")
    shas = []
    for index, level in enumerate(LEVELS):
        files = {"docs/x.md": f"{index}\n"}
        if index == 0 or level != LEVELS[index - 1]:
            files["mini/nn/linear.py"] = "def value(:\n" if level is None else VALUE.format(level)
        shas.append(repo.commit(f"Change {index}", files))
    make_wheel(root / "wheels")
    config = write_project(
        root / "project", repo.path, root / "wheels", root / "store", env_dir=str(root / "env")
    )
    (config.parent / "benchmarks" / "tracked.py").write_text(BENCHMARKS)
    conf = json.loads(config.read_text())
    config.write_text(json.dumps({**conf, "repo": str(repo.path)}))
    home = root / "home"
    home.mkdir()
    return Project(config, home, shas)


@pytest.fixture
def project(made: Project, tmp_path: Path) -> Project:
    """A project whose results and sessions no other test touches."""
    return made.copy(tmp_path / "project")


def whole(project: Project) -> str:
    """The whole line as a range."""
    return f"{project.shas[0]}..main"


def culprits(report: str, index: int = 0) -> list[str]:
    """The commits named for one workload of a JSON report."""
    return [c["commit"] for c in json.loads(report)["workloads"][index]["culprits"]]


def observations(log: Path) -> list[dict[str, Any]]:
    """The observations of a log that measured something."""
    events = [json.loads(line) for line in log.read_bytes().splitlines()]
    return [e["observation"] for e in events if e.get("observation", {}).get("runs")]


def test_all_culprits_are_named_in_json(project: Project) -> None:
    """Both signs, through a broken commit; asv has the results and the log has every run."""
    code, out, err = project.run("bisect", whole(project), "-b", "track_value", "--format", "json")
    assert code == 0, err
    assert sorted(culprits(out)) == sorted([project.shas[3], project.shas[9]])
    ratios = [c["ratio"] for c in json.loads(out)["workloads"][0]["culprits"]]
    assert ratios == pytest.approx([1.5, 0.8])
    assert list((project.config.parent / "results").glob("*/*-*.json"))
    (log,) = project.logs()
    runs = [(e["sha"], r["block"]) for e in observations(log) for r in e["runs"]]
    assert len(runs) == len(set(runs)) == json.loads(out)["cost"]["runs"]


def test_a_report_comes_again_from_the_log_alone(project: Project) -> None:
    """report needs neither builds nor the environment, and gives the same exit code."""
    code, first, _ = project.run("bisect", whole(project), "-b", "track_value", "--format", "json")
    project.settings(repo="no-longer-there")
    again, second, _ = project.run("report", "--format", "json")
    assert (again, second) == (code, first)
    code, listing, _ = project.run("log")
    assert code == 0
    measured = [line for line in listing.splitlines() if "tracked.track_value" in line]
    assert len(measured) >= 4, listing


def test_resuming_an_ended_session_only_reports(project: Project) -> None:
    """Nothing is measured again."""
    _, first, _ = project.run("bisect", whole(project), "-b", "track_value", "--format", "json")
    code, second, _ = project.run("resume", "--format", "json")
    assert code == 0
    assert culprits(second) == culprits(first)
    assert json.loads(second)["cost"]["runs"] == json.loads(first)["cost"]["runs"]


def test_nothing_changed_exits_1(project: Project) -> None:
    """A range of documentation is an answer: no change."""
    a, b = project.shas[6], project.shas[8]
    code, out, _ = project.run("bisect", f"{a}..{b}", "-b", "track_value")
    assert code == 1
    assert "no change of at least" in out


def test_several_workloads_get_a_verdict_each(project: Project) -> None:
    """One of them changed: exit code 0, and the other says no change."""
    code, out, _ = project.run("bisect", whole(project), "-b", "track_", "--format", "json")
    assert code == 0
    verdicts = {w["benchmark"]: w["verdict"] for w in json.loads(out)["workloads"]}
    assert verdicts == {"tracked.track_value": "culprits", "tracked.track_constant": "no change"}


def test_a_dry_run_leaves_nothing_behind(project: Project) -> None:
    """As in asv: nothing is saved."""
    code, _, _ = project.run("bisect", whole(project), "-b", "track_value", "--dry-run")
    assert code == 0
    assert not project.logs()
    assert not (project.config.parent / "results").exists()


def test_invert_reports_decreases_only(project: Project) -> None:
    """As in asv find."""
    code, out, _ = project.run(
        "bisect", whole(project), "-b", "track_value", "-i", "--format", "json"
    )
    assert code == 0
    assert culprits(out) == [project.shas[9]]


def test_a_timing_is_bisected(project: Project) -> None:
    """A real time_ benchmark with steps of 50 % and 20 %."""
    code, out, err = project.run(
        "bisect", whole(project), "-b", "time_value", "--smallest-step", "10%", "--format", "json"
    )
    assert code == 0, err
    assert sorted(culprits(out)) == sorted([project.shas[3], project.shas[9]])


def test_kill_9_and_resume(project: Project) -> None:
    """Killed in the middle, a resume reaches the same culprits and repeats no run."""
    arguments = ("bisect", whole(project), "-b", "time_value", "--smallest-step", "10%")
    with subprocess.Popen(
        project.command(*arguments),
        env=project.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            logs = project.logs()
            if logs and logs[0].read_bytes().count(b'"outcome":"measured"') >= 8:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    (log,) = project.logs()
    assert b'{"end":' not in log.read_bytes()
    code, out, err = project.run("resume", "--format", "json")
    assert code == 0, err
    assert sorted(culprits(out)) == sorted([project.shas[3], project.shas[9]])
    runs = [(e["sha"], r["block"]) for e in observations(log) for r in e["runs"]]
    assert len(runs) == len(set(runs)) == json.loads(out)["cost"]["runs"]


def test_publishing_yields_the_culprits_page(project: Project) -> None:
    """asv's site, with our pages linked from its navigation."""
    project.run("bisect", whole(project), "-b", "track_value")
    code, _, err = project.run("publish")
    assert code == 0, err
    html = project.config.parent / "html"
    assert "culprits/index.html" in (html / "index.html").read_text()
    assert "Change 3" in (html / "culprits" / "index.html").read_text()


BAD_RANGES = {
    "nothing..main": "nothing",
    "main..main": "one commit",
    "main": "FROM..TO",
    "main..{first}": "main",
    "--all..main": "",
}


@pytest.mark.parametrize("spec", BAD_RANGES)
def test_a_bad_range_is_one_clear_line(project: Project, spec: str) -> None:
    """Exit code 2, one line, nothing begun."""
    spec = spec.replace("{first}", project.shas[0])
    code, out, err = project.run("bisect", "-b", "track_value", "--", spec)
    lines = [line for line in err.splitlines() if line.startswith("bisectorch: ")]
    assert (code, out, len(lines)) == (2, "", 1), err
    assert BAD_RANGES.get(spec, "") in lines[0]
    assert not project.logs()


def test_a_benchmark_that_matches_nothing(project: Project) -> None:
    """The line names what there is."""
    code, _, err = project.run("bisect", whole(project), "-b", "no_such")
    assert code == 2
    assert "no benchmark matches 'no_such'" in err
    assert "track_value" in err


def test_a_benchmark_pattern_that_is_no_pattern(project: Project) -> None:
    """The line quotes it."""
    code, _, err = project.run("bisect", whole(project), "-b", "time_(")
    assert code == 2
    assert "not a regular expression" in err


def test_more_workloads_than_the_budget_allows(project: Project) -> None:
    """Refused before anything is measured."""
    code, _, err = project.run("bisect", whole(project), "-b", ".", "--budget", "10s")
    assert code == 2
    assert "narrow -b or raise --budget" in err
    assert not project.logs()


def test_a_directory_that_is_not_a_repository(project: Project, tmp_path: Path) -> None:
    """Said with the setting that names it."""
    project.settings(repo=str(tmp_path))
    code, _, err = project.run("bisect", "a..b", "-b", "track_value")
    assert code == 2
    assert "is not a git repository" in err


def test_no_such_python(project: Project) -> None:
    """An environment failure."""
    project.settings(pythons=["3.99"])
    code, _, err = project.run("bisect", whole(project), "-b", "track_value")
    assert code == 4
    assert "3.99" in err


def test_a_wheel_that_cannot_be_installed(project: Project, tmp_path: Path) -> None:
    """An environment failure with pip's own telling line."""
    section = json.loads(project.config.read_text())["bisectorch"]
    section["base_wheel"]["requirement"] = "mini==9.9"
    project.settings(bisectorch={**section, "store": str(tmp_path / "store")})
    code, _, err = project.run("bisect", whole(project), "-b", "track_value")
    assert code == 4
    assert "mini==9.9" in err.splitlines()[-1]


def test_a_baseline_that_cannot_be_imported(project: Project) -> None:
    """Refused by name: there is nothing to compare with."""
    code, _, err = project.run("bisect", f"{project.shas[5]}..main", "-b", "track_value")
    assert code == 2
    assert f"FROM ({project.shas[5][:10]}) cannot be measured: unimportable" in err


def test_a_log_of_a_newer_version(project: Project) -> None:
    """Refused, untouched."""
    project.run("bisect", whole(project), "-b", "track_value")
    (log,) = project.logs()
    lines = log.read_text().splitlines(keepends=True)
    head = {**json.loads(lines[0]), "bisectorch_log": 99}
    log.write_text("".join([json.dumps(head) + "\n", *lines[1:]]))
    before = log.read_bytes()
    code, _, err = project.run("resume")
    assert code == 2
    assert "newer version" in err
    assert log.read_bytes() == before


def test_a_log_cut_in_its_last_line(project: Project) -> None:
    """Only the cut line is lost, and the session goes on."""
    project.run("bisect", whole(project), "-b", "track_value")
    (log,) = project.logs()
    log.write_bytes(log.read_bytes()[:-40])
    code, out, _ = project.run("resume", "--format", "json")
    assert code == 0
    assert len(culprits(out)) == 2


def test_no_session_yet(project: Project) -> None:
    """What to do is said."""
    for command in ("resume", "report", "log"):
        code, _, err = project.run(command)
        assert code == 2
        assert "bisectorch bisect" in err


def test_no_configuration(tmp_path: Path) -> None:
    """One line, not asv's traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "bisectorch", "bisect", "a..b", "-b", "x"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_prior_from_a_command_is_kept_in_the_log(project: Project) -> None:
    """A commit of little weight is found all the same, and a plan then knows what is built."""
    command = f"printf '{project.shas[3]} 0.01\\n'"
    code, out, err = project.run(
        "bisect", whole(project), "-b", "track_value", "--prior", command, "--format", "json"
    )
    assert code == 0, err
    assert sorted(culprits(out)) == sorted([project.shas[3], project.shas[9]])
    (log,) = project.logs()
    line = json.loads(log.read_bytes().splitlines()[0])["header"]["range"]["line"]
    assert {c["sha"]: c["prior"] for c in line if "prior" in c} == {project.shas[3]: 0.01}
    code, out, err = project.run("plan", whole(project), "-b", "track_value", "--format", "json")
    assert code == 0, err
    told = json.loads(out)
    assert told["session"] == log.stem
    assert told["built"] >= 4
    assert told["sigma"] == pytest.approx(0, abs=1e-9)
    assert 0 < told["run_seconds"] < 60


def test_a_prior_of_an_unknown_commit_is_one_clear_line(project: Project, tmp_path: Path) -> None:
    """Exit code 2, before anything is measured."""
    (tmp_path / "priors").write_text(f"{project.shas[3]} 0.5\n{'f' * 10} 0.5\n")
    code, _, err = project.run(
        "bisect", whole(project), "-b", "track_value", "--prior", str(tmp_path / "priors")
    )
    assert code == 2
    assert "line 2: ffffffffff is no commit of the range" in err
    assert not project.logs()
