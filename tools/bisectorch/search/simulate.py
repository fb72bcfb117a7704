"""Simulated histories: to plan a search, to test one, and to compare it with others.

A ``Setting`` says what kind of history; ``draw`` makes one of a seed, and a ``World`` lets a
strategy build and measure it, keeping the accounts. The k-th run of a commit is a function of
the seed, the commit and k alone, so every strategy sees the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bisectorch.model import Decision, Evidence, Purpose, Verdict
from bisectorch.search.searcher import BayesSearcher

Array = npt.NDArray[np.float64]

CLUSTER = 5.0
"""Mean length of a stretch of unbuildable commits."""
NATIVE_MEDIAN = 1.9
NATIVE_SPREAD = 0.93
"""Commits between two native changes: lognormal, fitted to PyTorch in May and June 2017 (of 378
commits 129 distinct native states, median 2 commits between native changes, longest 24)."""
MOST_DECISIONS = 3000


@dataclass(frozen=True)
class Setting:
    """A kind of history.

    Attributes:
        size: the number of commits, both ends included.
        ratios: the relative steps in order of position, 0.2 for 20 % slower.
        sigma: the standard deviation of a run's logarithm.
        heavy: the noise is Student t with 3 degrees of freedom, scaled to half of ``sigma``,
            and one run in fifty is slower by up to some ten times ``sigma``.
        build_sigma: the standard deviation of a build's own effect.
        drift: the standard deviation by which the machine's speed wanders each run.
        unbuildable: the share of commits that cannot be built, in clusters.
        build_seconds: the cost of a build (of a native state when ``python_seconds`` is set).
        python_seconds: the cost of a build whose native state has been built; None: no such.
        run_seconds: the cost of a run.
        fresh_builds: commits can be built again, at the cost of a build; each has an effect of
            its own.
    """

    size: int = 512
    ratios: tuple[float, ...] = ()
    sigma: float = 0.02
    heavy: bool = False
    build_sigma: float = 0.0
    drift: float = 0.0
    unbuildable: float = 0.0
    build_seconds: float = 15.0
    python_seconds: float | None = None
    run_seconds: float = 2.0
    fresh_builds: bool = False


@dataclass(frozen=True)
class Drawn:
    """One history.

    Attributes:
        setting: what kind it is.
        seed: what it was drawn from.
        positions: the change points, ascending.
        levels: the log level of each commit.
        failing: the commits that cannot be built.
        states: the native state of each commit.
        costs: what each commit costs while the search has not built its native state; None:
            the setting's ``build_seconds``, all of them.
    """

    setting: Setting
    seed: int
    positions: tuple[int, ...]
    levels: Array
    failing: frozenset[int]
    states: npt.NDArray[np.intp]
    costs: Array | None = None


def draw(setting: Setting, seed: int) -> Drawn:
    """A history of this kind; change points are uniform among all positions but the first."""
    rng = np.random.default_rng([seed, 1])
    chosen = np.sort(rng.choice(np.arange(1, setting.size), len(setting.ratios), replace=False))
    levels = np.zeros(setting.size)
    for position, ratio in zip(chosen.tolist(), setting.ratios, strict=True):
        levels[position:] += math.log1p(ratio)
    failing: set[int] = set()
    while len(failing) < round(setting.unbuildable * setting.size):
        start = int(rng.integers(1, setting.size - 1))
        length = int(rng.geometric(1 / CLUSTER))
        failing.update(range(start, min(start + length, setting.size - 1)))
    states = np.zeros(setting.size, dtype=np.intp)
    at = 0
    while at < setting.size:
        at += 1 + int(rng.lognormal(math.log(NATIVE_MEDIAN - 0.5), NATIVE_SPREAD))
        states[at:] += 1
    return Drawn(setting, seed, tuple(chosen.tolist()), levels, frozenset(failing), states)


def draw_over(
    setting: Setting,
    seed: int,
    *,
    states: Sequence[int],
    costs: Sequence[float],
    weights: Sequence[float],
    failing: frozenset[int] = frozenset(),
) -> Drawn:
    """Steps in a history that is given, at places drawn by weight.

    ``setting`` gives the steps and the noise, and as ``python_seconds`` what a commit costs whose
    native state the search has built; ``states`` and ``costs`` are as in ``Drawn``.
    """
    rng = np.random.default_rng([seed, 1])
    chances = np.asarray(weights[1:], dtype=float)
    places = rng.choice(
        np.arange(1, setting.size), len(setting.ratios), replace=False, p=chances / chances.sum()
    )
    chosen = np.sort(places)
    levels = np.zeros(setting.size)
    for position, ratio in zip(chosen.tolist(), setting.ratios, strict=True):
        levels[position:] += math.log1p(ratio)
    return Drawn(
        setting,
        seed,
        tuple(chosen.tolist()),
        levels,
        failing,
        np.asarray(states, dtype=np.intp),
        np.asarray(costs, dtype=float),
    )


@dataclass
class World:
    """A history being searched: builds on demand, measures, and keeps the accounts.

    Attributes:
        drawn: the history.
        builds: attempts to build, failed ones included; what costs nothing is there already.
        natives: those of them whose native state the search had not built yet, and which cost
            more than one where it had.
        runs: runs measured.
        seconds: what both cost.
        failed: commits found to be unbuildable.
    """

    drawn: Drawn
    builds: int = 0
    natives: int = 0
    runs: int = 0
    seconds: float = 0.0
    failed: set[int] = field(default_factory=set)
    _streams: dict[tuple[int, int], Array] = field(default_factory=dict)
    _used: dict[tuple[int, int], int] = field(default_factory=dict)
    _states: set[int] = field(default_factory=set)
    _wander: float = 0.0

    def quotes(self) -> tuple[float, ...]:
        """What it would cost now to make each commit measurable."""
        setting = self.drawn.setting
        given = self.drawn.costs
        costs = np.full(setting.size, setting.build_seconds) if given is None else given.copy()
        if setting.python_seconds is not None:
            ready = np.isin(self.drawn.states, list(self._states))
            costs[ready] = np.minimum(costs[ready], setting.python_seconds)
        costs[[position for position, _ in self._used]] = 0.0
        return tuple(costs.tolist())

    def rebuild_quotes(self) -> tuple[float, ...]:
        """What it would cost to build each commit once more, from nothing; empty: cannot be."""
        setting = self.drawn.setting
        if not setting.fresh_builds:
            return ()
        return tuple(self._price(position) for position in range(setting.size))

    def _price(self, position: int) -> float:
        """What a build from nothing costs."""
        given = self.drawn.costs
        return self.drawn.setting.build_seconds if given is None else float(given[position])

    def measure(self, position: int, runs: int, build: int = 0) -> Array | None:
        """The log values of so many further runs; None when the commit cannot be built.

        ``build`` is which of its builds: 0 the usual one, 1 and on for those made once more.
        """
        setting = self.drawn.setting
        if (position, build) not in self._used:
            if position in self.failed:
                return None
            state = int(self.drawn.states[position])
            cost = self._price(position)
            python = cost if setting.python_seconds is None else min(cost, setting.python_seconds)
            is_native = (state not in self._states or build > 0) and cost > python
            cost = python if state in self._states and not build else cost
            self.builds += cost > 0
            self.natives += is_native
            self.seconds += cost
            if position in self.drawn.failing:
                self.failed.add(position)
                return None
            self._states.add(state)
            self._used[position, build] = 0
        start = self._used[position, build]
        self._used[position, build] += runs
        self.runs += runs
        self.seconds += runs * setting.run_seconds
        values = self._stream(position, build, start + runs)[start : start + runs].copy()
        if setting.drift:
            steps = np.random.default_rng([self.drawn.seed, 3, self.runs]).normal(
                0, setting.drift, runs
            )
            path = self._wander + np.cumsum(steps)
            self._wander = float(path[-1])
            values += path
        return values

    def _stream(self, position: int, build: int, length: int) -> Array:
        have = self._streams.get((position, build))
        if have is None or have.size < length:
            size = max(64, 2 * length)
            have = self._noise(position, build, size) + self.drawn.levels[position]
            self._streams[position, build] = have
        return have

    def _noise(self, position: int, build: int, size: int) -> Array:
        """The first ``size`` runs' noise; a longer stream begins with the shorter one."""
        setting = self.drawn.setting
        which = [position, build] if build else [position]
        rng = np.random.default_rng([self.drawn.seed, 2, *which])
        effect = setting.build_sigma * rng.standard_normal()
        if not setting.heavy:
            return effect + setting.sigma * rng.standard_normal(size)
        wild = np.random.default_rng([self.drawn.seed, 4, *which])
        tails = np.random.default_rng([self.drawn.seed, 5, *which]).chisquare(3, size)
        noise = 0.5 * setting.sigma * rng.standard_normal(size)
        noise /= np.sqrt(tails / 3)
        rare = wild.random((size, 2))
        slow: Array = effect + noise + (rare[:, 0] < 0.02) * 10 * setting.sigma * rare[:, 1]
        return slow


