from __future__ import annotations

import math

import numpy as np
import pytest
from bisectorch.measure.noise import (
    between_builds,
    block_values,
    free_of_blocks,
    paired_levels,
    smallest_resolvable_step,
    within_and_between,
)
from bisectorch.model import Noise, Run
from hypothesis import given, settings
from hypothesis import strategies as st


def runs_of(
    levels: list[float],
    blocks: list[tuple[int, ...]],
    rng: np.random.Generator,
    noise: float = 0.01,
    block_noise: float = 0.2,
) -> dict[str, list[Run]]:
    """Runs of commits at these log levels, each block holding the commits it names."""
    runs: dict[str, list[Run]] = {str(commit): [] for commit in range(len(levels))}
    for number, block in enumerate(blocks):
        shift = rng.normal(0, block_noise)
        for commit in block:
            value = math.exp(levels[commit] + shift + rng.normal(0, noise))
            runs[str(commit)].append(Run(value, f"b{number}"))
    return runs


def test_block_effects_are_taken_out() -> None:
    """Levels that drown in block effects come out to within the runs' own noise."""
    rng = np.random.default_rng(1)
    levels = [0.0, 0.03, 0.03, -0.1]
    freed = free_of_blocks(runs_of(levels, [(0, 1, 2, 3)] * 20, rng))
    means = [float(np.mean(freed[str(commit)])) for commit in range(4)]
    differences = np.array(means) - means[0]
    assert np.allclose(differences, np.array(levels) - levels[0], atol=0.012)


def test_commits_that_never_met_are_linked_by_a_third() -> None:
    """0 met 1, and 1 met 2; so 0 and 2 compare."""
    rng = np.random.default_rng(2)
    freed = free_of_blocks(runs_of([0.0, 0.5, 0.2], [(0, 1)] * 40 + [(1, 2)] * 40, rng))
    assert np.mean(freed["2"]) - np.mean(freed["0"]) == pytest.approx(0.2, abs=0.012)


@pytest.mark.parametrize(("builds", "rounds"), [(2, 3), (2, 400), (3, 200), (6, 2), (6, 50)])
def test_the_spread_is_the_noise_of_one_run(builds: int, rounds: int) -> None:
    """Fitting a block to two runs takes half of their variance away; it is given back."""
    rng = np.random.default_rng(builds)
    variances: list[float] = []
    for _ in range(max(1, 800 // (builds * rounds))):
        freed = free_of_blocks(runs_of([0.0] * builds, [tuple(range(builds))] * rounds, rng))
        variances += [float(np.var(values, ddof=1)) for values in freed.values()]
    assert math.sqrt(np.mean(variances)) == pytest.approx(0.01, rel=0.12)


def test_unlinked_blocks_keep_their_own_height() -> None:
    """Nothing relates the two sets of blocks, so their raw means remain."""
    rng = np.random.default_rng(3)
    runs = runs_of([0.0, 0.1, 5.0, 5.2], [(0, 1)] * 10 + [(2, 3)] * 10, rng)
    freed = free_of_blocks(runs)
    for commits in (("0", "1"), ("2", "3")):
        raw = [math.log(run.value) for commit in commits for run in runs[commit]]
        kept = [value for commit in commits for value in freed[commit]]
        assert np.mean(kept) == pytest.approx(np.mean(raw), abs=1e-6)


def test_a_wild_run_moves_nobody_else() -> None:
    """It stays as wild as it was, and the rest of its block is where it was without it."""
    rng = np.random.default_rng(4)
    runs = runs_of([0.0, 0.0, 0.0], [(0, 1, 2)] * 12, rng, noise=0.005)
    calm = free_of_blocks(runs)
    first = runs["0"][0]
    runs["0"][0] = Run(first.value * 3.0, first.block)
    wild = free_of_blocks(runs)
    assert wild["0"][0] - calm["0"][0] > 0.9
    assert abs(wild["1"][0] - calm["1"][0]) < 0.03
    assert np.allclose(np.mean(wild["2"]), np.mean(calm["2"]), atol=0.005)


def test_runs_outside_blocks_are_plain_logarithms() -> None:
    """So are runs that are alone in their block."""
    runs = {"a": [Run(2.0), Run(8.0, "alone")], "b": [Run(3.0)], "c": []}
    expected = {"a": (math.log(2.0), math.log(8.0)), "b": (math.log(3.0),), "c": ()}
    assert free_of_blocks(runs) == {k: pytest.approx(v) for k, v in expected.items()}


def test_values_of_zero_do_not_break_the_fit() -> None:
    """They count as half of the smallest positive value."""
    freed = free_of_blocks({"a": [Run(0.0, "x"), Run(0.0, "y")], "b": [Run(4.0, "x")]})
    assert freed["a"] == pytest.approx((math.log(2.0),) * 2)
    assert free_of_blocks({"a": [Run(-1.0)]}) == {"a": (0.0,)}


def test_nothing_measured_gives_nothing() -> None:
    """No commits, no values."""
    assert free_of_blocks({}) == {}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=4), min_size=1, max_size=12),
    st.integers(0, 2**16),
    st.lists(st.floats(-2, 2), min_size=12, max_size=12),
)
def test_shifting_whole_blocks_changes_no_comparison(
    blocks: list[set[int]], seed: int, shifts: list[float]
) -> None:
    """Whatever the design: commits that meet differ by the same, however their blocks shift."""
    shared = [tuple(sorted(block)) for block in blocks if len(block) > 1]
    rng = np.random.default_rng(seed)
    runs = runs_of([0.1 * commit for commit in range(8)], shared, rng)
    moved = {
        commit: [Run(r.value * math.exp(shifts[int(r.block[1:])]), r.block) for r in own]
        for commit, own in runs.items()
    }
    before, after = free_of_blocks(runs), free_of_blocks(moved)
    for block in shared:
        one, *others = map(str, block)
        for other in others:
            assert np.mean(after[other]) - np.mean(after[one]) == pytest.approx(
                np.mean(before[other]) - np.mean(before[one]), abs=1e-3
            )


