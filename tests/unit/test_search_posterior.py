"""The posterior against brute force, and its symmetries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bisectorch.search import posterior
from bisectorch.search.posterior import Beliefs, believe, cumulative, gather
from hypothesis import given, settings
from hypothesis import strategies as st

SMALLEST = float(np.log1p(0.03))


def beliefs(values: dict[int, tuple[float, ...]], weights: tuple[float, ...]) -> Beliefs:
    """What these runs say."""
    return believe(gather(values), cumulative(weights, len(weights)), SMALLEST)


def test_equals_enumeration_of_every_configuration():
    """Gap probabilities equal a sum over all sets of steps, integrated over the same levels."""
    values = {0: (0.0, 0.01), 3: (0.02, 0.0), 4: (0.11, 0.12, 0.1), 9: (0.1,)}
    weights = (1.0,) * 10
    data = gather(values)
    sums = cumulative(weights, 10)
    guess, freedom = posterior._spread(data)
    scales, scale_prior = posterior._scales(guess, freedom)
    grid, spacing = posterior._grid(data, guess)
    slab = posterior._slab(grid, spacing, data)
    builds = [(min(guess, posterior.USUAL_BUILD) * r, mass) for r, mass in posterior.BUILD_RATIOS]
    likelihood, prior, _ = posterior._likelihoods(
        data, grid, spacing, scales, scale_prior, tuple(builds)
    )
    chance = -np.expm1(-posterior.EXPECTED_STEPS * np.diff(sums[data.positions]) / sums[-1])
    total, stepped = 0.0, np.zeros(3)
    for steps in itertools.product((0, 1), repeat=3):
        for h in range(prior.size):
            mass = prior[h] * np.prod(np.where(steps, chance, 1 - chance))
            edges = [0, *(g + 1 for g in range(3) if steps[g]), 4]
            for a, b in itertools.pairwise(edges):
                mass *= float((slab * np.prod(likelihood[a:b, h], axis=0)).sum())
            total += mass
            stepped += mass * np.asarray(steps)
    found = beliefs(values, weights)
    assert found.jump == pytest.approx(stepped / total, abs=0.01)


runs = st.lists(st.floats(-0.05, 0.05), min_size=1, max_size=4).map(tuple)


@settings(max_examples=30, deadline=None)
@given(st.lists(runs, min_size=3, max_size=6), st.randoms(use_true_random=False))
def test_order_of_observations_does_not_matter(lists, random):
    """Shuffling each commit's runs and the commits changes nothing."""
    values = {3 * i: v for i, v in enumerate(lists)}
    shuffled = {x: tuple(random.sample(v, len(v))) for x, v in values.items()}
    items = list(shuffled.items())
    random.shuffle(items)
    weights = (1.0,) * (3 * len(lists))
    first, second = beliefs(values, weights), beliefs(dict(items), weights)
    assert first.relevant == pytest.approx(second.relevant, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(runs, min_size=3, max_size=6))
def test_mirrored_signs_mirror_the_answer(lists):
    """Slower for faster: the same gaps, the other direction."""
    values = {2 * i: v for i, v in enumerate(lists)}
    weights = (1.0,) * (2 * len(lists))
    plain = beliefs(values, weights)
    mirror = beliefs({x: tuple(-y for y in v) for x, v in values.items()}, weights)
    assert plain.relevant == pytest.approx(mirror.relevant, abs=1e-6)
    assert plain.rising == pytest.approx(mirror.relevant - mirror.rising, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(runs, min_size=3, max_size=6))
def test_reversed_history_reverses_the_answer(lists):
    """Relabelling the measured commits from the other end relabels the gaps."""
    count = len(lists)
    values = dict(enumerate(lists))
    back = {count - 1 - i: v for i, v in enumerate(lists)}
    weights = (1.0,) * count
    plain, turned = beliefs(values, weights), beliefs(back, weights)
    assert plain.relevant == pytest.approx(turned.relevant[::-1], abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(runs, min_size=3, max_size=6))
def test_a_commit_of_weight_almost_nothing_changes_almost_nothing(lists):
    """An unmeasured commit that cannot matter moves no probability."""
    values = {2 * i: v for i, v in enumerate(lists)}
    size = 2 * len(lists)
    plain = beliefs(values, (1.0,) * size)
    moved = {x + (x > 0): v for x, v in values.items()}
    more = beliefs(moved, (1.0, 1e-9, *(1.0,) * (size - 1)))
    assert plain.relevant == pytest.approx(more.relevant, abs=1e-6)


def test_known_noise_between_builds_explains_a_lone_high_build():
    """A commit that stands out by a build effect seen in rebuilds is no step."""
    values = {0: (0.0, 0.001, 0.0), 4: (0.04, 0.041, 0.04), 9: (0.001, 0.0, -0.001)}
    data, sums = gather(values), cumulative((1.0,) * 10, 10)
    unknown = believe(data, sums, SMALLEST, build_sigma=1e-4)
    known = believe(data, sums, SMALLEST, build_sigma=0.03)
    assert unknown.relevant.min() > 0.99
    assert known.relevant.max() < 0.3
