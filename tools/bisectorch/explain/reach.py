"""Which files a workload reaches, and what that says of a commit before it is measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bisectorch.explain.profile import Profile
from bisectorch.explain.sources import installed
from bisectorch.model import Build, Trace


def reached(profile: Profile, build: Build, workload: str, paths: Sequence[str]) -> Trace:
    """The trace of one build.

    Of ``paths`` (the repository's) it tells which the build has although nothing imports them;
    of merely imported files only those are kept that are among them.
    """
    executed, prepared = set(profile.executed), set(profile.prepared)
    imported = set(profile.imported) - executed - prepared
    known = executed | prepared | imported
    places = {path: installed(path, known) for path in paths}
    tree = Path(build.tree)
    return Trace(
        workload,
        build.sha,
        tuple(sorted(executed)),
        tuple(sorted(prepared - executed)),
        tuple(sorted(imported & set(places.values()))),
        tuple(
            sorted(p for p, place in places.items() if place not in known and (tree / p).is_file())
        ),
    )


EXECUTED = 1.0
PREPARED = 0.3
IMPORTED = 0.05
IDLE = 1e-3
"""What a Python file weighs by how far a workload reaches it; never 0, so never blind."""


def weight(paths: Iterable[str], traces: Sequence[Trace]) -> float:
    """How plausible it is that a commit which changes these Python files moves the workload.

    The largest weight of its files, a file's being the largest over the builds traced. A file
    that no traced build has weighs as one that is executed: nothing is known of it, and a range
    may bring and take away the very file that matters. No trace at all says nothing.
    """
    if not traces:
        return EXECUTED
    return max((_file(path, traces) for path in paths), default=IDLE)


def _file(path: str, traces: Sequence[Trace]) -> float:
    return max(_in_one(path, trace) for trace in traces)


def _in_one(path: str, trace: Trace) -> float:
    for files, value in (
        (trace.executed, EXECUTED),
        (trace.prepared, PREPARED),
        (trace.imported, IMPORTED),
        (trace.present, IDLE),
    ):
        if installed(path, files) in files:
            return value
    return EXECUTED
