"""Where a session's builds are made, from what the command line says."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bisectorch
from bisectorch.asv_plugin.settings import Settings
from bisectorch.build import MOST_BUILDERS, Ladder, Store, ending_all, parcel
from bisectorch.execute import DaskExecutor, LocalExecutor, connect
from bisectorch.model import Commit

PROGRAM = "bisectorch.asv_plugin.jobs"
"""What performs our jobs on a worker."""


class StoreDepot:
    """The store as the place that builds are brought to (execute.dask.Depot)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def has(self, key: str) -> bool:
        """Whether it is here, brought or shared."""
        return self._store.about(key) is not None

    def take(self, key: str, parcel_file: Path) -> None:
        """Unpack it into its place."""
        parcel.take(self._store, key, parcel_file)


@contextlib.contextmanager
def executor_for(
    conf: Any, environment: str, ladder: Ladder
) -> Iterator[LocalExecutor | DaskExecutor]:
    """On the workers of ``--dask`` where that was said, else ``-j`` builds at a time here."""
    where = getattr(conf, "bisectorch_dask", None)
    if where is None:
        yield LocalExecutor(ladder, getattr(conf, "bisectorch_builders", 1), ending_all)
        return
    settings = Settings.from_conf(conf)
    builders = builders_for(1, where)

    def describe(commit: Commit) -> dict[str, Any]:
        return {
            "program": PROGRAM,
            "version": bisectorch.__version__,
            "do": "build",
            "commit": commit.sha,
            "route": ladder.quote(commit).route.value,
            "key": ladder.native_key(commit),
            "builders": builders,
            "environment": environment,
            "folder": str(Path.cwd()),
            "conf": plain(conf),
        }

    with connect(where) as client:
        depot = StoreDepot(Store(settings.store, settings.most_bytes))
        yield DaskExecutor(client, ladder, describe, depot)


def builders_for(jobs: int, dask: str | None) -> int:
    """How many builds may be made side by side from one store.

    Args:
        jobs: asv's ``-j``; below 1, one a core.
        dask: the cluster; it is not known how many workers of a foreign one share a store.
    """
    if dask is None:
        return jobs if jobs >= 1 else len(os.sched_getaffinity(0))
    kind, _, count = dask.partition(":")
    return int(count) if kind == "local" and count.isdigit() else MOST_BUILDERS


def plain(conf: Any) -> dict[str, Any]:
    """asv's configuration as it would stand in a file, the repository by its full path."""
    values: dict[str, Any] = {}
    for name, value in vars(conf).items():
        with contextlib.suppress(TypeError, ValueError):
            json.dumps(value)
            values[name] = value
    if Path(conf.repo).exists():
        values["repo"] = str(Path(conf.repo).absolute())
    return values
