from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from minihistory import MiniRepo, make_wheel, write_project

LEVELS = {"1.0": 100, "1.1": 100, "1.2": 140, "1.10": 140}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Releases on branches of their own, as wheels in an index; one tag was never released."""
    root = tmp_path_factory.mktemp("releases")
    repo = MiniRepo(root / "repo")
    repo.commit("base", {"setup.py": "x\n"})
    for version, level in LEVELS.items():
        code = {"mini/__init__.py": f"def value():\n    return {level}\n"}
        repo.commit(f"work for {version}", {**code, "core.c": f"/* {version} */\n"})
        repo.git("checkout", "-q", "-b", f"release/{version}")
        sha = repo.commit(f"cut {version}", {"version.txt": version})
        repo.git("tag", f"v{version}", sha)
        repo.git("checkout", "-q", "main")
        files = {**code, "mini/version.py": f"git_version = '{sha}'\n"}
        make_wheel(root / "wheels", "mini", version, files)
    repo.git("tag", "v1.5", "main")
    make_wheel(root / "wheels", "mini", "2.0rc1", {"mini/__init__.py": ""})
    section = {
        "store": str(root / "store"),
        "wheels": {"pip_args": ["--no-index", "--find-links", str(root / "wheels")]},
        "classes": {"python_only": ["mini/**/*.py"], "irrelevant": []},
    }
    return write_project(
        root / "project", repo.path, root / "wheels", root / "store", bisectorch=section
    )


def bisect(config: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, report, and what was said."""
    command = ["bisect", "-b", "track_value", "--format", "json", *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "bisectorch", *command, "--config", str(config)],
        env={**os.environ, "HOME": str(config.parent), "BISECTORCH_STORE": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def git(config: Path, *arguments: str) -> str:
    """What git says of the project's repository."""
    repo = config.parent / json.loads(config.read_text())["repo"]
    command = ["git", "-C", str(repo), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_releases_are_searched_and_the_commits_offered(project: Path) -> None:
    """In the order of versions, from wheels alone; then the range between the two that differ."""
    code, out, err = bisect(project, "--releases", "1.0..2.0")
    assert code == 0, err
    report = json.loads(out)
    [culprit] = report["workloads"][0]["culprits"]
    assert culprit["commit"] == git(project, "rev-parse", "v1.2")
    assert culprit["ratio"] == pytest.approx(1.4)
    forks = [git(project, "merge-base", "main", tag)[:10] for tag in ("v1.1", "v1.2")]
    assert "between release 1.1 and release 1.2: " in err
    assert f"bisectorch bisect {forks[0]}..{forks[1]} -b 'tracked.track_value'" in err


@pytest.mark.parametrize(
    ("releases", "says"),
    [
        ("1.0..1.0", "the older one comes first"),
        ("new..old", "write 1.0..2.14"),
        ("1.3..1.9", "holds 0 releases .* there are: 1.0, 1.1, 1.2, 1.10"),
    ],
)
def test_what_is_no_range_of_releases_is_told(project: Path, releases: str, says: str) -> None:
    """With what there is."""
    code, _, err = bisect(project, "--releases", releases)
    assert code == 2
    [line] = [line for line in err.splitlines() if line.startswith("bisectorch: ")]
    assert re.search(says, line), line
