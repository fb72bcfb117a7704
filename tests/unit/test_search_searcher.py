"""The searcher's contract with the loop: edges of the input, progress and purity."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from bisectorch.model import Decision, Evidence, Purpose, Verdict
from bisectorch.search import BayesSearcher


def evidence(size: int, values: dict[int, tuple[float, ...]] | None = None, **more) -> Evidence:
    """Evidence over ``size`` equally plausible commits."""
    return Evidence(size, (1.0,) * size, values or {}, **more)


def play(
    levels: np.ndarray,
    *,
    sigma: float = 0.01,
    failing: frozenset[int] = frozenset(),
    batch: int = 4,
    seed: int = 0,
    budget: float | None = None,
    build_seconds: float = 0.0,
) -> tuple[Decision, Evidence, list[Decision]]:
    """Drive a searcher to its verdict on simulated runs; every probe is one second a run."""
    rng = np.random.default_rng(seed)
    values: dict[int, tuple[float, ...]] = {}
    pairs: dict[tuple[int, int], tuple[float, ...]] = {}
    failed: frozenset[int] = frozenset()
    spent = 0.0
    history = []
    for _ in range(200):
        seen = evidence(
            len(levels),
            dict(values),
            failed=failed,
            pairs=dict(pairs),
            spent_seconds=spent,
            budget_seconds=budget,
            build_seconds=(build_seconds,) * len(levels),
        )
        decision = BayesSearcher().decide(seen, batch)
        history.append(decision)
        if decision.verdict is not None:
            return decision, seen, history
        assert decision.probes, "neither a probe nor a verdict"
        for probe in decision.probes:
            got = {}
            for x in probe.positions:
                assert x not in failed, "a failed commit was proposed again"
                if x in failing:
                    failed |= {x}
                    continue
                got[x] = levels[x] + rng.normal(0, sigma, probe.runs)
                values[x] = (*values.get(x, ()), *got[x].tolist())
                spent += probe.runs
            if probe.purpose is Purpose.CONFIRM and len(got) == 2:
                pair = probe.positions[0], probe.positions[1]
                fresh = got[pair[1]] - got[pair[0]]
                pairs[pair] = (*pairs.get(pair, ()), *fresh.tolist())
    raise AssertionError("the search did not end")


def stairs(size: int, steps: dict[int, float]) -> np.ndarray:
    """Log levels with these relative steps."""
    levels = np.zeros(size)
    for position, ratio in steps.items():
        levels[position:] += math.log1p(ratio)
    return levels


def test_first_asks_for_both_ends():
    """With no evidence the ends are measured, and nothing else."""
    decision = BayesSearcher().decide(evidence(60), 6)
    assert [(p.positions, p.purpose) for p in decision.probes] == [((0, 59), Purpose.ENDS)]


def test_then_asks_for_a_grid():
    """After the ends comes a starting grid of inner positions, at most a batch of them."""
    decision = BayesSearcher().decide(evidence(60, {0: (0.0, 0.01), 59: (0.0, 0.01)}), 3)
    (probe,) = decision.probes
    assert probe.purpose is Purpose.GRID
    assert len(probe.positions) <= 3
    assert all(0 < x < 59 for x in probe.positions)


def dear(size: int, *free: int, values: dict[int, tuple[float, ...]] | None = None) -> Evidence:
    """Builds as dear as a hundred runs, but for those that are there already."""
    quotes = [0.0 if x in {*free, *(values or {})} else 100.0 for x in range(size)]
    return evidence(size, values, build_seconds=tuple(quotes), run_seconds=1.0)


def positions_of(decision: Decision, purpose: Purpose) -> tuple[int, ...]:
    """What is asked for with this purpose."""
    return tuple(x for p in decision.probes if p.purpose is purpose for x in p.positions)


def test_builders_that_would_wait_for_the_ends_begin_the_grid():
    """But only where a build takes long, and no more than there are builders."""
    seen = dear(60)
    assert positions_of(BayesSearcher().decide(seen, 1), Purpose.GRID) == ()
    assert positions_of(BayesSearcher().decide(seen, 2), Purpose.GRID) == ()
    assert len(positions_of(BayesSearcher().decide(seen, 4), Purpose.GRID)) == 2
    assert len(positions_of(BayesSearcher().decide(dear(60, 0), 2), Purpose.GRID)) == 1
    assert positions_of(BayesSearcher().decide(dear(60, 0, 59), 4), Purpose.GRID) == ()


def test_builders_that_would_wait_for_the_grid_cut_elsewhere():
    """Where the step is, if that is known already, and not beside what the grid asks for."""
    values = {0: (0.0, 0.0), 59: (0.5, 0.5), 15: (0.5,), 30: (0.5,)}
    decision = BayesSearcher(cells=4).decide(dear(60, values=values), 2)
    (grid,) = positions_of(decision, Purpose.GRID)
    assert 40 < grid < 50
    (cut,) = positions_of(decision, Purpose.SEARCH)
    assert 0 < cut < 15
    alone = BayesSearcher(cells=4).decide(dear(60, values=values), 1)
    assert positions_of(alone, Purpose.SEARCH) == ()


def test_what_is_built_at_once_is_not_asked_for_early():
    """Later, when more is known, it costs no more."""
    values = {0: (0.0, 0.0), 59: (0.5, 0.5), 15: (0.5,), 30: (0.5,)}
    decision = BayesSearcher(cells=4).decide(dear(60, *range(15), values=values), 2)
    assert len(positions_of(decision, Purpose.GRID)) == 1
    assert positions_of(decision, Purpose.SEARCH) == ()


def test_a_builder_that_would_wait_makes_what_takes_long():
    """Though what builds at once tells more for its cost: that is asked for next, for nothing."""
    values = {0: (0.0, 0.0), 59: (0.5, 0.5), 15: (0.5,), 30: (0.5,)}
    decision = BayesSearcher(cells=4).decide(dear(60, *range(10), values=values), 2)
    (cut,) = positions_of(decision, Purpose.SEARCH)
    assert 10 <= cut < 15


def test_names_every_step_of_both_signs():
    """Both signs are found, and nothing else, largest first."""
    truth = {12: 0.3, 33: -0.2, 50: 0.08}
    decision, _, _ = play(stairs(60, truth))
    assert decision.verdict is Verdict.CULPRITS
    assert [s.position for s in decision.steps] == [12, 33, 50]
    assert all(s.confirmed and s.credible == (s.position,) for s in decision.steps)


def test_no_change_says_its_limit():
    """Without a step the verdict is no change, at a limit no larger than the smallest step."""
    decision, _, _ = play(np.zeros(60))
    assert decision.verdict is Verdict.NO_CHANGE
    assert 0 < decision.limit <= 0.03
    assert decision.steps == ()


def test_unbuildable_neighbours_become_a_credible_set():
    """Two commits that fail just before a culprit stay under suspicion with it."""
    decision, _, _ = play(stairs(60, {30: 0.4}), failing=frozenset({28, 29}))
    (step,) = decision.steps
    assert step.credible == (28, 29, 30)
    assert (step.left, step.right) == (27, 30)


def test_only_the_ends_can_be_built():
    """With every inner commit failing, the whole range is the credible set."""
    decision, _, _ = play(stairs(9, {5: 0.4}), failing=frozenset(range(1, 8)))
    (step,) = decision.steps
    assert step.credible == tuple(range(1, 9))


def test_two_commits_are_a_range():
    """Size 2 has one gap and no inner commit."""
    decision, _, _ = play(stairs(2, {1: 0.2}))
    assert [s.position for s in decision.steps] == [1]


@pytest.mark.parametrize("size", [0, 1])
def test_no_range_is_inconclusive(size):
    """Fewer than two positions leave nothing to search, and say so."""
    decision = BayesSearcher().decide(evidence(size), 4)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.needed


def test_nothing_builds():
    """A range of which nothing can be measured is inconclusive, not an exception."""
    decision = BayesSearcher().decide(evidence(5, failed=frozenset(range(5))), 4)
    assert decision.verdict is Verdict.INCONCLUSIVE


def test_values_that_are_no_numbers_count_as_failures():
    """A commit whose runs are all NaN or infinite is not proposed again."""
    decision = BayesSearcher().decide(evidence(9, {0: (math.nan,), 8: (math.inf, 0.1)}), 4)
    assert all(0 not in p.positions for p in decision.probes)


def test_a_spent_budget_ends_the_search():
    """The budget stops an unsettled search with what it would take."""
    decision, seen, _ = play(stairs(500, {100: 0.05}), sigma=0.05, budget=30.0)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.needed
    assert seen.spent_seconds >= 30.0


def test_same_evidence_same_decision():
    """A decision follows from the evidence alone, whatever order its mappings were filled in."""
    _, seen, _ = play(stairs(60, {12: 0.3}), batch=3)
    values = dict(reversed([(x, tuple(reversed(v))) for x, v in seen.values.items()]))
    again = Evidence(seen.size, seen.weights, values, seen.failed, seen.pairs)
    first = BayesSearcher().decide(
        Evidence(seen.size, seen.weights, seen.values, seen.failed, seen.pairs), 3
    )
    assert BayesSearcher().decide(again, 3) == first


def test_runs_without_noise():
    """Identical runs (counts) do not break the noise model."""
    decision, _, _ = play(stairs(40, {17: 0.2}), sigma=0.0)
    assert [s.position for s in decision.steps] == [17]


def test_one_wild_run_makes_no_step():
    """A single run far off the others neither becomes a culprit nor stops the verdict."""
    values = dict.fromkeys(range(0, 60, 6), (0.0, 0.004, -0.003)) | {59: (0.001, -0.002, 0.003)}
    values[30] = (0.0, 0.7, 0.002)
    decision = BayesSearcher().decide(evidence(60, values), 4)
    assert decision.steps == ()
    assert decision.posterior.expected_steps < 0.2


def test_arguments_are_checked():
    """A smallest step of nothing or a certainty of one is refused."""
    with pytest.raises(ValueError, match="smallest_step"):
        BayesSearcher(0.0)
    with pytest.raises(ValueError, match="smallest_step"):
        BayesSearcher(0.03, 1.0)


def test_a_lone_commit_far_off_is_run_again():
    """Before a verdict: one wild run and a pair that cancels around one commit look alike."""
    rng = np.random.default_rng(5)
    values = {x: (float(rng.normal(0, 0.01)),) for x in range(0, 60, 2)}
    values[0] = values[58] = (0.0, 0.01, -0.01, 0.004, -0.006)
    values[31] = (0.2,)
    seen = evidence(59, values, build_seconds=(0.0,) * 59)
    decision = BayesSearcher(cells=2).decide(seen, 6)
    assert [(p.positions, p.purpose) for p in decision.probes] == [((31,), Purpose.REPEAT)]
    values[31] = (0.2, 0.001)
    again = BayesSearcher(cells=2).decide(evidence(59, values), 6)
    assert again.verdict is Verdict.NO_CHANGE


def test_where_steps_were_taken_back_more_is_looked_for():
    """Between three steps up nothing hints at pairs that cancel; up, down and up again does."""
    built = {}
    for name, sign in (("up", 1.0), ("back", -1.0)):
        decision, seen, _ = play(
            stairs(512, {100: 0.2, 230: 0.2 * sign, 410: 0.2}), build_seconds=15
        )
        assert {s.position for s in decision.steps} == {100, 230, 410}
        built[name] = len(seen.values)
    assert built["back"] > 1.2 * built["up"]


def half_way(**more) -> Evidence:
    """Nine neighbours and a step of 10 %; the build of the middle one lies half way up."""
    steady = tuple(0.002 * (-1) ** k for k in range(30))
    levels = (*(0.0,) * 4, 0.05, *(0.1,) * 4)
    values = {x: tuple(level + y for y in steady) for x, level in enumerate(levels)}
    return evidence(9, values, build_sigma=0.02, **more)


def asked(seen: Evidence) -> list[tuple[Purpose, tuple[int, ...]]]:
    """What is asked next."""
    return [(p.purpose, p.positions) for p in BayesSearcher().decide(seen, 4).probes]


def test_a_fresh_build_is_asked_for_where_build_effects_hide_a_step():
    """More runs would tell nothing; one fresh build of the one that matters does."""
    assert asked(half_way(rebuild_seconds=(15.0,) * 9)) == [(Purpose.REBUILD, (4,))]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rebuild_seconds": (math.inf,) * 9},
        {"rebuild_seconds": (15.0,) * 9, "budget_seconds": 100.0, "spent_seconds": 85.0},
    ],
)
def test_neighbours_are_told_together_where_none_can_be_built_again(more):
    """Nothing can be built, or the budget does not pay for a build and a confirmation."""
    assert asked(half_way(**more)) == [(Purpose.CONFIRM, (3, 5))]


@pytest.mark.parametrize(("builds", "wanted"), [(7, True), (8, False)])
def test_a_commit_is_built_so_often_and_no_more(builds, wanted):
    """Eight builds of each, which lie far apart: that is all that builds can tell."""
    seen = half_way(rebuild_seconds=(15.0,) * 9)
    owners = tuple(k % builds for k in range(30))
    values = {
        x: tuple(y + 0.05 * (owner - builds // 2) for y, owner in zip(v, owners, strict=True))
        for x, v in seen.values.items()
    }
    again = replace(seen, values=values, build_sigma=0.1, builds=dict.fromkeys(values, owners))
    purposes = [purpose for purpose, _ in asked(again)]
    assert (Purpose.REBUILD in purposes) is wanted


def test_further_runs_go_to_the_build_with_the_fewest():
    """The first of them where several have as few; the usual one where there is one."""
    seen = evidence(3, {1: (0.0,) * 6}, builds={1: (0, 0, 0, 1, 2, 2)})
    assert seen.build_to_run(1) == 1
    assert seen.build_to_run(0) == 0
    assert evidence(3, {1: (0.0,) * 2}, builds={1: (1, 0)}).build_to_run(1) == 0


def test_builds_lower_the_detection_limit_where_runs_cannot():
    """As many runs of more builds exclude a smaller step."""
    runs = tuple(0.002 * (-1) ** k for k in range(24))
    values = {0: runs, 8: runs}
    one = BayesSearcher(cells=1).decide(evidence(9, values, build_sigma=0.01), 1)
    owners = {x: tuple(k // 2 % 6 for k in range(24)) for x in values}
    six = BayesSearcher(cells=1).decide(evidence(9, values, build_sigma=0.01, builds=owners), 1)
    assert six.limit < 0.6 * one.limit
