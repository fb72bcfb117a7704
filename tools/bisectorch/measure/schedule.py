"""Who is sampled when, and how often: orders in which drift falls on every build alike. Pure."""

from __future__ import annotations

import random

LONG_SAMPLE_SECONDS = 1.0
LONG_SAMPLE_COUNT = 2
FEWEST_SAMPLES = 5
LEAST_BUDGET_SECONDS = 0.8


def balanced_order(builds: int, cycles: int, rng: random.Random) -> tuple[tuple[int, ...], ...]:
    """The order of sampling, one permutation of ``range(builds)`` for each cycle.

    Each build is sampled once a cycle. Cycles come in pairs, a random permutation and then its
    reverse, so that over a pair every build has the same mean position and a drift that is
    linear over it cancels exactly.

    Args:
        builds: how many builds, at least 1.
        cycles: how many times each is sampled.
        rng: the source of randomness; the same state gives the same order.
    """
    if builds < 1 or cycles < 0:
        raise ValueError("an order needs at least one build and no fewer than zero cycles")
    order: list[tuple[int, ...]] = []
    while len(order) < cycles:
        cycle = list(range(builds))
        rng.shuffle(cycle)
        order.append(tuple(cycle))
        order.append(tuple(reversed(cycle)))
    return tuple(order[:cycles])


def sample_count(
    wanted: int,
    wanted_seconds: float,
    *,
    wall_seconds: float,
    most: int | None = None,
    most_seconds: float | None = None,
) -> int:
    """How many samples one run takes, so that a slow benchmark does not cost without bound.

    Twice the time that ``wanted`` samples of ``wanted_seconds`` take (0.8 s at least) is the
    budget; a benchmark that fills it sooner gets five samples all the same, or two when one
    takes more than a second.

    Args:
        wanted: how many samples a fast benchmark takes.
        wanted_seconds: how long such a sample takes.
        wall_seconds: what one sample takes, untimed setups included.
        most: no more than this many, where the benchmark says so.
        most_seconds: and no more than fit into this, where it says so; but one.
    """
    fewest = LONG_SAMPLE_COUNT if wall_seconds > LONG_SAMPLE_SECONDS else FEWEST_SAMPLES
    budget = max(2.0 * wanted * wanted_seconds, LEAST_BUDGET_SECONDS)
    count = min(wanted, max(fewest, int(budget / max(wall_seconds, 1e-9))))
    if most is not None:
        count = min(count, most)
    if most_seconds is not None:
        count = min(count, int(most_seconds / max(wall_seconds, 1e-9)))
    return max(1, count)
