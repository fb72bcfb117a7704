"""``--version``: ours, and those of what an answer rests on."""

from __future__ import annotations

import argparse
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

import bisectorch


class VersionAction(argparse._VersionAction):
    """Tells the versions when it is asked, and not before, because git has to be started."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them and end."""
        print("\n".join(versions()))  # noqa: T201
        parser.exit()


def versions() -> list[str]:
    """One line a program, ours first."""
    return [
        f"bisectorch {bisectorch.__version__}",
        f"asv {version('asv')}",
        f"Python {platform.python_version()}",
        _git(),
        _torch(),
    ]


def _git() -> str:
    try:
        done = subprocess.run(["git", "--version"], capture_output=True, check=False, text=True)
    except OSError:
        return "git not found"
    return done.stdout.strip().replace("git version", "git") or "git does not answer"


def _torch() -> str:
    """Of this interpreter, from its metadata: this process never imports torch."""
    try:
        return f"torch {version('torch')}"
    except PackageNotFoundError:
        return "torch none here (environments have their own)"
