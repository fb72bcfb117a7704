"""What runs and builds say of levels: their order does not matter, and each build counts once."""

from __future__ import annotations

import numpy as np
import pytest
from bisectorch.search.likelihood import centres, gather
from bisectorch.search.posterior import believe, cumulative
from hypothesis import given, settings
from hypothesis import strategies as st

SMALLEST = float(np.log1p(0.03))

runs = st.lists(
    st.tuples(st.integers(0, 2), st.floats(-0.05, 0.05)), min_size=1, max_size=6
)  # which build, and the run's logarithm


def split(commits):
    """Values and builds, as Evidence holds them."""
    values = {2 * i: tuple(y for _, y in own) for i, own in enumerate(commits)}
    builds = {2 * i: tuple(b for b, _ in own) for i, own in enumerate(commits)}
    return values, builds


@settings(max_examples=30, deadline=None)
@given(st.lists(runs, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_order_and_names_of_builds_do_not_matter(commits, random):
    """Runs of several builds in any order, builds under any name."""
    names = random.sample(range(3), 3)
    mixed = [[(names[b], y) for b, y in random.sample(own, len(own))] for own in commits]
    sums = cumulative((1.0,) * 12, 12)
    first = believe(gather(*split(commits)), sums, SMALLEST)
    second = believe(gather(*split(mixed)), sums, SMALLEST)
    assert first.relevant == pytest.approx(second.relevant, abs=1e-9)
    assert first.centres == pytest.approx(second.centres, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(runs, min_size=2, max_size=5))
def test_one_build_is_the_same_said_or_not(commits):
    """To the digit."""
    values, _ = split(commits)
    sums = cumulative((1.0,) * 12, 12)
    plain = believe(gather(values), sums, SMALLEST)
    said = believe(gather(values, {x: (7,) * len(v) for x, v in values.items()}), sums, SMALLEST)
    assert (plain.relevant == said.relevant).all()
    assert (plain.centres == said.centres).all()


def test_many_runs_of_one_build_do_not_outvote_another_build():
    """Under large build effects a commit's mean is that of its builds, not of its runs."""
    data = gather({0: (0.0,) * 30 + (0.04,)}, {0: (0,) * 30 + (1,)})
    assert data.counts.tolist() == [31]
    assert data.builds.tolist() == [2]
    assert data.fewest.tolist() == [1]
    assert centres(data, 0.001, 0.02**2) == pytest.approx([0.02], abs=1e-4)
    assert centres(data, 0.001, 0.0) == pytest.approx([0.04 / 31], abs=1e-6)


def test_what_is_not_finite_is_left_out_of_its_build():
    """A build of which no run is a number is none."""
    data = gather({0: (0.1, np.nan, 0.2), 3: (np.inf,)}, {0: (0, 1, 2)})
    assert data.positions.tolist() == [0]
    assert data.builds.tolist() == [2]
    assert data.runs.tolist() == [0.1, 0.2]
