"""Forecasts of a search: simulated over a history that is given, with its own costs and weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from bisectorch.search import BayesSearcher
from bisectorch.search.forecast import (
    STEPS,
    Ground,
    Player,
    Scenario,
    forecast,
    opening,
    play,
    reachable,
    scenarios,
)
from bisectorch.search.simulate import Setting, World, draw_over

PLAYER = Player(lambda step: BayesSearcher(step), lambda evidence: 2)
GROUND = Ground(
    states=tuple(index // 4 for index in range(40)),
    costs=(100.0,) * 40,
    python_seconds=1.0,
    weights=(1.0,) * 40,
    sigma=0.01,
    run_seconds=2.0,
)


def test_a_world_charges_what_this_history_costs() -> None:
    """The first of a state costs its quote, the next the Python price, what is there nothing."""
    costs = (100.0, 100.0, 0.0, 0.5, 100.0)
    setting = Setting(size=5, python_seconds=1.0, run_seconds=2.0)
    drawn = draw_over(
        setting,
        1,
        states=(0, 0, 1, 1, 2),
        costs=costs,
        weights=(1.0,) * 5,
        failing=frozenset({4}),
    )
    world = World(drawn)
    assert world.quotes() == costs
    world.measure(0, 1)
    assert world.quotes() == (0.0, 1.0, 0.0, 0.5, 100.0)
    assert (world.builds, world.natives, world.seconds) == (1, 1, 102.0)
    world.measure(1, 1)
    assert (world.builds, world.natives, world.seconds) == (2, 1, 105.0)
    world.measure(2, 3)
    assert (world.builds, world.natives, world.seconds) == (2, 1, 111.0)
    world.measure(3, 1)
    assert (world.builds, world.natives, world.seconds) == (3, 1, 113.5)
    assert world.measure(4, 1) is None


def test_steps_lie_where_the_weights_say() -> None:
    """Never at the baseline, hardly where a commit cannot matter, each place as it weighs."""
    setting = Setting(size=4, ratios=(0.1,))
    weights = (1.0, 1.0, 1e-6, 0.5)
    drawn = [
        draw_over(setting, seed, states=(0,) * 4, costs=(1.0,) * 4, weights=weights)
        for seed in range(300)
    ]
    counted = Counter(each.positions[0] for each in drawn)
    assert set(counted) == {1, 3}
    assert counted[1] / 300 == pytest.approx(2 / 3, abs=0.08)
    one = next(each for each in drawn if each.positions == (3,))
    np.testing.assert_allclose(np.exp(one.levels), [1, 1, 1, 1.1])


def test_scenarios_follow_the_smallest_step_and_fit_the_range() -> None:
    """Twice the smallest step, a large one, three at once where there is room for three."""
    assert [each.ratios for each in scenarios(0.03, 40)] == [
        (),
        (0.06,),
        (0.2,),
        (0.2, 0.1, -0.1),
    ]
    assert [each.name for each in scenarios(0.03, 3)] == [
        "nothing changed",
        "one step, +6 %",
        "one step, +20 %",
    ]
    assert all(min(each.ratios, default=0) > -1 for each in scenarios(0.9, 40))


def test_a_forecast_is_that_of_its_trials() -> None:
    """Means, ranges and shares are those of the same searches played one by one; seeded."""
    step = Scenario("large", (0.2,))
    (found,) = forecast(GROUND, PLAYER, 0.03, [step], iter(range(5)))
    played = [play(GROUND, PLAYER, 0.03, (0.2,), seed) for seed in range(5)]
    assert found.trials == 5
    assert found.seconds.mean == pytest.approx(np.mean([world.seconds for world, _ in played]))
    assert found.runs.low <= found.runs.mean <= found.runs.high
    assert found.natives.mean <= found.builds.mean
    assert found.found is not None
    assert found.found >= 0.8
    assert found.false <= 0.2
    assert forecast(GROUND, PLAYER, 0.03, [step], iter(range(5))) == (found,)


def test_nothing_changed_has_no_share_found() -> None:
    """There is nothing to find, and hardly a false culprit."""
    (quiet,) = forecast(GROUND, PLAYER, 0.03, [Scenario("nothing")], iter(range(4)))
    assert quiet.found is None
    assert quiet.false <= 0.25


def test_anchors_are_counted() -> None:
    """Where both ends run beside every probe, the runs say so."""
    bare = replace(PLAYER, anchored=False)
    with_ends = play(GROUND, PLAYER, 0.03, (0.2,), 3)[0]
    without = play(GROUND, bare, 0.03, (0.2,), 3)[0]
    assert with_ends.runs > without.runs


def test_the_opening_is_both_ends_and_the_grid() -> None:
    """No search takes less; what is built already costs its runs alone."""
    first = opening(GROUND, PLAYER, 0.03)
    assert first.positions >= 2
    assert first.builds == first.positions
    assert first.seconds <= play(GROUND, PLAYER, 0.03, (), 1)[0].seconds
    built = opening(replace(GROUND, costs=(0.0,) * 40), PLAYER, 0.03)
    assert built.builds == 0
    assert built.seconds == built.runs * GROUND.run_seconds


def test_commits_known_not_to_build_do_not_stop_a_forecast() -> None:
    """Not even the ends."""
    broken = replace(GROUND, failing=frozenset({0, 10, 11, 12, 39}))
    (found,) = forecast(broken, PLAYER, 0.03, [Scenario("large", (0.2,))], iter(range(3)))
    assert found.runs.mean > 0


def test_the_smallest_reachable_step_follows_the_budget() -> None:
    """More time reaches smaller steps; none reaches none; what was tried is told."""
    noisy = replace(GROUND, sigma=0.02)

    def within(seconds: float):
        return reachable(noisy, PLAYER, seconds, lambda: iter(range(2)))

    most, tried = within(1e9)
    assert most == STEPS[0]
    assert [each.smallest_step for each in tried] == sorted(each.smallest_step for each in tried)
    assert {each.trials for each in tried} == {2}
    none, refused = within(1.0)
    assert none is None
    assert refused[-1].smallest_step == STEPS[-1]
    # Just too little for the smallest: a larger one is reached, and it does fit.
    budget = 0.99 * tried[0].mean_seconds
    between, tried_again = within(budget)
    assert between is not None
    assert between > STEPS[0]
    fitting = {each.smallest_step: each.mean_seconds for each in tried_again}
    assert fitting[between] <= budget


def test_one_commit_of_a_kind_is_enough_to_plan() -> None:
    """A range of two commits, of one build, without noise."""
    two = Ground((0, 0), (0.3, 0.3), 0.3, (1.0, 1.0), 0.0, 2.0)
    told = forecast(two, PLAYER, 0.03, scenarios(0.03, 2), iter([0]))
    assert [each.found for each in told] == [None, 1.0, 1.0]
