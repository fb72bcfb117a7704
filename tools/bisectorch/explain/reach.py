"""Which files a workload reaches in one build. Pure, but for asking whether files exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bisectorch.explain.profile import Profile
from bisectorch.explain.sources import installed
from bisectorch.model import Build, Trace


def reached(profile: Profile, build: Build, workload: str, paths: Sequence[str]) -> Trace:
    """The trace of one build.

    Of ``paths`` (the repository's) it tells which the build has although nothing imports them;
    of merely imported files only those are kept that are among them. A file that is among them
    is named as they name it.
    """
    executed, prepared = set(profile.executed), set(profile.prepared)
    imported = set(profile.imported) - executed - prepared
    known = executed | prepared | imported
    places = {path: installed(path, known) for path in paths}
    names = {place: path for path, place in places.items() if place in known}
    tree = Path(build.tree)

    def named(files: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names.get(file, file) for file in files))

    return Trace(
        workload,
        build.sha,
        named(executed),
        named(prepared - executed),
        named(imported & set(names)),
        tuple(
            sorted(p for p, place in places.items() if place not in known and (tree / p).is_file())
        ),
    )
