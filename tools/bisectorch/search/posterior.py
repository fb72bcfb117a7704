"""Beliefs about the levels along a range: an exact Bayesian multiple change point model.

The logarithm of a run of commit ``i`` is ``level + build effect + noise``. Levels are piecewise
constant: candidate ``j`` begins a new level with a small prior probability proportional to its
weight, and a new level is drawn from one broad distribution. Build effects are normal, the
noise is Student t; both scales and the shape are unknown and are summed over a small grid laid
where the data put them. Given those, the levels form a hidden Markov chain over the *measured*
commits, whose transition is "stay, or draw anew": forward-backward over a grid of levels gives
exact marginals in time linear in the number of measured commits, whatever the range's length.

Sources: Fearnhead, "Exact and efficient Bayesian inference for multiple changepoint problems"
(Statistics and Computing 16, 2006) for the recursions; Rabiner (Proc. IEEE 77, 1989) for
forward-backward; Lange, Little and Taylor (JASA 84, 1989) for Student t as robust noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bisectorch.model import Evidence, Posterior
from bisectorch.search.likelihood import (
    Array,
    Data,
    build_deviations,
    centres,
    levels_about,
    likelihoods,
    new_level,
    scales_about,
    spread,
)

EXPECTED_STEPS = 0.25
LEAST_WEIGHT = 1e-9
NEGLIGIBLE = 2e-3


@dataclass(frozen=True)
class Chain:
    """The hidden Markov chain of levels, for each of H hyperparameters worth keeping.

    Attributes:
        weight: the hyperparameters' probabilities, shape (H,).
        slab: prior mass of a new level on each grid level, shape (G,).
        chance: for each gap the probability that a new level begins in it, shape (M-1,).
        likelihood: of each commit's runs given its level, shape (M, H, G).
        ahead: P(level | runs up to the commit), shape (M, H, G).
        behind: the likelihood of later runs given the level, up to a factor, shape (M, H, G).
        below: for each level how many levels lie relevantly below it, shape (G,).
        above: for each level the first one relevantly above it, shape (G,).
    """

    weight: Array
    slab: Array
    chance: Array
    likelihood: Array
    ahead: Array
    behind: Array
    below: npt.NDArray[np.intp]
    above: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Beliefs:
    """What the evidence says; M measured commits, M-1 gaps between them, G grid levels.

    A gap's candidates are the commits after its left measured commit up to its right one.
    "Relevant" means a jump of at least the smallest step; masses are joint probabilities.

    Attributes:
        data: the runs.
        grid: the levels considered, log, shape (G,).
        spacing: the distance of neighbouring grid levels.
        centres: each commit's robust mean: runs far off count for little, shape (M,).
        chain: the chain all this was read from.
        level: P(level of commit), shape (M, G).
        jump: for each gap the probability of any step, shape (M-1,).
        relevant: for each gap the probability of a relevant step, shape (M-1,).
        rising: for each gap the probability of a relevant step upwards, shape (M-1,).
        effect: for each gap the expected log ratio, given a step, shape (M-1,).
        effect_deviation: its standard deviation, shape (M-1,).
        sigma: the expected spread of a run, as a normal standard deviation.
        sigmas: the spreads of a run considered, shape (H,).
        build_deviations: the standard deviations of build effects beside them, shape (H,).
        masses: the probabilities of these pairs, shape (H,).
    """

    data: Data
    grid: Array
    spacing: float
    centres: Array
    chain: Chain
    level: Array
    jump: Array
    relevant: Array
    rising: Array
    effect: Array
    effect_deviation: Array
    sigma: float
    sigmas: Array
    build_deviations: Array
    masses: Array

    @property
    def build_variance(self) -> float:
        """The expected variance of build effects."""
        return float(self.masses @ np.square(self.build_deviations))

    @property
    def level_mean(self) -> Array:
        """The expected log level of each measured commit, shape (M,)."""
        mean: Array = self.level @ self.grid
        return mean

    @property
    def level_deviation(self) -> Array:
        """The standard deviation of each measured commit's log level, shape (M,)."""
        second: Array = self.level @ np.square(self.grid - self.grid[0])
        variance = second - np.square(self.level_mean - self.grid[0])
        deviation: Array = np.sqrt(np.maximum(variance, self.spacing**2 / 12))
        return deviation


