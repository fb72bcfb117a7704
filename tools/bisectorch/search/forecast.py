"""What a search of a given history will probably take: many simulated ones, summed up. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bisectorch.model import Evidence, Purpose
from bisectorch.search.searcher import BayesSearcher
from bisectorch.search.simulate import Drawn, Setting, Trial, World, decisions, draw_over, search

STEPS = (0.01, 0.02, 0.03, 0.05, 0.10, 0.20)
"""The smallest steps that are tried against a budget."""


@dataclass(frozen=True)
class Ground:
    """What the search will stand on.

    Attributes:
        states: the native state of each position.
        costs: the quote of each position, in seconds.
        python_seconds: what a commit costs once its native state is built.
        weights: how plausible it is that each position changes the workload.
        sigma: the standard deviation of a run's logarithm.
        run_seconds: what a run costs.
        failing: positions that are known not to build.
    """

    states: tuple[int, ...]
    costs: tuple[float, ...]
    python_seconds: float
    weights: tuple[float, ...]
    sigma: float
    run_seconds: float
    failing: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """The number of positions, both ends included."""
        return len(self.states)


@dataclass(frozen=True)
class Scenario:
    """What may have happened in the range: relative steps, in order of position."""

    name: str
    ratios: tuple[float, ...] = ()


@dataclass(frozen=True)
class Amount:
    """The mean over the trials, and between what eight of ten of them lie."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Forecast:
    """What the trials of one scenario came to.

    Attributes:
        scenario: which.
        trials: how many.
        builds: commits built, whatever it takes.
        natives: those of them whose native state was not there yet.
        runs: runs measured.
        seconds: what both cost.
        found: the share of the steps that lie in a credible set; None where there are none.
        false: culprits without a step, a search.
    """

    scenario: Scenario
    trials: int
    builds: Amount
    natives: Amount
    runs: Amount
    seconds: Amount
    found: float | None
    false: float


@dataclass(frozen=True)
class Opening:
    """What every search of the range does first: both ends and the starting grid."""

    positions: int
    builds: int
    natives: int
    runs: int
    seconds: float


@dataclass(frozen=True)
class Tried:
    """A smallest step tried against a budget: the mean seconds of so many searches."""

    smallest_step: float
    mean_seconds: float
    trials: int


@dataclass(frozen=True)
class Player:
    """How the session will search.

    Attributes:
        searcher: makes the search for a smallest step.
        batch: how many positions it probes at a time.
        anchored: whether both ends run beside every probe.
    """

    searcher: Callable[[float], BayesSearcher]
    batch: Callable[[Evidence], int]
    anchored: bool = True


def scenarios(smallest_step: float, size: int) -> tuple[Scenario, ...]:
    """What is worth knowing of a search with this smallest step; those that fit the range."""
    scale = max(1.0, smallest_step / 0.05)
    one, large, some = 2 * smallest_step, 0.2 * scale, 0.1 * scale
    every = ((), (one,), (large,), (large, some, -min(0.9, some)))
    return tuple(Scenario(_name(ratios), ratios) for ratios in every if len(ratios) < size)


def opening(ground: Ground, player: Player, smallest_step: float) -> Opening:
    """The cost of what is certain."""
    world = World(_drawn(ground, (), 0))
    asked: set[int] = set()
    for decision in decisions(
        world,
        player.searcher(smallest_step),
        batch=player.batch,
        weights=ground.weights,
        one_build=_is_one_build(ground),
        anchored=player.anchored,
    ):
        first = [p for p in decision.probes if p.purpose in (Purpose.ENDS, Purpose.GRID)]
        if not first:
            break
        asked.update(position for probe in first for position in probe.positions)
    return Opening(len(asked), world.builds, world.natives, world.runs, world.seconds)


def forecast(
    ground: Ground,
    player: Player,
    smallest_step: float,
    wanted: Sequence[Scenario],
    rounds: Iterator[int],
) -> tuple[Forecast, ...]:
    """One trial of every scenario a round, with the round's number as the seed."""
    played: list[list[tuple[World, Trial]]] = [[] for _ in wanted]
    for seed in rounds:
        for scenario, trials in zip(wanted, played, strict=True):
            trials.append(play(ground, player, smallest_step, scenario.ratios, seed))
    return tuple(_summed(s, trials) for s, trials in zip(wanted, played, strict=True) if trials)


def play(
    ground: Ground, player: Player, smallest_step: float, ratios: tuple[float, ...], seed: int
) -> tuple[World, Trial]:
    """One search of this history, with steps at places drawn by weight."""
    world = World(_drawn(ground, ratios, seed))
    trial = search(
        world,
        player.searcher(smallest_step),
        batch=player.batch,
        weights=ground.weights,
        one_build=_is_one_build(ground),
        anchored=player.anchored,
    )
    return world, trial


def reachable(
    ground: Ground, player: Player, budget_seconds: float, rounds: Callable[[], Iterator[int]]
) -> tuple[float | None, tuple[Tried, ...]]:
    """The smallest of ``STEPS`` whose search fits the budget, and those tried, in order.

    A search fits that finds one step of twice the smallest step within the budget, on average
    over the seeds that ``rounds`` gives for each. None where none fits. They are tried one by
    one: a larger one mostly costs less, but a step that one run tells has pairs looked for.
    """
    tried: list[Tried] = []

    for step in STEPS:
        worlds = [play(ground, player, step, (2 * step,), seed)[0] for seed in rounds()]
        mean = float(np.mean([world.seconds for world in worlds]))
        tried.append(Tried(step, mean, len(worlds)))
        if mean <= budget_seconds:
            return step, tuple(tried)
    return None, tuple(tried)


def _drawn(ground: Ground, ratios: tuple[float, ...], seed: int) -> Drawn:
    setting = Setting(
        size=ground.size,
        ratios=ratios,
        sigma=ground.sigma,
        python_seconds=ground.python_seconds,
        run_seconds=ground.run_seconds,
    )
    return draw_over(
        setting,
        seed,
        states=ground.states,
        costs=ground.costs,
        weights=ground.weights,
        failing=ground.failing,
    )


def _is_one_build(ground: Ground) -> bool:
    return len(set(ground.states)) == 1


def _name(ratios: tuple[float, ...]) -> str:
    if not ratios:
        return "nothing changed"
    percents = [f"{100 * ratio:+.3g} %" for ratio in ratios]
    return f"one step, {percents[0]}" if len(percents) == 1 else f"steps {', '.join(percents)}"


def _summed(scenario: Scenario, trials: Sequence[tuple[World, Trial]]) -> Forecast:
    steps = [
        any(position in credible for credible in trial.credible)
        for world, trial in trials
        for position in world.drawn.positions
    ]
    false = sum(
        not any(position in credible for position in world.drawn.positions)
        for world, trial in trials
        for credible in trial.credible
    )
    return Forecast(
        scenario=scenario,
        trials=len(trials),
        builds=_amount([world.builds for world, _ in trials]),
        natives=_amount([world.natives for world, _ in trials]),
        runs=_amount([world.runs for world, _ in trials]),
        seconds=_amount([world.seconds for world, _ in trials]),
        found=float(np.mean(steps)) if steps else None,
        false=false / len(trials),
    )


def _amount(values: Sequence[float]) -> Amount:
    low, high = np.quantile(values, (0.1, 0.9))
    return Amount(float(np.mean(values)), float(low), float(high))
