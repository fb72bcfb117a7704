"""Builds on this machine: one at a time, or ``jobs`` side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from bisectorch.errors import BisectorchError
from bisectorch.model import Build, Commit
from bisectorch.seams import Provider


class LocalExecutor:
    """Makes builds in this process, never while anything is measured.

    Args:
        provider: makes one build.
        jobs: how many builds at the same time.
    """

    def __init__(self, provider: Provider, jobs: int = 1) -> None:
        self._provider = provider
        self._jobs = max(1, jobs)

    def build(self, commits: Sequence[Commit]) -> Iterator[tuple[Commit, Build | Exception]]:
        """Make these builds in order; a fault is yielded in the build's place."""
        if self._jobs == 1 or len(commits) < 2:
            for commit in commits:
                yield commit, self._attempt(commit)
            return
        with ThreadPoolExecutor(self._jobs) as pool:
            yield from zip(commits, pool.map(self._attempt, commits), strict=True)

    def _attempt(self, commit: Commit) -> Build | Exception:
        try:
            return self._provider.provide(commit)
        except BisectorchError as error:
            return error
