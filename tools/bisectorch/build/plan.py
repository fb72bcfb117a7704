"""The plan: which route a commit's build takes, and what it will cost. Pure.

A quote is the expected cost before doing it: the median of what the same kind of work cost so
far, in this session and in earlier ones, or a first guess where nothing is known yet.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bisectorch.model import Quote, Route

OVERLAY = "overlay"
WHEEL = "wheel"
DOWNLOAD = "download"
UNPACK = "unpack"
SOURCE_FROM_NOTHING = "source nothing"
SOURCE_STEP = "source step"
SALTED = "salted"

FIRST_GUESS_SECONDS = {
    OVERLAY: 0.3,
    WHEEL: 120.0,
    DOWNLOAD: 60.0,
    UNPACK: 15.0,
    SOURCE_FROM_NOTHING: 1800.0,
    SOURCE_STEP: 600.0,
}
"""Before anything was measured: an overlay is links, a wheel a download, a source build hours."""

ROUTES = {
    OVERLAY: Route.OVERLAY,
    WHEEL: Route.WHEEL,
    DOWNLOAD: Route.WHEEL,
    UNPACK: Route.WHEEL,
    SOURCE_FROM_NOTHING: Route.SOURCE,
    SOURCE_STEP: Route.SOURCE,
}
"""The route that each kind of work is."""


@dataclass(frozen=True)
class Situation:
    """What is still to be done for a build of one commit.

    Attributes:
        base: the kind of work that yields the native build it asks for; None when it is there.
        overlay: whether the commit's own Python files are then still to be laid.
    """

    base: str | None
    overlay: bool


def expected_seconds(kind: str, learned: Mapping[str, Sequence[float]]) -> float:
    """The expected cost of one kind of work, given what it cost before."""
    known = learned.get(kind)
    return statistics.median(known) if known else FIRST_GUESS_SECONDS[kind]


def quote(sha: str, situation: Situation, learned: Mapping[str, Sequence[float]]) -> Quote:
    """What is still to be done for ``sha``, and its expected cost in seconds."""
    kinds = [*filter(None, [situation.base]), *((OVERLAY,) if situation.overlay else ())]
    if not kinds:
        return Quote(sha, Route.CACHED, 0.0)
    return Quote(sha, ROUTES[kinds[-1]], sum(expected_seconds(kind, learned) for kind in kinds))


def rebuild_quote(sha: str, is_there: bool, learned: Mapping[str, Sequence[float]]) -> Quote:
    """What one more build of ``sha`` will cost: as others did, else as one from nothing does."""
    if is_there:
        return Quote(sha, Route.CACHED, 0.0)
    kind = SALTED if learned.get(SALTED) else SOURCE_FROM_NOTHING
    return Quote(sha, Route.SOURCE, expected_seconds(kind, learned))
