"""From beliefs to verdicts: which steps stand, which are confirmed, and what would be seen.

A step is *located* when one gap holds a relevant step with the asked confidence, and *closed*
when nothing inside that gap can be measured any more; the gap's candidates are then its credible
set. It is *confirmed* by fresh rounds of the two builds on either side, which must speak for "the
step the model believes in" against "no step" under Student t noise, as in Wald's sequential test
(Annals of Mathematical Statistics 16, 1945), and leave the model convinced.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from bisectorch.model import Evidence, Step
from bisectorch.search.choose import open_positions, rebuild_quotes
from bisectorch.search.likelihood import Array
from bisectorch.search.posterior import Beliefs

PAIR_SHAPE = 5.0
FRESH_ODDS = 4.0
"""How much more likely the fresh rounds must be under the step than under none."""
PEEKS = 32.0
"""So many runs more would leave a limit its full doubt: it is looked at until it is low enough, and
with few runs that is soon reached by chance."""
BLUR = 0.25
"""Runs of a build have told all they can when their mean's variance is so small a share of that
of build effects."""
PLAIN_ODDS = 10.0
"""One fresh round is enough where it says so much; else there are at least two."""
LEAST_ROUNDS = 2
MOST_ROUNDS = 48


class Confirmation(enum.Enum):
    """What the fresh rounds of a step's two builds say."""

    WANTED = "wanted"
    AGREED = "agreed"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True)
class Located:
    """Neighbouring gaps, most often one, that hold a relevant step with the asked confidence.

    Attributes:
        gaps: their indices among the gaps of the beliefs, ascending.
        step: the step, as reported.
        closed: nothing inside the gaps can still be measured.
        confirmation: what its fresh rounds say; WANTED while it is not closed.
        rounds: how many further rounds to ask for.
    """

    gaps: tuple[int, ...]
    step: Step
    closed: bool
    confirmation: Confirmation
    rounds: int


@dataclass(frozen=True)
class Limit:
    """The smallest step that would have been seen.

    Attributes:
        log_ratio: its size: a lasting step at least this large, at a random place between the
            measured commits and beside the located steps, is excluded at the confidence.
        weak: the measured commits (indices) whose runs would lower it most, best first.
    """

    log_ratio: float
    weak: tuple[int, ...]


def locate(
    beliefs: Beliefs,
    evidence: Evidence,
    smallest: float,
    confidence: float,
    doubt: float,
    most_runs: int,
) -> list[Located]:
    """Every located step, largest effect first."""
    positions = beliefs.data.positions
    closed = np.array(
        [
            len(open_positions(evidence, int(left), int(right))) == 0
            for left, right in pairwise(positions)
        ],
        dtype=bool,
    )
    sure = beliefs.relevant >= 1 - doubt
    final = ~np.isfinite(rebuild_quotes(evidence, beliefs.data))
    blurred = _blurred(beliefs, closed & ~sure, final, smallest, doubt, most_runs)
    found = [
        _located(gaps, beliefs, evidence, confidence, bool(closed[gaps[0]]))
        for gaps in [*((g,) for g in np.flatnonzero(sure).tolist()), *blurred]
    ]
    found.sort(key=lambda item: (-abs(item.step.log_ratio), item.step.position))
    return found


def _located(
    gaps: tuple[int, ...], beliefs: Beliefs, evidence: Evidence, confidence: float, closed: bool
) -> Located:
    """The step that these neighbouring gaps hold."""
    left, right = (int(beliefs.data.positions[x]) for x in (gaps[0], gaps[-1] + 1))
    if len(gaps) == 1:
        effect, deviation = float(beliefs.effect[gaps[0]]), float(beliefs.effect_deviation[gaps[0]])
    else:
        ends = [gaps[0], gaps[-1] + 1]
        effect = float(np.diff(beliefs.level_mean[ends])[0])
        deviation = float(np.hypot(*beliefs.level_deviation[ends]))
    rounds = evidence.pairs.get((left, right), ())
    state, more = confirm(rounds, effect, beliefs.sigma)
    credible = tuple(range(left + 1, right + 1))
    weights = evidence.weights if len(evidence.weights) == evidence.size else None
    z = float(ndtri(0.5 + confidence / 2))
    step = Step(
        position=max(credible, key=lambda x: (weights[x] if weights else 1.0, x)),
        left=left,
        right=right,
        credible=credible,
        log_ratio=effect,
        log_low=effect - z * deviation,
        log_high=effect + z * deviation,
        probability=min(1.0, float(beliefs.relevant[list(gaps)].sum())),
        confirmed=closed and state is Confirmation.AGREED,
    )
    return Located(gaps, step, closed, state if closed else Confirmation.WANTED, more)


