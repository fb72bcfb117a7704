"""The error rates of verdicts, in seeded simulations with noise of two levels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from bisectorch.model import Judgement
from bisectorch.search.verdict import FEWEST_BLOCKS, SequentialJudge

TRIALS = 400
MOST_BLOCKS = 14
"""What fits into 30 s when two processes start and run for about two."""

SAMPLES = 60
STEP = 0.02
LAYOUT = (0.003, 0.013)
"""A run's spread from its process's layout: uniform between these, one draw a trial."""

SAMPLE_SPREAD = 0.02
"""Of one sample of 10 ms about its process's level."""


@dataclass
class Tally:
    """How many trials ended how, and how many intervals held the truth."""

    different: float
    same: float
    covered: float
    blocks: float


def block(rng: np.random.Generator, truth: float, layout: float) -> float:
    """The log ratio of two fresh processes: each a layout of its own, and samples about it."""
    sides = [
        level + rng.normal(0, layout) + np.quantile(rng.gamma(2, SAMPLE_SPREAD / 2, SAMPLES), 0.3)
        for level in (0.0, truth)
    ]
    return float(sides[1] - sides[0])


def simulate(truth: float, workloads: int = 1, seed: int = 1, trials: int = TRIALS) -> Tally:
    """Blocks until the first workload is judged; all others are null."""
    rng = np.random.default_rng(seed)
    judge = SequentialJudge(STEP, 0.95, 0.01)
    different = same = covered = blocks = 0
    for _ in range(trials):
        layout = rng.uniform(*LAYOUT)
        ratios: list[list[float]] = [[] for _ in range(workloads)]
        for count in range(1, MOST_BLOCKS + 1):
            for index, own in enumerate(ratios):
                own.append(block(rng, 0.0 if index else truth, layout))
            if count < FEWEST_BLOCKS:
                continue
            judged = judge.judge(ratios)[0]
            if judged.judgement is not Judgement.UNKNOWN:
                break
        different += judged.judgement is Judgement.DIFFERENT
        same += judged.judgement is Judgement.SAME
        covered += judged.log_low <= truth <= judged.log_high
        blocks += count
    return Tally(different / trials, same / trials, covered / trials, blocks / trials)


def test_no_difference_is_the_same_and_rarely_different() -> None:
    """At most 1 % different and at least 90 % same, at a smallest step of 2 %."""
    found = simulate(0.0)
    assert found.different <= 0.01
    assert found.same >= 0.90


def test_a_step_of_three_percent_is_different() -> None:
    """At least 95 %, and never the same."""
    found = simulate(math.log(1.03), seed=2)
    assert found.different >= 0.95
    assert found.same <= 0.01


def test_a_step_of_the_smallest_size_is_rarely_the_same() -> None:
    """SAME would be wrong: at most 5 %."""
    assert simulate(math.log(1.0 + STEP), seed=3).same <= 0.05


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """93 to 98 % of nominal 95 %, although measuring stops when the answer is there."""
    tallies = [simulate(math.log1p(step), seed=4) for step in (0.0, 0.01, 0.03, -0.05)]
    assert 0.93 <= sum(tally.covered for tally in tallies) / len(tallies) <= 0.98


def test_among_many_workloads_a_step_is_still_found_and_costs_few_blocks_more() -> None:
    """One of twenty changed: found, for less than half as many blocks again."""
    alone = simulate(math.log(1.05), seed=5, trials=60)
    among = simulate(math.log(1.05), workloads=20, seed=5, trials=60)
    assert among.different >= 0.95
    assert among.blocks <= 1.5 * alone.blocks


def test_looking_forever_does_not_make_a_difference() -> None:
    """Two hundred looks at nothing call it different in at most 1 % of all cases."""
    rng = np.random.default_rng(6)
    judge = SequentialJudge(STEP, 0.95, 0.01)
    p_values = [judge.judge([list(rng.normal(0, 0.01, 200))])[0].p_value for _ in range(1000)]
    assert sum(p <= 0.01 for p in p_values) <= 10 + 3 * math.sqrt(10)
    assert sum(p <= 0.1 for p in p_values) <= 100


@pytest.mark.parametrize("tails", [3, 5])
def test_wild_blocks_cost_time_not_truth(tails: int) -> None:
    """Under Student noise a null is different in at most 1 %."""
    rng = np.random.default_rng(7)
    judge = SequentialJudge(STEP, 0.95, 0.01)
    wrong = 0
    for _ in range(500):
        ratios = list(0.008 * rng.standard_t(tails, MOST_BLOCKS))
        wrong += judge.judge([ratios])[0].judgement is Judgement.DIFFERENT
    assert wrong <= 5
