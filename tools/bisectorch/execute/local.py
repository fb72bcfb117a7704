"""Builds on this machine: one at a time, or ``jobs`` side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext

from bisectorch.errors import BisectorchError
from bisectorch.model import Build, Commit
from bisectorch.seams import Provider


class LocalExecutor:
    """Makes builds in this process, never while anything is measured.

    Args:
        provider: makes one build; safe to use from ``jobs`` threads.
        jobs: how many builds at the same time.
        ending: entered when builds under way are not wanted any more, and left when they ended.
    """

    def __init__(
        self,
        provider: Provider,
        jobs: int = 1,
        ending: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._provider = provider
        self._ending = ending
        self.width = max(1, jobs)

    def build(self, commits: Sequence[Commit]) -> Iterator[tuple[Commit, Build | Exception]]:
        """Make these builds; a fault is yielded in the build's place.

        Closing the generator, like any exception, ends what is under way.
        """
        if self.width == 1 or len(commits) < 2:
            for commit in commits:
                yield commit, self._attempt(commit)
            return
        pool = ThreadPoolExecutor(self.width)
        done = False
        try:
            futures = {pool.submit(self._attempt, commit): commit for commit in commits}
            for future in as_completed(futures):
                yield futures[future], future.result()
            done = True
        finally:
            with nullcontext() if done else self._ending():
                pool.shutdown(cancel_futures=True)

    def _attempt(self, commit: Commit) -> Build | Exception:
        try:
            return self._provider.provide(commit)
        except BisectorchError as error:
            return error