def cumulative(weights: tuple[float, ...], size: int) -> Array:
    """Sums of the candidates' weights up to each position; the baseline's counts as nothing."""
    raw = np.asarray(weights, dtype=float) if len(weights) == size else np.ones(size)
    raw = np.where(np.isfinite(raw), np.clip(raw, LEAST_WEIGHT, 1.0), 1.0)
    if size:
        raw[0] = 0.0
    sums: Array = np.cumsum(raw)
    return sums


def believe(
    data: Data,
    weight_sums: Array,
    smallest: float,
    *,
    one_build: bool = False,
    build_sigma: float | None = None,
) -> Beliefs:
    """The posterior over the levels of at least one measured commit.

    Args:
        data: the runs of M >= 1 measured commits.
        weight_sums: ``cumulative`` of the candidates' weights.
        smallest: the smallest relevant step, as a log ratio.
        one_build: all commits share one native build, so there is no noise between builds.
        build_sigma: the standard deviation of build effects, where rebuilds have shown it.
    """
    guess, freedom = spread(data)
    builds = build_deviations(data, guess, one_build=one_build, build_sigma=build_sigma)
    scales, scale_prior = scales_about(guess, freedom)
    grid, spacing = levels_about(data, guess)
    slab = new_level(grid, spacing, data)
    likelihood, prior, hyper = likelihoods(data, grid, spacing, scales, scale_prior, builds)
    total = float(weight_sums[-1]) or 1.0
    shares = np.diff(weight_sums[data.positions]) / total
    chance = -np.expm1(-EXPECTED_STEPS * shares)

    ahead, evidence = _forward(likelihood, slab, chance)
    log_weight = np.log(prior) + evidence
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    kept = weight > NEGLIGIBLE
    weight, likelihood, ahead, hyper = (
        weight[kept] / weight[kept].sum(),
        likelihood[:, kept],
        ahead[:, kept],
        hyper[kept],
    )
    behind = _backward(likelihood, slab, chance)

    level = ahead * behind
    level *= (weight / level.sum(axis=2))[:, :, None]
    left = ahead[:-1]
    right = slab * likelihood[1:] * behind[1:]
    stay = (1 - chance)[:, None] * np.einsum("mhg,mhg->mh", left, likelihood[1:] * behind[1:])
    right_sum = right.sum(axis=2)
    jump = chance[:, None] * right_sum
    scale = weight * chance[:, None] / np.maximum(stay + jump, 1e-300)
    below = np.searchsorted(grid, grid - smallest, side="right")
    above = np.searchsorted(grid, grid + smallest, side="left")
    right_lower, right_upper = outside(right, below, above)
    rising = np.einsum("mh,mhg,mhg->m", scale, left, right_upper)
    falling = np.einsum("mh,mhg,mhg->m", scale, left, right_lower)
    effect, deviation = _effects(grid, left, right, scale * right_sum)
    sigma = float(weight @ (hyper[:, 0] * hyper[:, 1]))
    return Beliefs(
        data=data,
        grid=grid,
        spacing=spacing,
        centres=centres(data, sigma, float(weight @ np.square(hyper[:, 2]))),
        chain=Chain(weight, slab, chance, likelihood, ahead, behind, below, above),
        level=level.sum(axis=1),
        jump=(scale * right_sum).sum(axis=1),
        relevant=rising + falling,
        rising=rising,
        effect=effect,
        effect_deviation=deviation,
        sigma=sigma,
        sigmas=hyper[:, 0] * hyper[:, 1],
        build_deviations=hyper[:, 2],
        masses=weight,
    )


