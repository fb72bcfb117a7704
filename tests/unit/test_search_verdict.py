"""Verdicts on paired ratios, case by case."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bisectorch.model import Judgement
from bisectorch.search.verdict import SequentialJudge, discoveries, interval, log_evidence
from scipy import integrate, stats

JUDGE = SequentialJudge(0.02, 0.95, 0.01)


def judgement(*ratios: float) -> Judgement:
    """Of one workload alone."""
    return JUDGE.judge([ratios])[0].judgement


@pytest.mark.parametrize(("blocks", "t"), [(3, 1.0), (4, 6.0), (9, -2.5)])
def test_the_evidence_is_the_bayes_factor_it_claims_to_be(blocks: int, t: float) -> None:
    """Against the integral of noncentral t densities over the distances expected."""
    variance = 0.01**2
    mean = np.array([t * math.sqrt(variance / blocks)])

    def density(effect: float) -> float:
        distance = float(stats.nct.pdf(t, blocks - 1, effect * math.sqrt(blocks)))
        return distance * float(stats.norm.pdf(effect, scale=1.5))

    expected, _ = integrate.quad(density, -12, 12, limit=200)
    expected /= float(stats.t.pdf(t, blocks - 1))
    found = log_evidence(mean, np.array([variance]), np.array([float(blocks)]), 0.0)
    assert math.exp(found[0]) == pytest.approx(expected, rel=1e-4)


def test_nothing_is_said_of_too_few_blocks() -> None:
    """However clear they look."""
    assert judgement() is Judgement.UNKNOWN
    assert judgement(0.5, 0.5, 0.5) is Judgement.UNKNOWN


def test_numbers_that_never_change_are_judged_soon() -> None:
    """Tracked numbers have no noise."""
    assert judgement(*[0.0] * 4) is Judgement.SAME
    assert judgement(*[0.4] * 4) is Judgement.DIFFERENT


def test_a_proven_small_difference_is_the_same() -> None:
    """It is real, and smaller than what matters."""
    small = [0.005 + 0.0002 * (-1) ** i for i in range(12)]
    (judged,) = JUDGE.judge([small])
    assert judged.p_value < 0.01
    assert judged.judgement is Judgement.SAME


def test_an_answer_outlives_what_comes_after() -> None:
    """Evidence counts at its highest: no later block takes a p-value back."""
    clear = [0.1, 0.101, 0.099, 0.1, 0.1005, 0.0995]
    assert judgement(*clear) is Judgement.DIFFERENT
    before = JUDGE.judge([clear])[0].p_value
    assert JUDGE.judge([[*clear, -0.3, 0.2]])[0].p_value <= before


def test_many_workloads_need_stronger_evidence_each() -> None:
    """The same ratios, alone and among fifty that say nothing."""
    ratios = [0.05, 0.055, 0.045, 0.052, 0.048]
    assert JUDGE.judge([ratios])[0].judgement is Judgement.DIFFERENT
    crowd = [ratios, *([[]] * 49)]
    assert JUDGE.judge(crowd)[0].judgement is Judgement.UNKNOWN


def test_what_is_found_elsewhere_lowers_the_bar() -> None:
    """The procedure of Benjamini and Hochberg, as in their paper's example."""
    p_values = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
    ]
    assert discoveries(p_values, 0.05) == (True,) * 4 + (False,) * 11
    assert discoveries([0.04, 0.05], 0.05) == (True, True)
    assert discoveries([], 0.05) == ()


def test_the_interval_is_students_with_a_degree_of_freedom_fewer() -> None:
    """And says nothing before there are three blocks."""
    mean, low, high = interval([1.0, 2.0, 3.0], 0.95)
    half = 12.7062 / math.sqrt(3)
    assert (mean, low, high) == pytest.approx((2.0, 2.0 - half, 2.0 + half), abs=1e-3)
    assert interval([1.0, 3.0], 0.95) == (2.0, -math.inf, math.inf)
    assert math.isnan(interval([], 0.95)[0])


def test_the_geometric_mean_weighs_workloads_alike() -> None:
    """However many blocks each took; too few blocks have no spread and are left out."""
    mean, low, high = JUDGE.overall([[0.1, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0], [9.0, 9.0]])
    assert (mean, low, high) == pytest.approx((0.05, 0.05, 0.05))
    mean, low, high = JUDGE.overall([[0.09, 0.11, 0.1], [-0.01, 0.01, 0.0]])
    assert low < mean < high
    assert all(map(math.isnan, JUDGE.overall([])))