@dataclass(frozen=True)
class Trial:
    """What one search of one simulated history came to.

    Attributes:
        credible: the credible set of each culprit it named.
        verdict: its verdict.
        limit: its detection limit, relative.
        builds, runs, seconds: what it spent.
    """

    credible: tuple[tuple[int, ...], ...]
    verdict: Verdict
    limit: float
    builds: int
    runs: int
    seconds: float


def search(
    world: World,
    searcher: BayesSearcher,
    *,
    batch: int | Callable[[Evidence], int] = 1,
    weights: Sequence[float] | None = None,
    blind: bool = False,
    budget_seconds: float | None = None,
    one_build: bool = False,
    anchored: bool = False,
) -> Trial:
    """Let the searcher search this world to its verdict; the arguments are ``decisions``'."""
    asked = decisions(
        world,
        searcher,
        batch=batch,
        weights=weights,
        blind=blind,
        budget_seconds=budget_seconds,
        one_build=one_build,
        anchored=anchored,
    )
    for decision in asked:
        if decision.verdict is not None:
            return _trial(world, decision, decision.verdict)
    raise RuntimeError(f"no verdict after {MOST_DECISIONS} decisions")


def decisions(
    world: World,
    searcher: BayesSearcher,
    *,
    batch: int | Callable[[Evidence], int] = 1,
    weights: Sequence[float] | None = None,
    blind: bool = False,
    budget_seconds: float | None = None,
    one_build: bool = False,
    anchored: bool = False,
) -> Iterator[Decision]:
    """Each decision; its probes are made when the next is asked.

    With drift, every probe is measured beside the baseline, as blocks are, and freed of its
    wandering. ``blind`` hides the quotes: every new commit then seems to cost the same.
    ``anchored`` runs both ends beside every probe, as the bisection does. ``batch`` may follow
    from the evidence.
    """
    setting = world.drawn.setting
    size = setting.size
    values: dict[int, tuple[float, ...]] = {}
    builds: dict[int, tuple[int, ...]] = {}
    pairs: dict[tuple[int, int], tuple[float, ...]] = {}
    given = tuple(weights) if weights is not None else (1.0,) * size
    for _ in range(MOST_DECISIONS):
        quotes = world.quotes()
        if blind:
            quotes = tuple(10.0 if q > 0 else 0.0 for q in quotes)
        evidence = Evidence(
            size=size,
            weights=given,
            values=dict(values),
            failed=frozenset(world.failed),
            pairs=dict(pairs),
            one_build=one_build,
            build_seconds=quotes,
            run_seconds=setting.run_seconds,
            spent_seconds=world.seconds,
            budget_seconds=budget_seconds,
            builds={position: own for position, own in builds.items() if any(own)},
            rebuild_seconds=world.rebuild_quotes(),
        )
        decision = searcher.decide(evidence, batch if isinstance(batch, int) else batch(evidence))
        yield decision
        if decision.verdict is not None:
            return
        for probe in decision.probes:
            places = probe.positions
            if anchored and probe.purpose is not Purpose.CONFIRM:
                places += tuple(x for x in (0, size - 1) if x in values and x not in places)
            which = {x: evidence.build_to_run(x) for x in probe.positions}
            if probe.purpose is Purpose.REBUILD:
                which = {x: max(builds[x]) + 1 for x in probe.positions}
            fresh = _probe(world, places, probe.runs, which)
            for position, got in fresh.items():
                values[position] = (*values.get(position, ()), *got.tolist())
                own = (which.get(position, 0),) * got.size
                builds[position] = (*builds.get(position, ()), *own)
            if probe.purpose is Purpose.CONFIRM and len(fresh) == 2:
                left, right = probe.positions
                ratios = (fresh[right] - fresh[left]).tolist()
                pairs[left, right] = (*pairs.get((left, right), ()), *ratios)


def _probe(
    world: World, positions: tuple[int, ...], runs: int, builds: Mapping[int, int]
) -> dict[int, Array]:
    """Measure these commits in one block, each by the build named or else the usual one."""
    fresh: dict[int, Array] = {}
    if not world.drawn.setting.drift:
        for position in positions:
            got = world.measure(position, runs, builds.get(position, 0))
            if got is not None:
                fresh[position] = got
        return fresh
    rounds: dict[int, list[float]] = {}
    for _ in range(runs):
        anchor = world.measure(0, 1)
        base = float(anchor[0]) if anchor is not None else 0.0
        for position in positions:
            build = builds.get(position, 0)
            is_anchor = position == 0 and not build
            one = np.array([base]) if is_anchor else world.measure(position, 1, build)
            if one is not None:
                rounds.setdefault(position, []).append(float(one[0]) - base)
    return {position: np.array(got) for position, got in rounds.items()}


def _trial(world: World, decision: Decision, verdict: Verdict) -> Trial:
    return Trial(
        credible=tuple(step.credible for step in decision.steps),
        verdict=verdict,
        limit=decision.limit,
        builds=world.builds,
        runs=world.runs,
        seconds=world.seconds,
    )
