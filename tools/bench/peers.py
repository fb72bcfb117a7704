"""What other tools do, on the same simulated histories.

The rules of ``asv find``, of TorchBench's bisection and of Pinpoint are restated from their
documentation, in few lines each; git-bayesect runs from its own published package; the oracle
is a binary search that is told the truth at every commit it builds. Every strategy is a function
of a world, and returns the commits it names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from bisectorch.search.simulate import World
from scipy.stats import mannwhitneyu

Array = npt.NDArray[np.float64]
Strategy = Callable[[World], list[int]]


def oracle(world: World) -> list[int]:
    """Binary search with noiseless answers: no strategy can build fewer commits for one step."""
    levels = world.drawn.levels
    low, high = 0, levels.size - 1
    world.measure(low, 1)
    world.measure(high, 1)
    if levels[low] == levels[high]:
        return []
    while high - low > 1:
        middle = (low + high) // 2
        world.measure(middle, 1)
        if levels[middle] == levels[low]:
            low = middle
        else:
            high = middle
    return [high]


def asv_find(world: World) -> list[int]:
    """``asv find``: bisects towards the half with the larger difference of the log results.

    One result a commit, no test of significance: it always names a commit.
    """
    low, high = 0, world.drawn.setting.size - 1
    results: dict[int, float] = {}

    def result(position: int) -> float:
        if position not in results:
            got = world.measure(position, 1)
            results[position] = math.nan if got is None else float(got[0])
        return results[position]

    while high - low > 1:
        middle = (low + high) // 2
        left = result(middle) - result(low)
        right = result(high) - result(middle)
        if math.isnan(left) or math.isnan(right):
            # It steps aside to a neighbour that works.
            options = [
                x for x in range(low + 1, high) if x not in world.failed and x not in results
            ]
            if not options:
                break
            middle = min(options, key=lambda x: (abs(x - (low + high) // 2), x))
            left, right = result(middle) - result(low), result(high) - result(middle)
            if math.isnan(left) or math.isnan(right):
                continue
        if left > right:
            high = middle
        else:
            low = middle
    return [high]


def torchbench(world: World, threshold: float = 0.07) -> list[int]:
    """TorchBench's bisection: descend into each half whose ends differ by the threshold (7 %).

    A commit is measured once; two neighbours that still differ name the later one.
    """
    results: dict[int, float] = {}

    def result(position: int) -> float:
        if position not in results:
            got = world.measure(position, 1)
            results[position] = math.nan if got is None else math.exp(float(got[0]))
        return results[position]

    named = []
    pending = [(0, world.drawn.setting.size - 1)]
    while pending:
        low, high = pending.pop()
        before, after = result(low), result(high)
        if not abs(after - before) / before >= threshold:
            continue
        if high - low == 1:
            named.append(high)
            continue
        middle = (low + high) // 2
        pending += [(low, middle), (middle, high)]
    return sorted(named)


def pinpoint(
    world: World, magnitude: float, first: int = 10, most: int = 60, alpha: float = 0.01
) -> list[int]:
    """Pinpoint's bisection: compare neighbours by rank tests, measure more while it is unknown.

    Our reading of its documentation; the loose level's formula is ours, as it publishes a table.
    Two commits are different when a rank test rejects at ``alpha``, the same when it does not
    at a looser level that falls with the number of runs and the expected magnitude, unknown
    between; different neighbours get the commit half way between them, unknown ones more runs.
    """
    size = world.drawn.setting.size
    results: dict[int, Array] = {}

    def more(position: int, runs: int) -> bool:
        got = world.measure(position, runs)
        if got is None:
            return False
        results[position] = np.concatenate((results.get(position, np.zeros(0)), got))
        return True

    for end in (0, size - 1):
        more(end, first)
    compared: dict[tuple[int, int], tuple[int, int, str]] = {}

    def verdict(low: int, high: int) -> str:
        counts = results[low].size, results[high].size
        known = compared.get((low, high))
        if known and known[:2] == counts:
            return known[2]
        p = float(mannwhitneyu(results[low], results[high], method="asymptotic").pvalue)
        least = min(counts)
        spread = 0.5 * float(np.std(results[low]) + np.std(results[high]))
        # The level at which a difference of the magnitude would be missed one time in a hundred.
        seen = math.log1p(magnitude) / max(spread, 1e-12) * math.sqrt(least / 2)
        loose = math.erfc(max(seen - 2.33, 0.0) / math.sqrt(2))
        if p < alpha:
            word = "different"
        elif p > min(loose, 0.9) or least >= most:
            word = "same"
        else:
            word = "unknown"
        compared[low, high] = (*counts, word)
        return word

    while True:
        line = sorted(results)
        acted = False
        for low, high in pairwise(line):
            word = verdict(low, high)
            if word == "unknown":
                for side in (low, high):
                    if results[side].size < most:
                        more(side, first)
                acted = True
            elif word == "different":
                inner = [x for x in range(low + 1, high) if x not in world.failed]
                if inner:
                    middle = min(inner, key=lambda x: (abs(x - (low + high) // 2), x))
                    more(middle, first)
                    acted = True
            if acted:
                break
        if not acted:
            return [high for low, high in pairwise(line) if verdict(low, high) == "different"]


def git_bayesect(
    world: World, threshold: float, certainty: float = 0.95, most: int = 1000
) -> list[int]:
    """git-bayesect's own bisector, told the threshold: a run above it is a failing test."""
    from git_bayesect import Bisector

    size = world.drawn.setting.size
    # Its commits are counted from the newest to the oldest; its change is the oldest new one.
    bisector = Bisector(np.ones(size))
    for _ in range(most):
        chosen = int(bisector.select())
        got = world.measure(size - 1 - chosen, 1)
        bisector.record(chosen, None if got is None else bool(got[0] > threshold))
        if float(bisector.distribution.max()) >= certainty:
            break
    else:
        return []
    best = int(np.argmax(bisector.distribution))
    position = size - 1 - best
    return [position] if position > 0 else []
