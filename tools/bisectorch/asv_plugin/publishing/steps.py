"""asv's step detection, each partition of a series judged once.

asv tries some ten penalties a series, and most lead to the same partition, which it judges anew
each time. Judged once, with asv's own parts and in asv's order of operations, the steps come out
the same to the last bit (a test compares them).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from asv import step_detect

Step = tuple[int, int, float, float, float]
"""asv's: first revision, revision after the last, level, minimum, mean deviation."""


def steps_of(points: Sequence[tuple[int, float | None, float | None]]) -> list[Step]:
    """The steps of one series of (revision, value, weight), as asv's graphs have them."""
    kept = [
        (revision, value, weight)
        for revision, value, weight in points
        if value is not None and value == value and not (weight is not None and weight <= 0)
    ]
    if not kept:
        return []
    values = [value for _, value, _ in kept]
    weights = _weights([weight for _, _, weight in points], [weight for _, _, weight in kept])
    found, left = [], 0
    for right, level, distance in _partition(values, weights):
        found.append(
            (
                kept[left][0],
                kept[right - 1][0] + 1,
                level,
                min(values[left:right]),
                abs(distance / (right - left)),
            )
        )
        left = right
    return found


def _weights(all_weights: Sequence[float | None], kept: Sequence[float | None]) -> list[float]:
    """Relative to the median weight; a missing one is 1."""
    valid = [weight for weight in all_weights if weight is not None and weight == weight]
    middle = (step_detect.median(valid) if valid else 1.0) or 1.0
    return [1.0 if weight is None or weight != weight else weight / middle for weight in kept]


def _partition(values: list[float], weights: list[float]) -> list[tuple[int, float, float]]:
    """The pieces of the best penalty: end, level, distance."""
    size = len(values)
    ranges = step_detect.get_mu_dist(values, weights)
    largest = ranges.dist(0, size - 1) or 1.0
    penalty = 4 * math.log(size) / size
    judged: dict[tuple[int, ...], float] = {}
    best: tuple[float, Any] = (math.inf, ())

    def judge(logarithm: float) -> float:
        nonlocal best
        ends, levels, distances = step_detect.solve_potts_approx(
            values, weights, gamma=largest * math.exp(logarithm), mu_dist=ranges
        )
        key = tuple(ends)
        if key not in judged:
            judged[key] = penalty * len(ends) + _misfit(values, weights, ends, levels)
            if judged[key] < best[0]:
                best = (judged[key], (ends, levels, distances))
        return judged[key]

    lowest = math.log(0.1 / size)
    step_detect.golden_search(
        judge, lowest, 0.0, xatol=abs(lowest) * 0.1, ftol=0, expand_bounds=True
    )
    return list(zip(*best[1], strict=True)) if best[1] else []


def _misfit(
    values: list[float], weights: list[float], ends: list[int], levels: list[float]
) -> float:
    """The logarithm of what the levels leave over, freed of its correlation from run to run."""
    residuals = np.asarray(values) - np.repeat(levels, np.diff(ends, prepend=0))
    scale = np.asarray(weights)
    # asv's sum visits the first point before its loop and every later one once, in order.
    terms = np.empty(residuals.size)
    terms[0] = abs(residuals[0]) * scale[0]

    def left_over(correlation: float) -> float:
        terms[1:] = np.abs(residuals[1:] - correlation * residuals[:-1]) * scale[1:]
        return float(np.add.accumulate(terms)[-1])

    correlation = step_detect.golden_search(left_over, -1, 1, xatol=0.05, expand_bounds=True)
    if len(levels) > 2:
        floor = 0.1 * min(abs(after - before) for before, after in pairwise(levels))
    else:
        floor = 0.001 * min(abs(level) for level in levels)
    return math.log(max(1e-300, floor) + left_over(correlation))
