"""What setup_cache leaves behind: filled once for each build, read by all of its processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from bisectorch.measure.child import Fault
from bisectorch.model import Build, Workload


class Filler(Protocol):
    """A worker that has been told to load the benchmark, in a directory of its own."""

    def answer(self) -> object:
        """Await the load."""

    def ask(self, command: str, timeout_seconds: float) -> object:
        """Have the cache filled."""

    def close(self) -> None:
        """Kill it."""


class SetupCaches:
    """The filled caches of one measurer, in a temporary directory that ends with it."""

    def __init__(self, parent: Path | None) -> None:
        """Choose where the directories are made; None is the system's temporary place."""
        self._parent = parent
        self._root: tempfile.TemporaryDirectory[str] | None = None
        self._keys: dict[str, str | None] = {}
        self._filled: dict[tuple[str, ...], Path | Fault] = {}

    def scratch(self) -> Path:
        """A new empty directory."""
        if self._root is None:
            if self._parent is not None:
                self._parent.mkdir(parents=True, exist_ok=True)
            self._root = tempfile.TemporaryDirectory(
                prefix="bisectorch-", dir=self._parent, ignore_cleanup_errors=True
            )
        return Path(tempfile.mkdtemp(dir=self._root.name))

    def known(self, build: Build, workload: Workload) -> bool:
        """Whether ``directory`` has an answer already."""
        if workload.benchmark not in self._keys:
            return False
        key = self._keys[workload.benchmark]
        return key is None or (*_identity(build), key) in self._filled

    def directory(self, build: Build, workload: Workload) -> Path | None:
        """Where this build's filled cache is, None when the workload has none; Fault."""
        key = self._keys[workload.benchmark]
        if key is None:
            return None
        filled = self._filled[(*_identity(build), key)]
        if isinstance(filled, Fault):
            raise Fault(filled.outcome, filled.reason)
        return filled

    def fill(
        self,
        build: Build,
        workload: Workload,
        key: str | None,
        timeout_seconds: float,
        begin: Callable[[Path], Filler],
    ) -> None:
        """See that ``directory`` has an answer, running setup_cache when it has not.

        Args:
            build: whose process runs it.
            workload: whose setup_cache it is.
            key: asv's key of that setup_cache; workloads that share it share the cache. None
                when the workload has none.
            timeout_seconds: how long it may take.
            begin: starts a fresh process for it in a directory that outlives the process.
        """
        self._keys[workload.benchmark] = key
        if self.known(build, workload) or key is None:
            return
        directory = self.scratch()
        filler = begin(directory)
        filled: Path | Fault = directory
        try:
            filler.answer()
            filler.ask("fill_cache", timeout_seconds)
        except Fault as fault:
            filled = fault
        finally:
            filler.close()
        self._filled[(*_identity(build), key)] = filled

    def close(self) -> None:
        """Remove everything."""
        self._keys.clear()
        self._filled.clear()
        if self._root is not None:
            self._root.cleanup()
            self._root = None


class HoldsCaches:
    """For a measurer, which is closed at the end of a block: its caches go with it."""

    _caches: SetupCaches

    def __enter__(self: Holder) -> Holder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the caches and scratch directories."""
        self._caches.close()


Holder = TypeVar("Holder", bound=HoldsCaches)


def _identity(build: Build) -> tuple[str, str, str]:
    return build.key or build.tree, build.sha, build.python
