"""What became of each function's source between two builds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bisectorch.explain.profile import Spot
from bisectorch.model import CodeChange, SpentIn, TouchedFile

Definition = tuple[str, int, int, str]
"""Qualified name, first line, last line, digest: as the child describes a file."""

Files = Mapping[str, "Sequence[Definition] | None"]
"""What the files of one build define, by path; None for one that is missing or unreadable."""

MODULE = "<module>"


def changes(spots: Iterable[Spot], before: Files, after: Files) -> dict[Spot, CodeChange]:
    """What became of each Python function of the trees; others are left out."""
    return {
        spot: change(spot.name, before.get(spot.path), after.get(spot.path))
        for spot in spots
        if spot.own and spot.kind is SpentIn.PYTHON
    }


def change(
    name: str, before: Sequence[Definition] | None, after: Sequence[Definition] | None
) -> CodeChange:
    """What became of the function of this name; of equal names all count together.

    A function that no file defines, because it was made when the program ran, is as its file is.
    """
    was, is_now = _digests(name, before), _digests(name, after)
    if not was and not is_now:
        was, is_now = _digests(None, before), _digests(None, after)
    if was == is_now:
        return CodeChange.SAME
    if not was:
        return CodeChange.NEW
    return CodeChange.CHANGED if is_now else CodeChange.GONE


def _digests(name: str | None, defined: Sequence[Definition] | None) -> list[str]:
    return sorted(each[3] for each in defined or () if name is None or each[0] == name)


def lines(spots: Iterable[Spot], before: Files, after: Files) -> dict[Spot, int]:
    """Where each function begins: in the child's file, or in the parent's when it is gone."""
    found = {}
    for spot in spots:
        for files in (after, before):
            places = [each[1] for each in files.get(spot.path) or () if each[0] == spot.name]
            if places:
                found[spot] = places[0]
                break
    return found


def touched(
    paths: Sequence[str], executed: Iterable[Spot], before: Files, after: Files
) -> tuple[TouchedFile, ...]:
    """The files of a diff, and which of their changed functions the workload executes.

    A repository's path is a tree's when it ends in it: ``src/pkg/a.py`` is installed as
    ``pkg/a.py``.
    """
    ran: dict[str, set[str]] = {}
    for spot in executed:
        if spot.own:
            ran.setdefault(spot.path, set()).add(spot.name)
    made = []
    for path in paths:
        place = installed(path, {*ran, *before, *after})
        names = ran.get(place, set())
        moved = [
            name
            for name in dict.fromkeys(
                each[0] for files in (before, after) for each in files.get(place) or ()
            )
            if change(name, before.get(place), after.get(place)) is not CodeChange.SAME
        ]
        made.append(
            TouchedFile(
                path,
                executed=bool(names),
                functions=tuple(name for name in moved if name in names),
                idle=tuple(name for name in moved if name not in names and name != MODULE),
            )
        )
    return tuple(sorted(made, key=lambda file: (not file.functions, not file.executed)))


def installed(path: str, known: Iterable[str]) -> str:
    """Where in a tree a repository's file is: the longest of the known paths that it ends in."""
    places = [place for place in known if path == place or path.endswith("/" + place)]
    return max(places, key=len, default=path)
