"""The posterior against brute force, and its symmetries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bisectorch.search import likelihood, posterior
from bisectorch.search.likelihood import gather
from bisectorch.search.posterior import Beliefs, believe, cumulative
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

SMALLEST = float(np.log1p(0.03))


def beliefs(values: dict[int, tuple[float, ...]], weights: tuple[float, ...]) -> Beliefs:
    """What these runs say."""
    return believe(gather(values), cumulative(weights, len(weights)), SMALLEST)


def test_equals_enumeration_of_every_configuration():
    """Gap probabilities equal a sum over all sets of steps, integrated over the same levels."""
    values = {0: (0.0, 0.01), 3: (0.02, 0.0), 4: (0.11, 0.12, 0.1), 9: (0.1,)}
    assert beliefs(values, (1.0,) * 10).jump == pytest.approx(enumerated(values, {}, 10), abs=0.01)


@pytest.mark.parametrize("moved", [0.0, 0.03])
def test_equals_enumeration_with_several_builds(moved):
    """The same where commits were built again, alike or apart: each build has its own effect."""
    values = {0: (0.0, 0.01), 3: (0.06, 0.05, moved, 0.01), 4: (0.11, 0.12, 0.1), 9: (0.1, 0.09)}
    builds = {3: (0, 0, 1, 1), 9: (0, 1)}
    found = believe(gather(values, builds), cumulative((1.0,) * 10, 10), SMALLEST)
    assert found.jump == pytest.approx(enumerated(values, builds, 10), abs=0.01)


def enumerated(values, builds, size) -> np.ndarray:
    """P(a step in each gap) by summing over sets of steps, noises, levels and build effects.

    Each build's effect is integrated over an even grid of its own.
    """
    data = gather(values, builds)
    sums = cumulative((1.0,) * size, size)
    guess, freedom = likelihood.spread(data)
    scales, scale_prior = likelihood.scales_about(guess, freedom)
    deviations = likelihood.build_deviations(data, guess, one_build=False, build_sigma=None)
    chance = -np.expm1(-posterior.EXPECTED_STEPS * np.diff(sums[data.positions]) / sums[-1])
    levels = np.linspace(-0.1, 0.22, 321)
    slab = stats.t.pdf(levels, 3, np.median(data.medians), likelihood.LEVEL_SCALE)
    slab *= levels[1] - levels[0]
    gaps = len(values) - 1
    total, stepped = 0.0, np.zeros(gaps)
    for (shape, a), (scale, b), (tau, c) in itertools.product(
        likelihood.SHAPES, zip(scales, scale_prior, strict=True), deviations
    ):
        effects = np.linspace(-4 * tau, 4 * tau, 21) if tau else np.zeros(1)
        weights = stats.norm.pdf(effects, scale=tau) if tau else np.ones(1)
        weights /= weights.sum()
        commits = [
            np.prod([seen(own, levels, effects, weights, shape, scale) for own in each], axis=0)
            for each in by_build(values, builds)
        ]
        for steps in itertools.product((0, 1), repeat=gaps):
            mass = a * b * c * np.prod(np.where(steps, chance, 1 - chance))
            edges = [0, *(g + 1 for g in range(gaps) if steps[g]), gaps + 1]
            for left, right in itertools.pairwise(edges):
                mass *= float(slab @ np.prod(commits[left:right], axis=0))
            total += mass
            stepped += mass * np.asarray(steps)
    return stepped / total


def seen(runs, levels, effects, weights, shape, scale) -> np.ndarray:
    """The likelihood of one build's runs for each level of its commit."""
    about = (np.asarray(runs)[:, None, None] - levels[:, None] - effects) / scale
    return (stats.t.pdf(about, shape) / scale).prod(axis=0) @ weights


def by_build(values, builds) -> list[list[list[float]]]:
    """The runs of each build of each commit."""
    found = []
    for position in sorted(values):
        owners = builds.get(position, (0,) * len(values[position]))
        pairs = list(zip(owners, values[position], strict=True))
        found.append([[y for o, y in pairs if o == owner] for owner in sorted(set(owners))])
    return found


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


def test_a_fresh_build_on_the_level_shows_a_build_effect():
    """A commit half way up between two levels was a build's doing: its other builds tell."""
    low, high = (0.0, 0.002, -0.002), (0.1, 0.102, 0.098)
    values = {0: low, 1: low, 2: (0.05, 0.052, 0.048), 3: high, 4: high}
    sums = cumulative((1.0,) * 5, 5)
    hidden = believe(gather(values), sums, SMALLEST, build_sigma=0.02)
    values[2] += (0.001, 0.003, -0.001, 0.002, -0.001)
    builds = {2: (0, 0, 0, 1, 2, 3, 4, 5)}
    told = believe(gather(values, builds), sums, SMALLEST, build_sigma=0.02)
    assert hidden.relevant[1:3].max() < 0.9
    assert told.relevant[2] > 0.95
    assert told.relevant[1] < 0.05


def test_builds_that_lie_apart_widen_what_builds_may_do():
    """Effects beyond the usual ones are believed where builds of one commit show them."""
    values = dict.fromkeys(range(0, 20, 4), (0.0, 0.001))
    values[8] = (0.06, 0.061, -0.05, -0.051)
    found = believe(gather(values, {8: (0, 0, 1, 1)}), cumulative((1.0,) * 20, 20), SMALLEST)
    assert found.build_variance > 0.03**2
    assert found.relevant.max() < 0.2