def _blurred(
    beliefs: Beliefs,
    closed: npt.NDArray[np.bool_],
    final: npt.NDArray[np.bool_],
    smallest: float,
    doubt: float,
    most_runs: int,
) -> list[tuple[int, ...]]:
    """Neighbouring gaps of which one holds a step, and no more runs or builds can tell which.

    The commits between them have been run until only their build effects count, and will not be
    built again.

    Args:
        beliefs: what the runs say of M commits.
        closed: for each gap whether it holds nothing to measure and no located step, (M-1,).
        final: for each commit whether it gets no more builds, shape (M,).
        smallest: the smallest relevant step, as a log ratio.
        doubt: the doubt allowed that there is a step.
        most_runs: no commit gets more runs.
    """
    data = beliefs.data
    fewest = data.build_counts[data.fewest]
    told = (beliefs.sigma**2 / fewest <= BLUR * beliefs.build_variance) | (data.counts >= most_runs)
    told &= final
    mean = beliefs.level_mean
    groups: list[tuple[int, ...]] = []
    start = 0
    while start < closed.size:
        stop = start
        while stop < closed.size and closed[stop] and (stop == start or told[stop]):
            stop += 1
        if stop - start > 1:
            groups += _narrowest(beliefs.relevant, mean, start, stop, smallest, doubt)
        start = max(stop, start + 1)
    return groups


def _narrowest(
    relevant: Array, mean: Array, start: int, stop: int, smallest: float, doubt: float
) -> list[tuple[int, ...]]:
    """The shortest stretch within these gaps that holds a step for sure, if any does."""
    for length in range(2, stop - start + 1):
        for first in range(start, stop - length + 1):
            inside = slice(first, first + length)
            moved = abs(float(mean[first + length] - mean[first]))
            if relevant[inside].sum() >= 1 - doubt and moved >= smallest:
                return [tuple(range(first, first + length))]
    return []


def confirm(rounds: tuple[float, ...], effect: float, sigma: float) -> tuple[Confirmation, int]:
    """Judge the paired log ratios of a step believed to be ``effect``; and how many more to ask.

    Args:
        rounds: log ratios of fresh runs of the two builds, child over parent.
        effect: the log ratio the model believes in.
        sigma: the standard deviation of one run.
    """
    clean = np.array([x for x in rounds if np.isfinite(x)], dtype=float)
    scale = 1.3 * sigma
    score = 0.0
    if clean.size:
        no_step = np.log1p(np.square(clean / scale) / PAIR_SHAPE)
        as_believed = np.log1p(np.square((clean - effect) / scale) / PAIR_SHAPE)
        score = float(0.5 * (PAIR_SHAPE + 1) * (no_step - as_believed).sum())
    missing = math.log(FRESH_ODDS) - score
    least = 1 if score >= math.log(PLAIN_ODDS) else LEAST_ROUNDS
    if len(rounds) >= least and missing <= 0 and float(np.median(clean)) * effect > 0:
        return Confirmation.AGREED, 0
    if len(rounds) >= MOST_ROUNDS:
        return Confirmation.EXHAUSTED, 0
    # A round brings about d^2/4 nats; ask for what is likely to settle it.
    each = max(0.25 * (effect / sigma) ** 2, 0.05) if sigma > 0 else 1e3
    likely = math.ceil(max(missing, 0.5) / each)
    plain = not rounds and each >= math.log(PLAIN_ODDS)
    more = 1 if plain else max(least - len(rounds), min(likely, max(LEAST_ROUNDS, len(rounds))), 1)
    return Confirmation.WANTED, min(more, MOST_ROUNDS - len(rounds))


