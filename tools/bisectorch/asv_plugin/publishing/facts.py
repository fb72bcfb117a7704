"""What publishing asks of git, answered by a few processes however many tags there are."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from bisectorch.errors import EnvironmentFailure

_TAG_FORMAT = "%(refname:strip=2)%00%(objectname)%00%(objecttype)%00%(*objectname)%00%(*objecttype)"


class FastHistory:
    """asv's repository, with what publishing asks most answered from memory.

    It has the methods that asv's publishers call; what is not here is asv's own. Commits are
    full object names; dates are asv's: author time, in milliseconds since the epoch.
    """

    def __init__(self, repo: Any) -> None:
        self._repo = repo
        self._path = repo._path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repo, name)

    @cached_property
    def refs(self) -> str:
        """Every reference and what it names: the history changes only when this does."""
        return self._git("for-each-ref", "--format=%(objectname) %(refname)")

    @cached_property
    def _line(self) -> dict[str, tuple[int, int]]:
        """Each commit's revision and date."""
        text = self._git("log", "--all", "--date-order", "--reverse", "--format=%H %at")
        found = {}
        for revision, line in enumerate(text.splitlines()):
            sha, _, date = line.partition(" ")
            found[sha] = (revision, int(date) * 1000)
        return found

    @cached_property
    def _tags(self) -> dict[str, str]:
        tags = {}
        nested = []
        text = self._git(
            "for-each-ref", "refs/tags", "--sort=taggerdate", f"--format={_TAG_FORMAT}"
        )
        for line in text.splitlines():
            name, sha, kind, inner, inner_kind = line.split("\0")
            if kind == "commit":
                tags[name] = sha
            elif inner_kind == "commit":
                tags[name] = inner
            elif inner_kind == "tag":  # a tag of a tag; older git looks one step deep only
                tags[name] = ""
                nested.append(name)
        for name in nested:
            tags[name] = self._repo.get_hash_from_name(name)
        return tags

    def get_tags(self) -> dict[str, str]:
        """Each tag's commit; tags of files and trees are left out."""
        return dict(self._tags)

    def get_revisions(self, commits: set[str]) -> dict[str, int]:
        """The place of each of these commits among all, oldest first."""
        return {sha: found[0] for sha, found in self._line.items() if sha in commits}

    def get_date_from_name(self, name: str) -> int:
        """When the commit was written."""
        if name in self._line:
            return self._line[name][1]
        return int(self._repo.get_date_from_name(name))

    def get_branch_commits(self, branch: str | None) -> Sequence[str]:
        """The branch's commits along first parents, newest first."""
        return list(self._branch(self._repo.get_branch_name(branch)))

    def get_hashes_from_range(self, spec: str) -> Sequence[str]:
        """The commits of ``A..B`` along first parents, newest first."""
        old, dots, new = spec.partition("..")
        for places in self._branches.values():
            if dots and old in places and new in places and places[new] <= places[old]:
                line = list(places)
                return line[places[new] : places[old]]
        hashes: Sequence[str] = self._repo.get_hashes_from_range(spec)
        return hashes

    @cached_property
    def _branches(self) -> dict[str, dict[str, int]]:
        return {}

    def _branch(self, name: str) -> dict[str, int]:
        """Each commit of the branch with its place, the tip's is 0."""
        if name not in self._branches:
            line = self._repo.get_hashes_from_range(name)
            self._branches[name] = {sha: place for place, sha in enumerate(line)}
        return self._branches[name]

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self._path), *arguments], capture_output=True, check=False
        )
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip() or "no reason"
            raise EnvironmentFailure(
                f"git {arguments[0]} failed in {self._path}: {reason.splitlines()[-1]}"
            )
        return done.stdout.decode("utf-8", "replace")
