"""What cProfile adds to a call, as all processes of an explanation saw it together. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bisectorch.explain.profile import Overhead, Profile, Spot, middle
from bisectorch.model import SpentIn

Sides = tuple[Profile, Profile]

DEARER = tuple(0.6 + 0.025 * step for step in range(37))
"""How many times more a call's profiling may cost in the workload than it did when measured."""
SLOWED = tuple(0.025 * step for step in range(41))
"""What share of the slowness seen in a busy loop other Python code may suffer."""
DEARER_SPREAD = 0.2
LEVEL_SPREAD, STEP_SPREAD = 0.03, 0.01
"""By how much, relatively, profiled and plain calls of one process, and of two, differ anyway."""


@dataclass(frozen=True)
class Fit:
    """How the cost met in the workload differs from the one measured on functions by themselves.

    Attributes:
        dearer: the factor of what a call adds: more functions are looked up, or fewer.
        slowed: the share of a busy loop's slowness that is the workload's Python code's.
    """

    dearer: float = 1.0
    slowed: float = 1.0

    def of(self, measured: Overhead) -> Overhead:
        """The cost in the workload from the one measured."""
        return Overhead(
            python=(self.dearer * measured.python[0], self.dearer * measured.python[1]),
            builtin=(self.dearer * measured.builtin[0], self.dearer * measured.builtin[1]),
            method=(self.dearer * measured.method[0], self.dearer * measured.method[1]),
            slower=1 + self.slowed * (measured.slower - 1),
            methods=measured.methods,
        )


def pooled(pairs: Sequence[Sides]) -> list[Sides]:
    """The same with the profiler's cost as all processes saw it together.

    It is the interpreter's and the clock's, not the build's; measured in each process alone, its
    error would be taken for a difference of the builds.
    """
    groups: dict[tuple[str, bool], list[Overhead]] = defaultdict(list)
    for profile in (profile for pair in pairs for profile in pair):
        groups[_looked_by(profile)].append(profile.overhead)
    common = {key: typical(measured) for key, measured in groups.items()}
    alike = _costing(pairs, lambda profile: common[_looked_by(profile)])
    fit = fitted(alike)
    return _costing(alike, lambda profile: fit.of(profile.overhead))


def _costing(pairs: Sequence[Sides], cost: Callable[[Profile], Overhead]) -> list[Sides]:
    """The same, each profile with another cost of looking."""
    return [
        (replace(before, overhead=cost(before)), replace(after, overhead=cost(after)))
        for before, after in pairs
    ]


def typical(measured: Sequence[Overhead]) -> Overhead:
    """The median of each part."""

    def middles(costs: Sequence[tuple[float, float]]) -> tuple[float, float]:
        return middle([to_callee for to_callee, _ in costs]), middle([own for _, own in costs])

    return Overhead(
        middles([each.python for each in measured]),
        middles([each.builtin for each in measured]),
        middle([each.slower for each in measured]),
        middles([each.method for each in measured]),
        frozenset().union(*(each.methods for each in measured)),
    )


def fitted(pairs: Sequence[Sides]) -> Fit:
    """What makes the functions of each process add up to its call without a profiler.

    Both builds' levels, and above all the step between them, must come out: two conditions for
    two unknowns, each of which is held to what it can be. By least squares on a grid. Where
    autograd's own thread ran beside, nothing adds up, and the cost stays as measured.
    """
    pairs = [pair for pair in pairs if not any(p.engine_apart for p in pair)]
    pairs = [pair for pair in pairs if all(p.plain_seconds > 0 for p in pair)]
    if not pairs:
        return Fit()
    told = [(_Total(before), _Total(after)) for before, after in pairs]

    def misses(fit: Fit) -> float:
        missed = ((fit.dearer - 1) / DEARER_SPREAD) ** 2
        for sides in told:
            before, after = (total.excess(fit) for total in sides)
            missed += ((before + after) / (2 * LEVEL_SPREAD)) ** 2 / len(told)
            missed += ((after - before) / STEP_SPREAD) ** 2
        return missed

    return min((Fit(dearer, slowed) for dearer in DEARER for slowed in SLOWED), key=misses)


class _Total:
    """All that was seen in one process, as a sum for any fit."""

    def __init__(self, profile: Profile) -> None:
        own: dict[Spot, float] = defaultdict(float)
        cost: dict[Spot | None, float] = defaultdict(float)
        for (caller, callee), (calls, seconds) in profile.edges.items():
            to_callee, to_caller = profile.overhead.of(callee)
            own[callee] += seconds
            cost[callee] += calls * to_callee
            cost[caller] += calls * to_caller
        self._plain_seconds = profile.plain_seconds
        self._slower = profile.overhead.slower
        self._net: dict[float, tuple[float, float]] = {}
        for dearer in DEARER:
            sums = [0.0, 0.0]
            for spot, seconds in own.items():
                sums[spot.kind is SpentIn.PYTHON] += max(0.0, seconds - dearer * cost[spot])
            self._net[dearer] = sums[0], sums[1]

    def excess(self, fit: Fit) -> float:
        """By what share all functions come out longer than the call without a profiler."""
        compiled, python = self._net[fit.dearer]
        total = compiled + python / (1 + fit.slowed * (self._slower - 1))
        return total / self._plain_seconds - 1


def _looked_by(profile: Profile) -> tuple[str, bool]:
    """What the cost depends on: the interpreter, and which clock was read."""
    return profile.interpreter, profile.busy
