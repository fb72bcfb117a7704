from __future__ import annotations

import random

from bisectorch.measure.schedule import balanced_order, sample_count
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(1, 9), st.integers(0, 50), st.integers())
def test_every_build_is_sampled_once_a_cycle(builds: int, cycles: int, seed: int) -> None:
    """Each cycle is a permutation of the builds."""
    order = balanced_order(builds, cycles, random.Random(seed))
    assert len(order) == cycles
    assert all(sorted(cycle) == list(range(builds)) for cycle in order)


@given(st.integers(1, 9), st.integers(1, 25), st.integers())
def test_linear_drift_falls_on_all_builds_alike(builds: int, pairs: int, seed: int) -> None:
    """Over an even number of cycles every build has the same mean place in time."""
    order = balanced_order(builds, 2 * pairs, random.Random(seed))
    sums = [0] * builds
    for time, build in enumerate(build for cycle in order for build in cycle):
        sums[build] += time
    assert len(set(sums)) == 1


def test_order_follows_the_seed() -> None:
    """The same seed gives the same order, another seed another."""
    orders = [balanced_order(5, 20, random.Random(seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_each_build_goes_first_about_equally_often() -> None:
    """Nobody is favoured by its position in the list."""
    firsts = [cycle[0] for cycle in balanced_order(4, 4000, random.Random(7))]
    assert all(800 < firsts.count(build) < 1200 for build in range(4))


def test_a_fast_benchmark_takes_what_is_wanted() -> None:
    """Forty samples of ten milliseconds."""
    assert sample_count(40, 0.01, wall_seconds=0.0101) == 40


def test_a_slow_benchmark_takes_few() -> None:
    """Five when they take long, two when each takes more than a second."""
    assert sample_count(40, 0.01, wall_seconds=0.1) == 8
    assert sample_count(40, 0.01, wall_seconds=0.9) == 5
    assert sample_count(40, 0.01, wall_seconds=1.5) == 2


def test_the_benchmarks_own_repeat_is_a_ceiling() -> None:
    """Its number of samples and its seconds, but one sample at least."""
    assert sample_count(40, 0.01, wall_seconds=0.01, most=3) == 3
    assert sample_count(40, 0.01, wall_seconds=0.01, most=90, most_seconds=0.055) == 5
    assert sample_count(40, 0.01, wall_seconds=9.0, most=10, most_seconds=1.0) == 1
