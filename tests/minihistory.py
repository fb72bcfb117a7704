"""Real git histories and a real wheel, small enough to make in every test."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

WHEEL_FILES = {
    "mini/__init__.py": "from mini.nn.linear import value\n",
    "mini/ops.py": "FACTOR = 1\n",
    "mini/nn/__init__.py": "",
    "mini/nn/linear.py": "from mini.ops import FACTOR\n\n\ndef value():\n    return 100 * FACTOR\n",
    "mini/nn/conv.py": "KIND = 'conv'\n",
    "mini/nn/data.txt": "data of the wheel\n",
    "mini/native/core.bin": "native code\n",
    "other/__init__.py": "",
}


class MiniRepo:
    """A git repository built commit by commit, with dates a minute apart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._minutes = 0
        path.mkdir(parents=True, exist_ok=True)
        if not (path / ".git").exists():
            self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, data: bytes | None = None) -> str:
        """Run git apart from the configuration of whoever runs the tests."""
        self._minutes += 1
        date = f"{1_500_000_000 + 60 * self._minutes} +0000"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "An Author",
            "GIT_AUTHOR_EMAIL": "author@example.org",
            "GIT_COMMITTER_NAME": "A Committer",
            "GIT_COMMITTER_EMAIL": "committer@example.org",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=environment,
            input=data,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def commit(self, subject: str, files: Mapping[str, str | bytes | None] | None = None) -> str:
        """Write (or delete, for None) these files, commit, and return the object name."""
        for name, content in (files or {}).items():
            path = self.path / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str, subject: str) -> str:
        """Merge a branch with a merge commit, whatever it takes."""
        self.git("merge", "-q", "--no-ff", "-m", subject, branch)
        return self.git("rev-parse", "HEAD")


def make_wheel(
    folder: Path, name: str = "mini", version: str = "1.0", files: Mapping[str, str] = WHEEL_FILES
) -> Path:
    """Write a pure-Python wheel that pip accepts, and return its path."""
    info = f"{name}-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = ""
    for path, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\n"
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return wheel


def write_project(folder: Path, repo: Path, wheels: Path, store: Path, **overrides: object) -> Path:
    """Write an asv project over a mini history: configuration, one benchmark, a machine."""
    benchmarks = folder / "benchmarks"
    benchmarks.mkdir(parents=True, exist_ok=True)
    (benchmarks / "__init__.py").write_text("")
    (benchmarks / "tracked.py").write_text(
        "import os, sys\n"
        "import mini\n\n\n"
        "def track_value():\n    return mini.value()\n\n\n"
        "def track_threads():\n    return int(os.environ['MINI_THREADS'])\n\n\n"
        "def timeraw_import():\n    return 'import mini; mini.value()'\n\n\n"
        "timeraw_import.number = timeraw_import.repeat = 1\n"
    )
    configuration = {
        "version": 1,
        "project": "mini",
        "repo": os.path.relpath(repo, folder),
        "branches": ["main"],
        "environment_type": "bisectorch",
        "plugins": [".bisectorch.asv_plugin"],
        "pythons": [f"{sys.version_info[0]}.{sys.version_info[1]}"],
        "matrix": {"env_nobuild": {"MINI_THREADS": ["1"]}},
        "bisectorch": {
            "store": str(store),
            "base_wheel": {
                "requirement": "mini==1.0",
                "pip_args": ["--no-index", "--find-links", str(wheels)],
            },
            "classes": {"python_only": ["mini/**/*.py"], "irrelevant": ["docs/**", "*.md"]},
        },
        **overrides,
    }
    path = folder / "asv.conf.json"
    path.write_text(json.dumps(configuration, indent=1))
    return path
