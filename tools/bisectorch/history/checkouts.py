"""Work trees beside the user's own, one a commit, kept for the next time."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bisectorch.errors import EnvironmentFailure, UsageError


def top_of(directory: Path) -> Path:
    """The root of the working tree that a directory lies in; UsageError when in none."""
    status, said = _git(directory, "rev-parse", "--show-toplevel")
    if status:
        raise UsageError(f"{directory} is in no git working tree: run this in one")
    return Path(said)


def checkout(top: Path, sha: str) -> Path:
    """A work tree of the commit, made when there is none (`git worktree list` shows it).

    Raises EnvironmentFailure when git cannot make it.
    """
    common = _git(top, "rev-parse", "--git-common-dir")[1]
    path = (top / common / "bisectorch" / sha[:12]).resolve()
    if _git(path, "rev-parse", "HEAD")[1] == sha:
        return path
    # Also when somebody removed the directory, which git still has on its list.
    status, said = _git(top, "worktree", "add", "--force", "--detach", str(path), sha)
    if status:
        raise EnvironmentFailure(f"git cannot check out {sha[:10]} beside {top}: {said}")
    return path


def _git(where: Path, *arguments: str) -> tuple[int, str]:
    """Status and output, or the last line of what went wrong."""
    if not where.is_dir():
        return 1, ""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=where, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise EnvironmentFailure("git was not found: install it, or put it on the PATH") from error
    if done.returncode:
        return done.returncode, (done.stderr.strip().splitlines() or ["no message"])[-1]
    return 0, done.stdout.strip()
