"""A large project for benchmarks of publishing: a repository, asv results and sessions, made up.

Levels have steps and noise as real ones do; everything follows from the sizes, so that two runs
measure the same work.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

FIRST_DATE = 1_500_000_000


@dataclass(frozen=True)
class Sizes:
    """How large the project is."""

    commits: int = 500
    workloads: int = 200
    machines: int = 2
    tags: int = 1000


def make_project(root: Path, sizes: Sizes) -> Path:
    """Write the project below ``root`` and return its asv.conf.json."""
    root.mkdir(parents=True, exist_ok=True)
    shas = _make_repository(root / "repo", sizes)
    benchmarks = {
        name: {
            "name": name,
            "param_names": [],
            "params": [],
            "type": "time",
            "unit": "seconds",
            "version": "1",
            "code": "",
            "timeout": 60,
        }
        for name in (f"suite{i % 10}.Case{i // 10}.time_it" for i in range(sizes.workloads))
    }
    _write(root / "results" / "benchmarks.json", {**benchmarks, "version": 2})
    for machine in range(sizes.machines):
        _make_results(root / "results", f"machine-{machine}", shas, list(benchmarks), machine)
    conf = {
        "version": 1,
        "project": "big",
        "repo": str(root / "repo"),
        "branches": ["main"],
        "show_commit_url": "https://example.org/commit/",
        "plugins": [".bisectorch.asv_plugin"],
        "environment_type": "bisectorch",
        "pythons": ["3.11"],
        "env_dir": "env",
        "results_dir": "results",
        "html_dir": "html",
        "bisectorch": {"sessions_dir": "sessions"},
    }
    _write(root / "asv.conf.json", conf)
    return root / "asv.conf.json"


def add_results(conf: Path, sha: str, benchmark: str, factor: float) -> None:
    """What one more session leaves behind: this commit's value of one benchmark measured anew."""
    for path in sorted((conf.parent / "results").glob(f"*/{sha[:8]}-*.json")):
        content = json.loads(path.read_text())
        content["results"][benchmark][0][0] *= factor
        path.write_text(json.dumps(content))


def commits(conf: Path) -> list[str]:
    """The project's commits, oldest first."""
    command = ["git", "-C", str(conf.parent / "repo"), "rev-list", "--reverse", "main"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def _make_repository(repo: Path, sizes: Sizes) -> list[str]:
    stream = [
        f"commit refs/heads/main\nmark :{index + 1}\n"
        f"committer A Writer <a@example.org> {FIRST_DATE + index * 3600} +0000\n"
        f"data <<END\nChange {index} of the project (#{index + 100})\nEND\n"
        + (f"from :{index}\n" if index else "")
        + f"M 644 inline file.txt\ndata <<END\n{index}\nEND\n"
        for index in range(sizes.commits)
    ]
    stream += [
        f"reset refs/tags/v0.{index}\nfrom :{1 + index * sizes.commits // sizes.tags}\n"
        for index in range(sizes.tags)
    ]
    subprocess.run(["git", "init", "-q", "-b", "main", str(repo)], check=True)
    subprocess.run(
        ["git", "-C", str(repo), "fast-import", "--quiet"],
        input="\n".join(stream).encode(),
        check=True,
    )
    command = ["git", "-C", str(repo), "rev-list", "--reverse", "main"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def _make_results(
    results: Path, machine: str, shas: list[str], names: list[str], seed: int
) -> None:
    facts = {"machine": machine, "cpu": "x", "arch": "x86_64", "os": "L", "num_cpu": "2", "ram": ""}
    _write(results / machine / "machine.json", {**facts, "version": 1})
    dice = random.Random(seed)
    base = {name: math.exp(dice.uniform(-14, -7)) for name in names}
    steps = {
        name: {dice.randrange(5, len(shas)): dice.choice((0.7, 0.85, 1.2, 1.4)) for _ in range(3)}
        for name in names
    }
    for index, sha in enumerate(shas):
        rows = {}
        for name in names:
            base[name] *= steps[name].get(index, 1.0)
            value = base[name] * math.exp(dice.gauss(0, 0.01))
            rows[name] = [
                [float(f"{value:.4e}")],
                [],
                "1",
                1_600_000_000_000 + index,
                1.5,
                [float(f"{value * 0.99:.4e}")],
                [float(f"{value * 1.01:.4e}")],
                [float(f"{value * 0.995:.4e}")],
                [float(f"{value * 1.005:.4e}")],
                [10],
                [5],
            ]
        columns = ["result", "params", "version", "started_at", "duration"]
        columns += ["stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75"]
        columns += ["stats_number", "stats_repeat"]
        content = {
            "version": 2,
            "commit_hash": sha,
            "env_name": "e",
            "date": (FIRST_DATE + index * 3600) * 1000,
            "params": {**facts, "python": "3.11"},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "result_columns": columns,
            "results": rows,
            "durations": {},
        }
        _write(results / machine / f"{sha[:8]}-e.json", content)


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
