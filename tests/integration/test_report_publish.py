"""`asv publish` and `bisectorch publish` on a real project: asv's site, with ours in it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import git
import pytest
from bisectorch.report.record import SessionLog, log_path
from factories import make_findings, make_session

BENCHMARK = "linear.Linear.time_backward"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with asv results of its two commits, a session, and two bad logs."""
    root = tmp_path_factory.mktemp("project")
    repo = git.Repo.init(root / "repo", initial_branch="main")
    actor = git.Actor("A", "a@example.org")
    shas = [
        repo.index.commit(text, author=actor, committer=actor).hexsha for text in ("one", "two")
    ]
    conf = {
        "version": 1,
        "project": "pytorch",
        "repo": str(root / "repo"),
        "branches": ["main"],
        "show_commit_url": "https://example.org/commit/",
        "plugins": [".bisectorch.asv_plugin"],
        "environment_type": "bisectorch",
        "pythons": ["3.11"],
        "bisectorch": {"sessions_dir": "logs"},
    }
    write(root / "asv.conf.json", conf)
    machine = {"machine": "bench-1", "cpu": "", "arch": "", "os": "", "num_cpu": "1", "ram": ""}
    write(root / "results" / "bench-1" / "machine.json", {**machine, "version": 1})
    benchmark = {
        "name": BENCHMARK,
        "param_names": ["batch", "features"],
        "params": [["1"], ["10"]],
        "type": "time",
        "unit": "seconds",
        "version": "abc123",
        "code": "",
        "timeout": 60,
    }
    write(root / "results" / "benchmarks.json", {BENCHMARK: benchmark, "version": 2})
    for index, sha in enumerate(shas):
        result = {
            "version": 2,
            "commit_hash": sha,
            "env_name": "e",
            "date": 1_500_000_000_000 + index,
            "params": {"machine": "bench-1", "python": "3.11"},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "result_columns": ["result", "params", "version", "started_at", "duration"],
            "results": {BENCHMARK: [[1e-6 + index], [["1"], ["10"]], "abc123", 1, 1]},
            "durations": {},
        }
        write(root / "results" / "bench-1" / f"{sha[:8]}-e.json", result)
    session = make_session(make_findings())
    header = replace(session.header, workloads=session.header.workloads[:2])
    path = log_path(root / "logs", header.session)
    with SessionLog.create(path, header) as log:
        for event in session.events:
            log.append(event)
    newer = path.read_bytes().replace(b'"bisectorch_log":2', b'"bisectorch_log":8')
    (root / "logs" / "newer.jsonl").write_bytes(newer)
    (root / "logs" / "cut.jsonl").write_bytes(newer[:100])
    return root


def write(path: Path, content: object) -> None:
    """A JSON file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("tool", ["asv", "bisectorch"])
def test_publish(project: Path, tool: str) -> None:
    """Twice in a row: asv's graphs, our list of sessions with the bad logs named, one link."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", tool, "publish", "--config", str(project / "asv.conf.json")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    html = project / "html"
    index = (html / "index.html").read_text()
    assert index.count('href="culprits/index.html"') == 1
    known = json.loads((html / "index.json").read_text())
    assert BENCHMARK in known["benchmarks"]
    culprits = (html / "culprits" / "index.html").read_text(encoding="utf-8")
    name = make_findings().session
    assert f'href="{name}/index.html"' in culprits
    assert "2 session logs left out" in culprits
    assert "log version 8" in culprits
    warned = " ".join((done.stdout + done.stderr).split())
    assert "newer.jsonl" in warned
    assert "cut.jsonl" in warned
    report = json.loads((html / "culprits" / name / "report.json").read_text())
    assert report["cost"]["runs"] > 100
    session = (html / "culprits" / name / "index.html").read_text(encoding="utf-8")
    assert f"../../index.html#{BENCHMARK}?p-batch=1&amp;p-features=10" in session