def summarise(beliefs: Beliefs | None, evidence: Evidence, weight_sums: Array) -> Posterior:
    """The beliefs along every position of the range, as the reports show them."""
    size = evidence.size
    change = np.zeros(size)
    level, low, high = (np.full(size, np.nan) for _ in range(3))
    if beliefs is None or beliefs.data.positions.size == 0:
        row = tuple(level.tolist())
        return Posterior(tuple(change.tolist()), row, row, row, float("nan"), 0.0)
    positions = beliefs.data.positions
    mean, deviation = beliefs.level_mean, beliefs.level_deviation
    first, last = int(positions[0]), int(positions[-1])
    inside = np.arange(first, last + 1)
    level[inside] = np.interp(weight_sums[inside], weight_sums[positions], mean)
    level[positions] = mean
    gap = np.clip(np.searchsorted(positions, inside, side="left"), 1, max(1, positions.size - 1))
    if positions.size > 1:
        span = np.diff(weight_sums[positions])
        own = np.diff(weight_sums, prepend=0.0)[inside]
        change[inside] = beliefs.relevant[gap - 1] * own / np.maximum(span[gap - 1], 1e-300)
        change[first] = 0.0
        lows, highs = mean - 1.96 * deviation, mean + 1.96 * deviation
        low[inside] = np.minimum(lows[gap - 1], lows[gap])
        high[inside] = np.maximum(highs[gap - 1], highs[gap])
    low[positions] = mean - 1.96 * deviation
    high[positions] = mean + 1.96 * deviation
    return Posterior(
        change=tuple(change.tolist()),
        level=tuple(level.tolist()),
        level_low=tuple(low.tolist()),
        level_high=tuple(high.tolist()),
        sigma=beliefs.sigma,
        expected_steps=float(beliefs.relevant.sum()),
    )


def _forward(likelihood: Array, slab: Array, chance: Array) -> tuple[Array, Array]:
    """P(level of commit | runs up to it), shape (M, H, G), and the log evidence (H,)."""
    ahead = np.empty_like(likelihood)
    evidence = np.zeros(likelihood.shape[1])
    current = slab * likelihood[0]
    for i in range(likelihood.shape[0]):
        if i:
            current = ((1 - chance[i - 1]) * ahead[i - 1] + chance[i - 1] * slab) * likelihood[i]
        total = np.maximum(current.sum(axis=1), 1e-300)
        evidence += np.log(total)
        ahead[i] = current / total[:, None]
    return ahead, evidence


def _backward(likelihood: Array, slab: Array, chance: Array) -> Array:
    """The likelihood of later runs given the level, up to a factor, shape (M, H, G)."""
    behind = np.ones_like(likelihood)
    for i in range(likelihood.shape[0] - 2, -1, -1):
        current = likelihood[i + 1] * behind[i + 1]
        current = (1 - chance[i]) * current + (chance[i] * (current @ slab))[:, None]
        behind[i] = current / np.maximum(current.max(axis=1), 1e-300)[:, None]
    return behind


def outside(
    mass: Array, below: npt.NDArray[np.intp], above: npt.NDArray[np.intp]
) -> tuple[Array, Array]:
    """For each level the mass relevantly below it and relevantly above it."""
    sums = np.zeros((*mass.shape[:-1], mass.shape[-1] + 1))
    np.cumsum(mass, axis=-1, out=sums[..., 1:])
    lower: Array = sums[..., below]
    upper: Array = sums[..., -1:] - sums[..., above]
    return lower, np.maximum(upper, 0.0)


def _effects(grid: Array, left: Array, right: Array, mass: Array) -> tuple[Array, Array]:
    """Mean and deviation of each gap's log ratio given a step, over all hyperparameters."""
    centred = grid - grid.mean()
    squared = np.square(centred)

    def moments(weights: Array) -> tuple[Array, Array]:
        total = np.maximum(weights.sum(axis=2), 1e-300)
        mean = weights @ centred / total
        return mean, weights @ squared / total - np.square(mean)

    left_mean, left_variance = moments(left)
    right_mean, right_variance = moments(right)
    share = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
    means = right_mean - left_mean
    mean = (share * means).sum(axis=1)
    second = (share * (left_variance + right_variance + np.square(means))).sum(axis=1)
    return mean, np.sqrt(np.maximum(second - np.square(mean), 0.0))
