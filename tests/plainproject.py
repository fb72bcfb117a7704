"""A small pure-Python project that asv tracks, and our command line in its directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from minihistory import MiniRepo

CONFIGURATION = """\
{
    "version": 1,
    "project": "wordy", // ours
    "repo": ".",
    "branches": ["main"],
    // "virtualenv" or "conda"
    "environment_type": "virtualenv",
    "matrix": {"req": {"six": [""]}},
    "results_dir": ".asv/results", /* and nothing else */
}
"""
FILES = {
    ".gitignore": ".asv/\nenv/\n__pycache__/\n",
    "asv.conf.json": CONFIGURATION,
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=64", "wheel"]\n'
    'build-backend = "setuptools.build_meta"\n\n'
    '[project]\nname = "wordy"\nversion = "1.0"\n',
    "src/wordy/__init__.py": "def steps():\n    return 100\n",
    "benchmarks/__init__.py": "",
    "benchmarks/steps.py": "import wordy\n\n\ndef track_steps():\n    return wordy.steps()\n",
}


def make_project(folder: Path) -> MiniRepo:
    """The project, tagged v1 at its first commit, with one step in its four commits."""
    repo = MiniRepo(folder)
    repo.commit("start", FILES)
    repo.git("tag", "v1")
    repo.commit("write", {"README.md": "wordy\n"})
    repo.commit("slow down", {"src/wordy/__init__.py": "def steps():\n    return 150\n"})
    repo.commit("write more", {"src/wordy/more.py": "MORE = 1\n"})
    return repo


def environment(home: Path, **variables: str) -> dict[str, str]:
    """As for a person who has never run this before; pip's settings and interpreters are kept."""
    pyenv = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CI_"))}
    known = {"HOME": str(home), "PYENV_ROOT": pyenv, "BISECTORCH_STORE": "", "COLUMNS": "100"}
    return {**inherited, **known, **variables}


def run(folder: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Our command line in a directory, at home in the one above; never a traceback."""
    return call([sys.executable, "-m", "bisectorch", *arguments], folder, variables)


def call(
    command: list[str], folder: Path, variables: Mapping[str, str], stdin: int = subprocess.DEVNULL
) -> tuple[int, str, str]:
    """Any command, likewise."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder.parent, **variables),
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr
