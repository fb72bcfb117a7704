"""How plausible each level of a commit is, given its runs and nothing else. Pure.

A run's logarithm is ``level + build effect + noise``: every build of a commit has an effect of its
own, which all of its runs share. Build effects are normal, the noise is Student t; both scales and
the shape are unknown, so likelihoods are given for a small grid of them, laid where the data put
it. A build's likelihood is that of its runs, spread by the effect's normal distribution; a commit's
is the product over its builds.

Source: Lange, Little and Taylor (JASA 84, 1989) for Student t as robust noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

LEVEL_SCALE = 0.25
USUAL_SIGMA = 0.015
LEAST_SIGMA = 1e-6
USUAL_BUILD = 0.01
SHAPES = ((4.0, 0.25), (40.0, 0.75))
ONE_BUILD = ((0.0, 1.0),)
BUILD_RATIOS = ((0.0, 0.92), (0.35, 0.04), (1.0, 0.03), (2.5, 0.01))
"""Deviations of build effects, in the smaller of the noise and the usual build effect, and how
plausible they are before a build has been repeated."""
REBUILT = ((0.6, 0.25), (1.0, 0.5), (1.6, 0.25))
"""The same where builds were repeated: in what was measured then."""
SIGMA_POINTS = 7
GRID_POINTS = 220
CHUNK = 8


@dataclass(frozen=True)
class Data:
    """The finite runs of M measured commits, by position, and of their B >= M builds.

    Attributes:
        positions: the measured positions, ascending, shape (M,).
        first_builds: where each commit's builds begin among the builds, shape (M,).
        build_counts: the number of runs of each build, shape (B,).
        build_starts: where each build's runs begin in ``runs``, shape (B,).
        runs: logarithms of all runs, build after build, each build's in ascending order.
        medians: of each build's runs, shape (B,).
    """

    positions: Indices
    first_builds: Indices
    build_counts: Indices
    build_starts: Indices
    runs: Array
    medians: Array

    @property
    def counts(self) -> Indices:
        """The number of runs of each commit, shape (M,)."""
        counts: Indices = np.add.reduceat(self.build_counts, self.first_builds)
        return counts

    @property
    def builds(self) -> Indices:
        """The number of builds of each commit, shape (M,)."""
        return np.diff(self.first_builds, append=self.build_counts.size).astype(np.intp)

    @property
    def fewest(self) -> Indices:
        """For each commit which of all builds is its one with the fewest runs, shape (M,)."""
        ends = [*self.first_builds[1:].tolist(), self.build_counts.size]
        return np.array(
            [
                first + int(np.argmin(self.build_counts[first:end]))
                for first, end in zip(self.first_builds.tolist(), ends, strict=True)
            ],
            dtype=np.intp,
        )

    def of_commits(self, each: Array) -> Array:
        """Sums over the builds of each commit; from shape (..., B) to (..., M)."""
        sums: Array = np.add.reduceat(each, self.first_builds, axis=-1)
        return sums


def gather(
    values: Mapping[int, tuple[float, ...]],
    builds: Mapping[int, tuple[int, ...]] | None = None,
) -> Data:
    """The finite runs of ``values``; positions without one are left out.

    Args:
        values: the logarithms of each position's runs.
        builds: as ``Evidence.builds``: for positions with several builds, each run's build.
    """
    positions: list[int] = []
    first_builds: list[int] = []
    kept: list[Array] = []
    for position in sorted(values):
        runs = np.asarray(values[position], dtype=float)
        sound = np.isfinite(runs)
        if not sound.any():
            continue
        positions.append(position)
        first_builds.append(len(kept))
        several = (builds or {}).get(position)
        if several is None:
            kept.append(np.sort(runs[sound]))
            continue
        owner = np.asarray(several, dtype=np.intp)
        kept += [np.sort(runs[sound & (owner == b)]) for b in np.unique(owner[sound])]
    counts = np.array([runs.size for runs in kept], dtype=np.intp)
    return Data(
        positions=np.array(positions, dtype=np.intp),
        first_builds=np.array(first_builds, dtype=np.intp),
        build_counts=counts,
        build_starts=(np.cumsum(counts) - counts).astype(np.intp),
        runs=np.concatenate(kept) if kept else np.zeros(0),
        medians=np.array([float(np.median(runs)) for runs in kept]),
    )


def centres(data: Data, sigma: float, build_variance: float) -> Array:
    """Each commit's robust mean, shape (M,): runs far off and builds of few runs count for less.

    Args:
        data: the runs.
        sigma: the standard deviation of one run.
        build_variance: the variance of build effects.
    """
    of_builds = _centres_of_builds(data, sigma)
    precision = 1 / np.maximum(build_variance + sigma**2 / data.build_counts, 1e-300)
    means = data.of_commits(precision * of_builds) / data.of_commits(precision)
    # A mean of one is that one, to the last digit.
    return np.where(data.builds > 1, means, of_builds[data.first_builds])


def _centres_of_builds(data: Data, sigma: float) -> Array:
    """One step from each build's median towards its mean, runs weighted by their distance."""
    z = (data.runs - np.repeat(data.medians, data.build_counts)) / max(3 * sigma, 1e-12)
    weights = 1 / (1 + np.square(z))
    total = np.add.reduceat(weights * data.runs, data.build_starts)
    centres: Array = total / np.add.reduceat(weights, data.build_starts)
    return centres


def build_deviations(
    data: Data, guess: float, *, one_build: bool, build_sigma: float | None
) -> tuple[tuple[float, float], ...]:
    """Candidate standard deviations of build effects, with their prior masses.

    Args:
        data: the runs.
        guess: of a run's standard deviation.
        one_build: all commits share one native build, so there is no noise between builds.
        build_sigma: the deviation that rebuilds have shown; None where there were none.
    """
    if one_build:
        return ONE_BUILD
    if build_sigma is not None:
        return tuple((build_sigma * ratio, mass) for ratio, mass in REBUILT)
    unit = max(min(guess, USUAL_BUILD), _between_builds(data, guess))
    return tuple((unit * ratio, mass) for ratio, mass in BUILD_RATIOS)


def _between_builds(data: Data, guess: float) -> float:
    """How far builds of one commit lie apart beyond their runs' noise, by moments; 0 at least."""
    freedom = data.build_counts.size - data.positions.size
    if not freedom:
        return 0.0
    means = np.add.reduceat(data.runs, data.build_starts) / data.build_counts
    middles = data.of_commits(means) / data.builds
    squares = np.square(means - np.repeat(middles, data.builds)).sum()
    share = np.repeat((data.builds - 1) / data.builds, data.builds)
    of_runs = guess**2 * (share / data.build_counts).sum()
    return math.sqrt(max(0.0, float(squares - of_runs) / freedom))


def spread(data: Data) -> tuple[float, float]:
    """A robust first guess of a run's standard deviation, and its degrees of freedom."""
    freedom = float((data.build_counts - 1).sum())
    if freedom < 1:
        return USUAL_SIGMA, 0.0
    counts = data.build_counts
    means = np.add.reduceat(data.runs, data.build_starts) / counts
    several = np.repeat(counts, counts) > 1
    stretch = np.repeat(np.sqrt(counts / np.maximum(counts - 1, 1)), counts)
    residuals = np.abs((data.runs - np.repeat(means, counts)) * stretch)[several]
    robust = float(np.median(residuals)) / 0.6745
    plain = float(np.sqrt(np.square(residuals).mean()))
    guess = min(plain, max(robust, plain / 3))
    # With little to go on the usual spread has a say, as two further degrees of freedom would.
    guess = (
        float(
            np.exp(
                (freedom * np.log(max(guess, LEAST_SIGMA)) + 2 * np.log(USUAL_SIGMA))
                / (freedom + 2)
            )
        )
        if freedom < 6
        else guess
    )
    return max(guess, LEAST_SIGMA), freedom


def scales_about(guess: float, freedom: float) -> tuple[Array, Array]:
    """Candidate noise scales around the guess, and their prior masses."""
    width = min(0.5, 1.0 / np.sqrt(2.0 * max(freedom, 2.0)))
    offsets = np.linspace(-2.7, 2.7, SIGMA_POINTS) * width
    scales: Array = guess * np.exp(offsets)
    prior = np.exp(-0.5 * np.square(np.log(scales / USUAL_SIGMA) / 1.5))
    prior = np.maximum(prior, 1e-12)
    return scales, prior / prior.sum()


def levels_about(data: Data, guess: float) -> tuple[Array, float]:
    """Levels that the runs make plausible, evenly spaced inside each stretch of them."""
    # With few runs the median may fall between a wild run and a good one: take every run then.
    few = data.build_counts <= 3
    each = np.repeat(few, data.build_counts)
    centres = np.concatenate((data.runs[each], data.medians[~few]))
    counts = np.concatenate(
        (np.repeat(data.build_counts, data.build_counts)[each], data.build_counts[~few])
    )
    reach = 4.5 * guess / np.sqrt(counts) + 1.5 * guess
    # Between builds of one commit that lie apart lies its level.
    split = data.builds > 1
    lows = np.minimum.reduceat(data.medians, data.first_builds)[split]
    highs = np.maximum.reduceat(data.medians, data.first_builds)[split]
    lows, highs = (
        np.concatenate((centres - reach, lows)),
        np.concatenate((centres + reach, highs)),
    )
    order = np.argsort(lows)
    lows, highs = lows[order], highs[order]
    stretches: list[list[float]] = []
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        if stretches and low <= stretches[-1][1]:
            stretches[-1][1] = max(stretches[-1][1], high)
        else:
            stretches.append([low, high])
    extent = sum(high - low for low, high in stretches)
    finest = 0.8 * guess / np.sqrt(float(data.runs.size))
    spacing = float(
        max(
            finest,
            extent / (GRID_POINTS - len(stretches))
            if 2 * len(stretches) < GRID_POINTS
            else extent / GRID_POINTS,
        )
    )
    pieces = []
    for low, high in stretches:
        points = max(2, int(np.ceil((high - low) / spacing)) + 1)
        pieces.append(0.5 * (low + high) + spacing * (np.arange(points) - 0.5 * (points - 1)))
    return np.concatenate(pieces), spacing


def new_level(grid: Array, spacing: float, data: Data) -> Array:
    """Prior mass of a new level: Student t with 3 degrees of freedom around the middle."""
    z = (grid - float(np.median(data.medians))) / LEVEL_SCALE
    density: Array = 0.36755259694786 / LEVEL_SCALE * np.square(1 / (1 + z * z / 3))
    return density * spacing


def likelihoods(
    data: Data,
    grid: Array,
    spacing: float,
    scales: Array,
    scale_prior: Array,
    builds: tuple[tuple[float, float], ...],
) -> tuple[Array, Array, Array]:
    """For each commit and hyperparameter the likelihood of each level, shape (M, H, G).

    Each build has an effect of its own, so a commit's is the product over its builds.

    Also the hyperparameters' prior masses (H,), and per row the scale, the factor that makes
    it a normal standard deviation, and the build effects' deviation, (H, 3). A commit's
    likelihoods are divided by one factor common to all hyperparameters.
    """
    squares = np.square(data.runs[:, None] - grid)
    piece_starts, build_starts = _pieces(data.build_counts)
    logs = []
    prior = []
    hyper = []
    for shape, shape_prior in SHAPES:
        constant = _log_t_constant(shape)
        for scale, mass in zip(scales.tolist(), scale_prior.tolist(), strict=True):
            factors = squares * (1.0 / (shape * scale * scale))
            np.minimum(factors, 1e30, out=factors)
            factors += 1.0
            product = np.log(np.multiply.reduceat(factors, piece_starts, axis=0))
            total = np.add.reduceat(product, build_starts, axis=0)
            total *= -0.5 * (shape + 1)
            total += (data.build_counts * (constant - np.log(scale)))[:, None]
            logs.append(total)
            prior.append(shape_prior * mass)
            hyper.append((scale, 1.0 + 0.35 / shape))
    table = np.stack(logs, axis=1)
    table -= table.max(axis=(1, 2), keepdims=True)
    plain = np.exp(np.maximum(table, -700.0))
    blocks = []
    for tau, _ in builds:
        if tau <= 0.0:
            blocks.append(_of_commits(data, plain))
            continue
        kernel = np.exp(-0.5 * np.square((grid[:, None] - grid) / tau))
        kernel *= spacing / (tau * 2.5066282746310002)
        kernel /= np.maximum(kernel.sum(axis=1, keepdims=True), 1.0)
        blocks.append(_of_commits(data, plain @ kernel))
    likelihood = np.concatenate(blocks, axis=1)
    # Builds that lie apart leave little of a product.
    split = data.builds > 1
    peaks = likelihood[split].max(axis=(1, 2), keepdims=True)
    likelihood[split] /= np.maximum(peaks, 1e-300)
    shapes = np.asarray(hyper)
    rows = [np.column_stack((shapes, np.full(len(shapes), tau))) for tau, _ in builds]
    masses = np.concatenate([np.asarray(prior) * mass for _, mass in builds])
    return likelihood, masses / masses.sum(), np.concatenate(rows)


def _of_commits(data: Data, of_builds: Array) -> Array:
    """Likelihoods of commits from those of their builds, (B, H, G) to (M, H, G)."""
    product: Array = np.multiply.reduceat(of_builds, data.first_builds, axis=0)
    return product


def _pieces(counts: Indices) -> tuple[Indices, Indices]:
    """Cut each build's runs into pieces whose product cannot overflow."""
    starts: list[int] = []
    builds: list[int] = []
    at = 0
    for count in counts.tolist():
        builds.append(len(starts))
        starts.extend(range(at, at + count, CHUNK))
        at += count
    return np.asarray(starts, dtype=np.intp), np.asarray(builds, dtype=np.intp)


def _log_t_constant(shape: float) -> float:
    """The logarithm of the density of a standard Student t at 0."""
    return math.lgamma((shape + 1) / 2) - math.lgamma(shape / 2) - 0.5 * math.log(shape * math.pi)
