"""Releases as a history of their own: the commits that tags name, in the order of versions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from packaging.version import InvalidVersion, Version

from bisectorch.errors import UsageError
from bisectorch.history.repository import GitHistory
from bisectorch.model import Commit, CommitRange, PathClass


class ReleaseHistory:
    """One commit a release, each the only parent of the next.

    Implements ``seams.History``.

    Args:
        history: the repository.
        releases: version to the object name of its commit.
    """

    def __init__(self, history: GitHistory, releases: Mapping[str, str]) -> None:
        self._history = history
        self._releases = {Version(version): sha for version, sha in releases.items()}

    def range(self, spec: str) -> CommitRange:
        """Resolve ``1.0..2.14``: every release between the two, which need not be releases.

        UsageError when the spec is no range of versions, or holds fewer than two releases.
        """
        first, dots, last = spec.partition("..")
        try:
            start, end = Version(first), Version(last)
        except InvalidVersion as error:
            raise UsageError(f"{spec!r} is no range of releases: write 1.0..2.14") from error
        if not dots or start >= end:
            raise UsageError(f"{spec!r} is no range of releases: the older one comes first")
        chosen = [version for version in sorted(self._releases) if start <= version <= end]
        if len(chosen) < 2:
            known = ", ".join(map(str, sorted(self._releases))) or "none"
            raise UsageError(
                f"{spec!r} holds {len(chosen)} releases that are both tagged and in the package "
                f"index for this Python; there are: {known}"
            )
        line: list[Commit] = []
        for version in chosen:
            commit = self._history.commit(self._releases[version])
            line.append(
                replace(
                    commit,
                    parents=(line[-1].sha,) if line else (),
                    subject=f"release {version}",
                    paths=(),
                    path_class=PathClass.NATIVE,
                    # Between two releases everything may have changed.
                    fingerprint=hashlib.sha256(commit.sha.encode()).hexdigest(),
                )
            )
        return CommitRange(spec, tuple(line))

    def side_branch(self, merge: Commit) -> tuple[Commit, ...]:
        """None: a release is no merge."""
        return ()