def detection_limit(
    beliefs: Beliefs,
    located: list[Located],
    shares: Array,
    smallest: float,
    confidence: float,
    most_runs: int,
) -> Limit:
    """The smallest lasting step excluded at ``confidence`` beside the located ones.

    For every cut of every stretch between located steps the difference of the pooled levels of
    the two sides is known up to a normal error, in which both levels of noise count. The limit
    is the size that these differences reach with probability ``1 - confidence``, averaged over
    where the step may be and over the sizes of both noises; and never less than what the steps
    that may be there amount to.

    Args:
        beliefs: what the runs say.
        located: the steps already accounted for.
        shares: the weight of each gap's candidates.
        smallest: the smallest relevant step, as a log ratio.
        confidence: of the statement.
        most_runs: commits with so many runs are not named as weak.

    A mean's precision is the sum over a commit's builds, each with an effect of its own.
    """
    data = beliefs.data
    taken = np.zeros(data.positions.size - 1, dtype=bool)
    taken[[g for item in located for g in item.gaps]] = True
    group = np.concatenate(([0], np.cumsum(taken)))
    same = group[:, None] == group
    earlier = np.tri(taken.size, taken.size + 1, dtype=bool)
    left = same[:-1] & earlier
    right = same[:-1] & ~earlier
    mass = np.where(taken, 0.0, np.maximum(shares, 1e-12))
    if not mass.any():
        return Limit(0.0, ())
    mass /= mass.sum()
    runs = float(data.counts.sum())
    doubt = (1 - confidence) * runs / (runs + PEEKS)
    masses = beliefs.masses

    def errors(counts: Array) -> tuple[Array, Array]:
        own = data.of_commits(
            1
            / (
                np.square(beliefs.build_deviations)[:, None]
                + np.square(beliefs.sigmas)[:, None] / counts
            )
        )
        left_mass = np.maximum(own @ left.T, 1e-300)
        right_mass = np.maximum(own @ right.T, 1e-300)
        value = own * beliefs.centres
        difference = value @ left.T / left_mass - value @ right.T / right_mass
        return np.abs(difference), np.sqrt(1 / left_mass + 1 / right_mass)

    difference, deviation = errors(data.build_counts.astype(float))
    jump = np.where(taken, 0.0, beliefs.jump)
    spread = np.maximum(beliefs.effect_deviation, 1e-12)

    def missed(size: float) -> float:
        return float(masses @ ndtr((difference - size) / deviation) @ mass)

    def believed(size: float) -> float:
        return float(jump @ ndtr((np.abs(beliefs.effect) - size) / spread))

    low, high = 0.0, float((difference + 40 * deviation).max(initial=0.0, where=~taken))
    for _ in range(40):
        middle = 0.5 * (low + high)
        hidden_still = missed(middle) > doubt or believed(middle) > 1 - confidence
        low, high = (middle, high) if hidden_still else (low, middle)
    if high <= smallest:
        return Limit(high, ())
    # Each cut counts by what it still hides; a run is worth the variance it takes off.
    hidden = mass * (masses @ ndtr((difference - smallest) / deviation))
    worth = np.full(data.counts.size, -1.0)
    for i in np.flatnonzero(data.counts < most_runs).tolist():
        more = max(1, int(data.counts[i]) // 3)
        counts = data.build_counts.astype(float)
        counts[data.fewest[i]] += more
        saved = masses @ (np.square(deviation) - np.square(errors(counts)[1]))
        worth[i] = float(saved @ hidden) / more
    order = np.argsort(-worth, kind="stable").tolist()
    return Limit(high, tuple(i for i in order if worth[i] >= max(0.0, 0.3 * worth.max())))
