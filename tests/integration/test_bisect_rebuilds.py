"""Noise between builds from the command line: FROM built again, measured, logged and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from minihistory import MiniRepo
from nativehistory import NativeHistory, header, start, write_native_project

TIMED = """\
import quick


def time_cost():
    for _ in range(quick.cost()):
        quick.cost()
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two native commits, the second of which does four times the work."""
    root = tmp_path_factory.mktemp("rebuilds")
    story = NativeHistory(MiniRepo(root / "repo"))
    story.add("start", 100, {**start(), "third_party/tally/tally.h": "#define TALLY 0\n"})
    story.add("costly", 400, header(400))
    config = write_native_project(root / "project", story, root / "store")
    (config.parent / "benchmarks" / "timed.py").write_text(TIMED)
    return config


def run(config: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; never a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "bisectorch", *arguments, "--config", str(config)],
        cwd=config.parent,
        env={**os.environ, "HOME": str(config.parent), "BISECTORCH_STORE": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def test_builds_of_one_commit_are_measured_side_by_side(config: Path) -> None:
    """Before the search; the log, the report and the doctor tell how far they spread."""
    ends = ("bisect", "main~1..main", "-b", "timed.time_cost", "--smallest-step", "50%")
    code, out, err = run(config, *ends, "--rebuilds", "2", "--format", "json")
    assert code == 0, err
    [workload] = json.loads(out)["workloads"]
    assert [each["subject"] for each in workload["culprits"]] == ["costly"]
    [log] = (config.parent / "sessions").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    [rebuilds] = [line["rebuilds"] for line in lines if "rebuilds" in line]
    assert rebuilds["workload"] == "timed.time_cost"
    assert len(rebuilds["levels"]) == 3
    assert 0 <= rebuilds["sigma"] < 0.5
    assert workload["noise"]["build"] == rebuilds["sigma"]
    assert "between builds" in run(config, "report")[1]
    assert (
        f"timed.time_cost, in session {log.stem}: one run spreads by"
        in run(config, "doctor", "--offline")[1]
    )
    code, _, err = run(config, *ends, "--rebuilds", "1")
    assert code == 2
    assert "--rebuilds 1 shows no spread" in err
