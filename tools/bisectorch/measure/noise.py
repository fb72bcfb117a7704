"""What the numbers are worth: levels of one block, runs freed of block effects, noise. Pure.

Everything here works on natural logarithms, in which a relative change is a difference.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bisectorch.model import Noise, Run

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
BuildName = TypeVar("BuildName", bound=Hashable)
"""What tells builds apart, as the caller likes."""

QUIET_BAND = (0.1, 0.5)
"""The part of a run's averaged samples, counted from the lowest, that makes its level.

Neighbours only add time, so the upper half is left out; the lowest tenth is too, because what the
kernel says was lost to others can be a little too much. Measured on null pairs of torch processes
on an idle and on a crowded core: no other band, quantile or paired median did better on both.
"""

HUBER_LIMIT = 2.0
"""Residuals beyond this many robust standard deviations lose weight."""

MOST_REWEIGHTINGS = 20

MAD_TO_SD = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


def paired_levels(samples: Array, *, averaged: bool) -> Array:
    """The log level of each build in one block; differences are the paired log ratios.

    Args:
        samples: log samples, cycles x builds, interleaved in time.
        averaged: each sample is the mean of several calls. Disturbance then nearly always adds,
            and comes to all builds of a block alike, so the level is the mean of each build's
            quiet samples (``QUIET_BAND``). Otherwise a sample is one call, whose own spread is
            the workload's, and the level is a two-way fit: the median over cycles after each
            cycle's own effect has been taken out.

    Returns:
        One level a build; their common height is that of the samples themselves.
    """
    cycles, builds = samples.shape
    if averaged:
        low, high = (round(share * cycles) for share in QUIET_BAND)
        quiet: Array = np.sort(samples, axis=0)[low : max(high, low + 1)].mean(axis=0)
        return quiet
    height = float(np.median(samples))
    if builds == 1:
        return np.array([height])
    effects = np.zeros(builds)
    residuals = samples - height
    for _ in range(20):  # median polish (Tukey, Exploratory Data Analysis, 1977)
        residuals = residuals - np.median(residuals, axis=1, keepdims=True)
        shift = np.median(residuals, axis=0)
        residuals = residuals - shift
        effects += shift
        if np.abs(shift).max() < 1e-9:
            break
    levels: Array = height + effects - effects.mean()
    return levels


def block_values(
    samples: Sequence[Sequence[float]], *, paired: bool, averaged: bool
) -> list[float]:
    """One value a build, from the samples each gave in one block.

    Args:
        samples: for each build its samples, in the metric's unit.
        paired: the builds' samples are equally many and were taken in turn; then the ratio of
            two values is the paired ratio. Otherwise, and for metrics that may be 0 or less,
            a value is the median of the build's samples.
        averaged: each sample is the mean of several calls; see ``paired_levels``.
    """
    if not samples or not paired or min(map(min, samples)) <= 0:
        return [float(np.median(own)) for own in samples]
    levels = paired_levels(np.log(np.asarray(samples, dtype=np.float64).T), averaged=averaged)
    return [math.exp(level) for level in levels]


def logs(values: Sequence[float]) -> Array:
    """Natural logarithms; a value of 0 or less counts as half of the smallest positive one.

    (As 1 when none is positive.) A metric that a benchmark tracks itself may reach zero; a
    change to or from it then is large, and finite.
    """
    array = np.asarray(values, dtype=np.float64)
    positive = array[array > 0]
    floor = 0.5 * float(positive.min()) if positive.size else 1.0
    result: Array = np.log(np.where(array > 0, array, floor))
    return result


def free_of_blocks(
    runs_by_build: Mapping[BuildName, Sequence[Run]],
) -> dict[BuildName, tuple[float, ...]]:
    """The log values of all runs of one workload, freed of the effects of their blocks.

    The model is additive, log value = build + block + noise, fitted by least squares with Huber
    weights (Huber, Robust Statistics, 1981), so a wild run moves neither its build nor its block.
    Block effects are taken to average zero over the runs of every set of blocks that shared
    builds link together; sets that nothing links keep their own heights. Fitting the blocks
    shrinks the residuals, so those of a linked set of N runs, C builds and B blocks are scaled
    by sqrt((N - C) / (N - C - B + 1)): about its builds, their spread then is the noise of one
    run. Runs outside any block, and runs alone in theirs, say nothing about a block and come
    back as plain logarithms.

    Returns:
        For each build its values, in the order of its runs.
    """
    builds = list(runs_by_build)
    owner = np.array([i for i, b in enumerate(builds) for _ in runs_by_build[b]], dtype=np.intp)
    runs = [run for build in builds for run in runs_by_build[build]]
    freed = logs([run.value for run in runs])
    names = [run.block for run in runs]
    sizes: dict[str, int] = {}
    for name in names:
        sizes[name] = sizes.get(name, 0) + 1
    index = {name: i for i, name in enumerate(n for n in sizes if n and sizes[n] > 1)}
    inside = np.array([i for i, name in enumerate(names) if name in index], dtype=np.intp)
    if inside.size:
        block = np.array([index[names[i]] for i in inside], dtype=np.intp)
        freed[inside] = _without_block_effects(freed[inside], owner[inside], block)
    result: dict[BuildName, tuple[float, ...]] = {}
    start = 0
    for build in builds:
        stop = start + len(runs_by_build[build])
        result[build] = tuple(freed[start:stop].tolist())
        start = stop
    return result


def _without_block_effects(y: Array, build: Indices, block: Indices) -> Array:
    build = np.unique(build, return_inverse=True)[1].astype(np.intp)
    n_builds, n_blocks = int(build.max()) + 1, int(block.max()) + 1
    linked_set = _linked_sets(build, block, n_builds, n_blocks)
    n_sets = int(linked_set.max()) + 1
    if n_builds <= n_blocks:
        fit = _TwoWayFit(build, block, n_builds, n_blocks, linked_set)
    else:
        fit = _TwoWayFit(block, build, n_blocks, n_builds, linked_set)
    freedom = max(1, len(y) - n_builds - n_blocks + n_sets)
    weights = np.ones_like(y)
    fitted = np.zeros_like(y)
    for _ in range(MOST_REWEIGHTINGS):
        before = fitted
        kept, eliminated = fit.effects(y, weights)
        fitted = kept[fit.kept] + eliminated[fit.eliminated]
        residuals = np.abs(y - fitted)
        scale = MAD_TO_SD * float(np.median(residuals)) * math.sqrt(len(y) / freedom)
        if np.abs(fitted - before).max() <= 0.01 * scale or scale <= 1e-12:
            break
        weights = np.minimum(1.0, HUBER_LIMIT * scale / np.maximum(residuals, 1e-300))
    build_effect, block_effect = (kept, eliminated) if n_builds <= n_blocks else (eliminated, kept)
    freed = np.empty_like(y)
    for number in range(n_sets):
        mine = linked_set == number
        spare = int(mine.sum()) - len(np.unique(build[mine]))
        left = spare - len(np.unique(block[mine])) + 1
        height = float(block_effect[block[mine]].mean())
        inflation = math.sqrt(spare / left) if left > 0 else 1.0  # none left: all residuals are 0
        freed[mine] = build_effect[build[mine]] + height + inflation * (y[mine] - fitted[mine])
    return freed


class _TwoWayFit:
    """Weighted least squares of two kinds of additive effects, one of them eliminated.

    The normal equations of both reduce to a dense system in the kept kind; it is summed up over
    pairs of runs that share an eliminated effect, of which there are few.
    """

    def __init__(
        self, kept: Indices, eliminated: Indices, n_kept: int, n_eliminated: int, sets: Indices
    ) -> None:
        self.kept, self.eliminated = kept, eliminated
        self._n_kept, self._n_eliminated = n_kept, n_eliminated
        order = np.argsort(eliminated, kind="stable")
        sizes = np.bincount(eliminated, minlength=n_eliminated)
        starts = np.cumsum(sizes) - sizes
        size_of_each = sizes[eliminated[order]]
        left = np.repeat(order, size_of_each)
        offset = np.arange(len(left)) - np.repeat(
            np.cumsum(size_of_each) - size_of_each, size_of_each
        )
        self._left = left
        self._right = order[np.repeat(starts[eliminated[order]], size_of_each) + offset]
        self._cell = kept[self._left] * n_kept + kept[self._right]
        set_of_kept = np.zeros(n_kept, dtype=np.intp)
        set_of_kept[kept] = sets
        self._same_set = set_of_kept[:, None] == set_of_kept[None, :]

    def effects(self, y: Array, weights: Array) -> tuple[Array, Array]:
        """The kept and the eliminated effects."""
        n, m = self._n_kept, self._n_eliminated
        sum_eliminated = np.bincount(self.eliminated, weights, m)
        mean_eliminated = np.bincount(self.eliminated, weights * y, m) / sum_eliminated
        left, right = self._left, self._right
        share = weights[left] * weights[right] / sum_eliminated[self.eliminated[left]]
        sum_kept = np.bincount(self.kept, weights, n)
        system = np.diag(sum_kept) - np.bincount(self._cell, share, n * n).reshape(n, n)
        # Each linked set leaves its common height free; holding the weighted sum of its kept
        # effects at zero settles it without touching the fit.
        system += np.where(self._same_set, np.outer(sum_kept, sum_kept), 0.0) / sum_kept.sum()
        centred = weights * (y - mean_eliminated[self.eliminated])
        kept: Array = np.linalg.solve(system, np.bincount(self.kept, centred, n))
        carried = np.bincount(self.eliminated, weights * kept[self.kept], m) / sum_eliminated
        eliminated: Array = mean_eliminated - carried
        return kept, eliminated


def _linked_sets(build: Indices, block: Indices, n_builds: int, n_blocks: int) -> Indices:
    """For each run the number of the linked set it belongs to, 0 upwards."""
    parent = list(range(n_builds + n_blocks))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for c, b in zip(build.tolist(), block.tolist(), strict=True):
        parent[root(c)] = root(n_builds + b)
    roots = [root(c) for c in build.tolist()]
    return np.unique(roots, return_inverse=True)[1].astype(np.intp)


MOST_HALVED = 2000
"""So many runs tell the noise within; a long session has many more, and each costs a while."""


def within_and_between(
    runs_by_build: Mapping[BuildName, Sequence[Run]],
    freed: Mapping[BuildName, Sequence[float]] | None = None,
) -> Noise:
    """Both noise levels of one workload, by the method of moments; zeros when nothing tells.

    Within: the level from a run's even samples against that from its odd ones; their squared
    difference over four estimates the variance of the level from all. Between: what the variance
    of runs about their build, free of blocks, has beyond it. ``freed`` are the values of
    ``free_of_blocks`` where they are known already.
    """
    sampled = [
        run
        for runs in runs_by_build.values()
        for run in runs
        if len(run.samples) >= 4 and min(run.samples) > 0
    ]
    halves = [
        _level(run.samples[::2], run.number) - _level(run.samples[1::2], run.number)
        for run in sampled[:: max(1, len(sampled) // MOST_HALVED)]
    ]
    within = _mean_square(halves) / 4.0
    deviations: list[float] = []
    freedom = 0
    for values in (free_of_blocks(runs_by_build) if freed is None else freed).values():
        if len(values) > 1:
            mean = math.fsum(values) / len(values)
            deviations += [value - mean for value in values]
            freedom += len(values) - 1
    total = math.fsum(d * d for d in deviations) / freedom if freedom else 0.0
    return Noise(math.sqrt(within), math.sqrt(max(0.0, total - within)))


def between_builds(
    runs_by_build: Mapping[BuildName, Sequence[Run]],
) -> tuple[tuple[float, ...], float]:
    """Several builds of one commit: each one's mean log value, and how far builds spread.

    The spread is the standard deviation of the means, less what the runs alone make of it (method
    of moments, as for a random effect in an analysis of variance); 0 where nothing is left.

    Args:
        runs_by_build: the runs of each build, measured in the same blocks.
    """
    freed = [values for values in free_of_blocks(runs_by_build).values() if values]
    means = tuple(math.fsum(values) / len(values) for values in freed)
    freedom = sum(len(values) - 1 for values in freed)
    if len(means) < 2:
        return means, 0.0
    centre = math.fsum(means) / len(means)
    of_means = math.fsum((mean - centre) ** 2 for mean in means) / (len(means) - 1)
    of_runs = 0.0
    if freedom:
        pairs = zip(freed, means, strict=True)
        of_runs = math.fsum((v - mean) ** 2 for values, mean in pairs for v in values) / freedom
    each = len(freed) / math.fsum(1 / len(values) for values in freed)
    return means, math.sqrt(max(0.0, of_means - of_runs / each))


def smallest_resolvable_step(
    noise: Noise, runs: int, *, confidence: float = 0.95, power: float = 0.9
) -> float:
    """The smallest relative step (0.03 for 3 %) that ``runs`` runs a side would show.

    For two means of normal logarithms: (z(1 - alpha/2) + z(power)) sd sqrt(2 / runs).
    """
    if runs < 1:
        raise ValueError("a step needs at least one run a side")
    normal = NormalDist()
    z = normal.inv_cdf(0.5 + confidence / 2.0) + normal.inv_cdf(power)
    return math.expm1(z * noise.run * math.sqrt(2.0 / runs))


def _level(samples: Sequence[float], number: int) -> float:
    column = np.log(np.asarray(samples, dtype=np.float64))[:, None]
    return float(paired_levels(column, averaged=number > 1)[0])


def _mean_square(values: Sequence[float]) -> float:
    return math.fsum(v * v for v in values) / len(values) if values else 0.0
