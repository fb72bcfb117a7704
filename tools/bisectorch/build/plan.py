"""The plan: which route a commit's build takes, and what it will cost. Pure.

A quote is the expected cost before doing it: the median of what the same route cost so far in
this session, or a first guess where nothing is known yet.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bisectorch.model import Quote, Route

FIRST_GUESS_SECONDS = {
    Route.CACHED: 0.0,
    Route.OVERLAY: 0.3,
    Route.WHEEL: 120.0,
    Route.SOURCE: 1800.0,
}
"""Before anything was measured: an overlay is links, a wheel a download, a source build hours."""


@dataclass(frozen=True)
class Situation:
    """What there is to build one commit from.

    Attributes:
        cached: its tree is in the store.
        base: the routes still to be taken to have the native build that its fingerprint asks
            for; none when it is in the store.
        files: how many Python files the commit lays over that base.
    """

    cached: bool
    base: tuple[Route, ...]
    files: int


def expected_seconds(route: Route, learned: Mapping[Route, Sequence[float]]) -> float:
    """The expected cost of one route, given what it cost before."""
    known = learned.get(route)
    return statistics.median(known) if known else FIRST_GUESS_SECONDS[route]


def quote(sha: str, situation: Situation, learned: Mapping[Route, Sequence[float]]) -> Quote:
    """The cheapest route to a build of ``sha``.

    A commit without files of its own is its base, so its route is the base's.
    """
    routes = situation.base + ((Route.OVERLAY,) if situation.files else ())
    if situation.cached or not routes:
        return Quote(sha, Route.CACHED, 0.0)
    return Quote(sha, routes[-1], sum(expected_seconds(route, learned) for route in routes))
