"""Steps that cancel each other between two measured commits, and how far to look for them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bisectorch.model import Evidence, Probe, Purpose
from bisectorch.search.choose import open_positions
from bisectorch.search.culprits import Located
from bisectorch.search.likelihood import Array
from bisectorch.search.posterior import Beliefs

CLEAR = 3.7
"""So many times the noise must a hidden step be for one run to tell."""
THOROUGH = 32.0
"""How much a hidden pair is worth; see decision 0007."""
TAKEN_BACK = 5.0
"""How much likelier a pair is where two steps and more took back the one before."""
ENOUGH = 4
"""A commit with so many runs is not run again for standing out."""
STANDING_OUT = 4.0
"""Runs further off than so many times the noise are looked at again."""
DEAR_RUNS = 20.0
"""Where a build costs more runs than this, less is spent on a chance."""


def hidden_pairs(
    beliefs: Beliefs,
    evidence: Evidence,
    sums: Array,
    located: list[Located],
    smallest: float,
    batch: int,
) -> list[Probe]:
    """Look for steps that cancel each other between two measured commits.

    Such a pair leaves no trace until a commit between its two steps is measured, and then
    looks like one wild run. Only where one run is enough to tell (a step between the smallest
    and the largest found is clear of the noise), and only while the chance of a hidden pair is
    worth its cost: two culprits more, at what each has cost so far, and the less the smaller a
    share of all culprits they would be; but more where steps were found that take back the one
    before. A commit that stands out is measured again; an unmeasured stretch is cut, as its
    chance to hide a pair falls as the square of its share of the range. Where a build is as dear
    as many runs, less is spent on a chance.
    """
    largest = max(abs(item.step.log_ratio) for item in located)
    if (largest**5 * smallest) ** (1 / 6) < CLEAR * beliefs.sigma:
        return []
    data = beliefs.data
    build, run = build_cost(evidence), evidence.run_seconds
    so_far = data.positions.size * build + float(data.counts.sum()) * run
    found = len(located)
    value = THOROUGH * so_far / found * (2 / (found + 2)) ** 2
    if reversals(located) >= 2:
        value *= TAKEN_BACK
    if build > DEAR_RUNS * run:
        value *= DEAR_RUNS * run / build
    rest = beliefs.relevant.copy()
    rest[gaps_of(located, beliefs)] = 0.0
    odd = np.maximum(np.concatenate((rest, [0.0])), np.concatenate(([0.0], rest)))
    odd[data.counts >= ENOUGH] = 0.0
    again = [i for i in np.argsort(-odd, kind="stable").tolist() if value * odd[i] >= run]
    if again:
        return [Probe(tuple(int(data.positions[i]) for i in again[:batch]), 1, Purpose.REPEAT)]
    shares = np.diff(sums[data.positions]) / max(float(sums[-1]), 1e-300)
    chosen: list[int] = []
    for g in np.argsort(-shares, kind="stable").tolist():
        left, right = int(data.positions[g]), int(data.positions[g + 1])
        if value * float(shares[g]) ** 2 < build + run or len(chosen) == batch:
            break
        places = np.asarray(open_positions(evidence, left, right), dtype=np.intp)
        if places.size:
            middle = 0.5 * (sums[left] + sums[right])
            chosen.append(int(places[np.argmin(np.abs(sums[places] - middle))]))
    return [Probe(tuple(sorted(chosen)), 1, Purpose.SEARCH)] if chosen else []


def reversals(located: list[Located]) -> int:
    """How often a step takes back, in part or in full, the one before it."""
    steps = [item.step.log_ratio for item in sorted(located, key=lambda item: item.gaps)]
    return sum(before * after < 0 for before, after in pairwise(steps))


def standing_out(beliefs: Beliefs) -> list[int]:
    """Commits whose only run is far off the level they are believed to be on, farthest first.

    One wild run and a commit between two steps that cancel look alike: a second run tells.
    """
    far = np.abs(beliefs.centres - beliefs.level_mean)
    spread = np.hypot(beliefs.sigma, math.sqrt(beliefs.build_variance))
    far[(beliefs.data.counts > 1) | (far < STANDING_OUT * spread)] = 0.0
    order = np.argsort(-far, kind="stable")
    return [int(beliefs.data.positions[i]) for i in order if far[i] > 0]


def gaps_of(located: list[Located], beliefs: Beliefs) -> NDArray[np.bool_]:
    """For each gap whether a located step lies in it."""
    inside = np.zeros(beliefs.relevant.size, dtype=bool)
    inside[[g for item in located for g in item.gaps]] = True
    return inside


def build_cost(evidence: Evidence) -> float:
    """The mean quote of the commits not measured yet, seconds."""
    if len(evidence.build_seconds) != evidence.size:
        return 0.0
    quotes = np.asarray(evidence.build_seconds, dtype=float)
    known = [x for x in (*evidence.values, *evidence.failed) if 0 <= x < evidence.size]
    quotes[known] = np.nan
    rest = quotes[np.isfinite(quotes)]
    return max(0.0, float(rest.mean())) if rest.size else 0.0
