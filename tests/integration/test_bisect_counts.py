"""Instructions on the command line: a search by them alone, corroboration, and no tool at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bisectorch.errors import EnvironmentFailure
from bisectorch.measure.counts import find_tool
from minihistory import MiniRepo, make_wheel, write_project

needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind here")
LEVELS = [2000, 2000, 3000, 3000, 3000, 2400, 2400]
VALUE = "def value():\n    return {}\n"
BENCHMARKS = """\
import mini


def time_value():
    for _ in range(mini.value()):
        pass


def track_value():
    return mini.value()


time_value.warmup_time = 0.0
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven commits: half as much more, then a fifth less."""
    root = tmp_path_factory.mktemp("counts")
    repo = MiniRepo(root / "repo")
    for index, level in enumerate(LEVELS):
        files = {"mini/other.py": f"X = {index}\n", "mini/nn/linear.py": VALUE.format(level)}
        repo.commit(f"Change {index}", files)
    make_wheel(root / "wheels")
    path = write_project(
        root / "project", repo.path, root / "wheels", root / "store", env_dir=str(root / "env")
    )
    (path.parent / "benchmarks" / "counted.py").write_text(BENCHMARKS)
    conf = json.loads(path.read_text())
    path.write_text(json.dumps({**conf, "repo": str(repo.path)}))
    (root / "home").mkdir()
    return path


def run(config: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; never a traceback."""
    home = config.parent.parent / "home"
    done = subprocess.run(
        [sys.executable, "-m", "bisectorch", "--config", str(config), *arguments],
        env={**os.environ, "HOME": str(home), "COLUMNS": "100", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def culprits(report: str) -> dict[str, float]:
    """Subject to ratio."""
    [workload] = json.loads(report)["workloads"]
    return {each["subject"]: each["ratio"] for each in workload["culprits"]}


@needs_valgrind
def test_a_search_by_instructions_names_the_culprits(config: Path) -> None:
    """Both signs, their sizes to a percent, and no result of asv's is touched."""
    ends = ("bisect", "main~6..main", "-b", "counted.time_value")
    code, out, err = run(config, *ends, "--metric", "instructions", "--format", "json")
    assert code == 0, err
    found = culprits(out)
    assert set(found) == {"Change 2", "Change 5"}
    assert found["Change 2"] == pytest.approx(1.5, rel=0.03)
    assert found["Change 5"] == pytest.approx(0.8, rel=0.03)
    report = json.loads(out)
    [workload] = report["workloads"]
    assert workload["unit"] == "instructions"
    assert report["conditions"]["python"]
    assert all("--metric instructions" in each["command"] for each in workload["culprits"])
    results = config.parent / "results"
    assert not [path for path in results.rglob("*.json") if path.name[:8] == "machine-"]
    assert "counted.time_value" not in "".join(
        path.read_text() for path in results.rglob("*-*.json")
    )
    code, out, _ = run(config, "report")
    assert "instructions" in out


@needs_valgrind
def test_culprits_by_time_are_corroborated(config: Path) -> None:
    """When asked, also of a session that has ended; what was counted is not counted again."""
    ends = ("bisect", "main~6..main~3", "-b", "counted.time_value", "--smallest-step", "20%")
    code, out, err = run(config, *ends, "--no-corroborate", "--format", "json")
    assert code == 0, err
    assert json.loads(out)["workloads"][0]["culprits"][0]["instructions"] is None
    code, out, err = run(config, "resume", "--corroborate", "--format", "json")
    assert code == 0, err
    [culprit] = json.loads(out)["workloads"][0]["culprits"]
    assert culprit["instructions"]["ratio"] == pytest.approx(1.5, rel=0.03)
    assert "counting instructions around" in err
    code, out, err = run(config, "resume", "--corroborate")
    assert "counting instructions around" not in err
    assert "instructions (" in out
    assert "count " in run(config, "log")[1]


def test_without_a_tool_one_line_says_what_to_install(config: Path, tmp_path: Path) -> None:
    """Exit code 4, before anything is built."""
    try:
        if find_tool().is_cheap:
            pytest.skip("the kernel counts here")
    except EnvironmentFailure:
        pass
    (tmp_path / "git").symlink_to(str(shutil.which("git")))
    ends = ("bisect", "main~6..main", "-b", "counted.time_value")
    for asked in (("--metric", "instructions"), ("--corroborate",)):
        code, _, err = run(config, *ends, *asked, PATH=str(tmp_path))
        assert code == 4
        assert "install valgrind" in err
        assert "building" not in err


@needs_valgrind
def test_what_is_no_time_is_refused(config: Path) -> None:
    """A tracked number has no instructions."""
    ends = ("bisect", "main~6..main", "-b", "counted")
    code, _, err = run(config, *ends, "--metric", "instructions")
    assert code == 2
    assert "counted.track_value is none of them; narrow -b" in err
