"""The working tree as a commit of its own: what it holds now, under an object name.

Everything that takes a commit (routes, fingerprints, overlays, checkouts) then takes a working
tree as well. The commit is written to the repository's objects and nothing refers to it: neither
branches nor the index change, and git's own collection removes it in time. The same files give
the same name, so what was built for them is found again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.history.classes import PathClasses

_WHO = "working tree"
_OURS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


@dataclass(frozen=True)
class WorkingTree:
    """What a working tree holds.

    Attributes:
        sha: the commit that stands for it; HEAD's own when nothing was changed.
        head: HEAD.
        changed: the paths that differ from HEAD.
        left_out: files that git does not track and that are not Python files of the project;
            they are not part of it.
    """

    sha: str
    head: str
    changed: tuple[str, ...]
    left_out: tuple[str, ...]


def capture(repository: Path, classes: PathClasses) -> WorkingTree:
    """What the working tree of a repository holds now.

    That is: tracked files as they are, staged or not, and new Python files of the project.

    Raises UsageError when there is no working tree, no commit, or a merge is unresolved;
    EnvironmentFailure when git is missing or cannot write its objects.
    """
    top = Path(_git(repository, "rev-parse", "--show-toplevel", refuse=_no_tree(repository)))
    head = _git(top, "rev-parse", "--verify", "HEAD^{commit}", refuse=f"{top} has no commit yet")
    if _git(top, "ls-files", "--unmerged"):
        raise UsageError(f"{top} holds an unresolved merge: finish it, or name a commit")
    with tempfile.TemporaryDirectory() as folder:
        # A copy of the index: git then looks only at files whose times changed.
        index = Path(folder) / "index"
        known = top / _git(top, "rev-parse", "--git-path", "index")
        if known.exists():
            shutil.copy2(known, index)
        ours = {"GIT_INDEX_FILE": str(index)}
        others = _git(top, "ls-files", "--others", "--exclude-standard", "-z", more=ours)
        untracked = [path for path in others.split("\0") if path]
        added = [path for path in untracked if classes.is_python(path)]
        _git(top, "add", "--update", more=ours)
        listed = "".join(f"{path}\0" for path in added)
        _git(top, "update-index", "--add", "-z", "--stdin", more=ours, stdin=listed)
        tree = _git(top, "write-tree", more=ours)
    left_out = tuple(path for path in untracked if path not in set(added))
    if tree == _git(top, "rev-parse", f"{head}^{{tree}}"):
        return WorkingTree(head, head, (), left_out)
    changed = _git(top, "diff-tree", "-r", "-z", "--name-only", "--no-renames", head, tree)
    date = _git(top, "show", "--no-patch", "--format=%ct +0000", head)
    who = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", _WHO), ("EMAIL", "working-tree@localhost"), ("DATE", date))
    }
    message = f"Working tree on {head[:10]}"
    sha = _git(top, "commit-tree", tree, "-p", head, "-m", message, more=who)
    return WorkingTree(sha, head, tuple(path for path in changed.split("\0") if path), left_out)


def _no_tree(repository: Path) -> str:
    return f"{repository} has no working tree: name two commits"


def _git(
    where: Path,
    *arguments: str,
    more: Mapping[str, str] | None = None,
    stdin: str = "",
    refuse: str = "",
) -> str:
    """What git says; its failure is UsageError with ``refuse``, else EnvironmentFailure."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    try:
        done = subprocess.run(
            ["git", "-c", "gc.auto=0", *arguments],
            cwd=where,
            env={**environment, **(more or {})},
            input=os.fsencode(stdin),
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise EnvironmentFailure("git was not found: install it, or put it on the PATH") from error
    if done.returncode:
        if refuse:
            raise UsageError(refuse)
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise EnvironmentFailure(f"git {arguments[0]} in {where}: {lines[-1]}")
    return os.fsdecode(done.stdout).strip("\n")