def test_a_thousand_runs_of_many_commits_and_blocks() -> None:
    """A design of several hundred commits and blocks is solved, and right."""
    rng = np.random.default_rng(5)
    levels = [0.0 if commit < 120 else 0.05 for commit in range(200)]
    blocks = [tuple(rng.choice(200, 5, replace=False).tolist()) for _ in range(200)]
    freed = free_of_blocks(runs_of(levels, blocks, rng))
    low = np.concatenate([freed[str(commit)] for commit in range(120)])
    high = np.concatenate([freed[str(commit)] for commit in range(120, 200)])
    assert high.mean() - low.mean() == pytest.approx(0.05, abs=0.005)


def test_levels_of_averaged_samples_ignore_one_sided_disturbance() -> None:
    """A burst that hits some samples of one build leaves the ratio alone."""
    rng = np.random.default_rng(6)
    samples = rng.normal(0, 0.003, (40, 2)) + np.array([0.0, 0.05])
    samples[5:25, 1] += 0.4
    levels = paired_levels(samples, averaged=True)
    assert levels[1] - levels[0] == pytest.approx(0.05, abs=0.006)


def test_levels_of_single_calls_are_medians_free_of_drift() -> None:
    """Drift over the cycles cancels, and one wild call does not matter."""
    drift = np.linspace(0, 2, 9)[:, None]
    samples = drift + np.array([0.0, 0.1, 0.3])
    samples[4, 1] += 7.0
    levels = paired_levels(samples, averaged=False)
    assert np.allclose(levels - levels[0], [0.0, 0.1, 0.3])


def test_a_block_of_one_is_its_own_level() -> None:
    """One build: the median of calls, the quiet mean of averages."""
    assert block_values([[3.0, 1.0, 2.0]], paired=True, averaged=False) == pytest.approx([2.0])
    assert block_values([[4.0] * 12 + [9.0] * 4], paired=True, averaged=True) == pytest.approx(
        [4.0]
    )


def test_metrics_of_zero_or_less_are_medians() -> None:
    """A tracked number has no logarithm."""
    samples = [[0.0, -2.0, 4.0], [1.0]]
    assert block_values(samples, paired=False, averaged=False) == [0.0, 1.0]
    assert block_values([[0.0], [1.0]], paired=True, averaged=False) == [0.0, 1.0]
    assert block_values([], paired=True, averaged=False) == []


def test_both_noise_levels_are_recovered() -> None:
    """1 % between processes, 4 % between the samples of one."""
    rng = np.random.default_rng(8)
    runs: dict[str, list[Run]] = {"a": [], "b": []}
    for number in range(400):
        for own in runs.values():
            level = rng.normal(0, 0.01)
            samples = np.exp(level + rng.normal(0, 0.04, 40))
            value = float(np.median(samples))
            own.append(Run(value, f"b{number}", tuple(samples.tolist()), 1))
    noise = within_and_between(runs)
    assert noise.within == pytest.approx(0.04 * math.sqrt(math.pi / 80), rel=0.15)
    assert noise.between == pytest.approx(0.01, rel=0.15)


def test_nothing_to_tell_noise_from_is_no_noise() -> None:
    """One run without samples."""
    assert within_and_between({"a": [Run(1.0)]}) == Noise(0.0, 0.0)


def test_the_resolvable_step_shrinks_with_runs() -> None:
    """Ten runs a side at 1 %: (1.960 + 1.282) * 0.01 * sqrt(0.2)."""
    noise = Noise(0.006, 0.008)
    step = smallest_resolvable_step(noise, 10)
    assert step == pytest.approx(math.expm1(3.2415 * 0.01 * math.sqrt(0.2)), rel=1e-3)
    assert smallest_resolvable_step(noise, 40) == pytest.approx(step / 2, rel=0.01)
    with pytest.raises(ValueError, match="one run"):
        smallest_resolvable_step(noise, 0)


def test_the_spread_between_builds_is_recovered() -> None:
    """1.5 % between builds under 1 % between runs; and none where there is none."""
    rng = np.random.default_rng(9)
    blocks = [tuple(range(40))] * 12
    levels = rng.normal(0, 0.015, 40)
    means, sigma = between_builds(runs_of(levels.tolist(), blocks, rng))
    assert sigma == pytest.approx(float(np.std(levels, ddof=1)), rel=0.15)
    assert np.corrcoef(means, levels)[0, 1] > 0.95
    _, nothing = between_builds(runs_of([0.0] * 40, blocks, rng))
    assert nothing < 0.002


def test_one_build_has_no_spread() -> None:
    """Nor has none, nor builds of which none was measured."""
    assert between_builds({}) == ((), 0.0)
    assert between_builds({"a": [Run(1.0, "b0")]}) == ((0.0,), 0.0)
    assert between_builds({"a": [Run(1.0, "b0")], "b": []}) == ((0.0,), 0.0)
