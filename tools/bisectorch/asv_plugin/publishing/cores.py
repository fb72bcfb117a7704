"""One piece of work for each of many names, on every core."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence

_FEW = 12
"""So many pieces are done sooner here than processes are started."""


def on_every_core(
    work: Callable[[str], tuple[str, bytes]], names: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """The work on each name, in any order."""
    cores = len(os.sched_getaffinity(0))
    if len(names) <= _FEW or cores < 2:
        yield from map(work, names)
        return
    global _work
    _work = work
    # The processes end with their work, so garbage in cycles is not worth looking for.
    with multiprocessing.get_context("fork").Pool(cores, gc.disable) as pool:
        yield from pool.imap_unordered(_do, names, chunksize=4)


_work: Callable[[str], tuple[str, bytes]]
"""Handed to the forked processes by being there before they are."""


def _do(name: str) -> tuple[str, bytes]:
    return _work(name)
