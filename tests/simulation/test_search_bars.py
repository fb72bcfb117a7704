"""The bars of the search benchmark in a reduced form: fixed seeds, few trials, wide margins."""

from __future__ import annotations

import numpy as np
import pytest
from bisectorch.model import Verdict
from bisectorch.search import BayesSearcher
from bisectorch.search.simulate import Setting, World, draw, search


def play(setting: Setting, trials: int, **more):
    """Each trial's world and what the search came to."""
    worlds = [World(draw(setting, seed)) for seed in range(trials)]
    return worlds, [search(world, BayesSearcher(), **more) for world in worlds]


def recall(worlds, trials) -> float:
    """The share of change points inside a culprit's credible set."""
    return float(
        np.mean(
            [
                any(t in c for c in trial.credible)
                for world, trial in zip(worlds, trials, strict=True)
                for t in world.drawn.positions
            ]
        )
    )


def false(worlds, trials) -> int:
    """Culprits without a change point."""
    return sum(
        not any(t in c for t in world.drawn.positions)
        for world, trial in zip(worlds, trials, strict=True)
        for c in trial.credible
    )


@pytest.mark.parametrize(
    ("setting", "trials", "least", "builds", "runs"),
    [
        (Setting(ratios=(0.2,), sigma=0.05), 10, 0.95, 14, 32),
        (Setting(ratios=(0.05,), sigma=0.02), 8, 0.85, 16, 65),
        (Setting(ratios=(0.2, 0.1, 0.1), sigma=0.05), 3, 0.85, 32, 180),
        (Setting(ratios=(0.2, 0.1, -0.1), sigma=0.02), 4, 0.8, 40, 120),
        (Setting(ratios=(0.15, -0.1, 0.2, -0.15, 0.1), sigma=0.02), 3, 0.75, 52, 160),
    ],
)
def test_steps_are_found(setting, trials, least, builds, runs):
    """Recall, false culprits, builds and runs stay near the bars."""
    worlds, trials = play(setting, trials)
    assert recall(worlds, trials) >= least
    assert false(worlds, trials) <= 1
    assert np.mean([t.builds for t in trials]) <= builds
    assert np.mean([t.runs for t in trials]) <= runs


@pytest.mark.parametrize(("sigma", "runs"), [(0.02, 40), (0.05, 160), (0.1, 600)])
def test_nothing_changed_is_said(sigma, runs):
    """No culprit where nothing changed; the limit is at most the smallest step."""
    _, trials = play(Setting(sigma=sigma), 4)
    assert all(t.credible == () for t in trials)
    assert all(t.limit <= 0.03 for t in trials if t.verdict is Verdict.NO_CHANGE)
    assert np.mean([t.runs for t in trials]) <= runs


def test_unbuildable_clusters_leave_the_truth_in_a_credible_set():
    """A fifth of the commits fail in clusters: no crash, and the truth stays under suspicion."""
    worlds, trials = play(Setting(ratios=(0.2,), sigma=0.05, unbuildable=0.2), 6)
    assert recall(worlds, trials) >= 0.8


@pytest.mark.slow
def test_builds_that_differ_make_no_culprits():
    """With 2 % between builds false culprits stay rare."""
    worlds, trials = play(Setting(ratios=(0.2, 0.1, 0.1), sigma=0.02, build_sigma=0.02), 3)
    assert false(worlds, trials) <= 2
    assert recall(worlds, trials) >= 0.75


def test_fresh_builds_tell_builds_from_steps():
    """With 2 % between builds: every step by itself, by few runs."""
    setting = Setting(
        size=128, ratios=(0.2, 0.1, 0.1), sigma=0.02, build_sigma=0.02, fresh_builds=True
    )
    worlds, trials = play(setting, 3)
    assert recall(worlds, trials) == 1.0
    assert false(worlds, trials) == 0
    assert all(len(credible) == 1 for trial in trials for credible in trial.credible)
    assert np.mean([t.builds for t in trials]) <= 40
    assert np.mean([t.runs for t in trials]) <= 130


def test_quotes_save_cost():
    """In a native and Python mix the quotes make the search cheaper than one blind to them."""
    setting = Setting(
        ratios=(0.2,), sigma=0.02, build_seconds=300.0, python_seconds=0.2, run_seconds=2.0
    )
    aware, _ = play(setting, 6)
    blind, _ = play(setting, 6, blind=True)
    assert sum(w.seconds for w in aware) < sum(w.seconds for w in blind)


def test_heavy_tails_and_drift_are_survived():
    """Wild runs and a wandering machine do not make culprits."""
    worlds, trials = play(Setting(sigma=0.02, heavy=True, drift=0.002), 4)
    assert false(worlds, trials) == 0
