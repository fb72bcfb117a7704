"""From beliefs to verdicts: which steps stand, which are confirmed, and what would be seen.

A step is *located* when one gap holds a relevant step with the asked confidence, and *closed*
when nothing inside that gap can be measured any more; the gap's candidates are then its credible
set. It is *confirmed* by fresh rounds of the two builds on either side, judged by Wald's
sequential test (Annals of Mathematical Statistics 16, 1945) of "the step the model believes in"
against "no step" under Student t noise.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from bisectorch.model import Evidence, Step
from bisectorch.search.choose import open_positions
from bisectorch.search.posterior import Array, Beliefs

PAIR_SHAPE = 5.0
LEAST_ROUNDS = 2
MOST_ROUNDS = 48


class Confirmation(enum.Enum):
    """What the fresh rounds of a step's two builds say."""

    WANTED = "wanted"
    CONFIRMED = "confirmed"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True)
class Located:
    """A gap that holds a relevant step with the asked confidence.

    Attributes:
        gap: its index among the gaps of the beliefs.
        step: the step, as reported.
        closed: nothing inside the gap can still be measured.
        confirmation: what its fresh rounds say; WANTED while it is not closed.
        rounds: how many further rounds to ask for.
    """

    gap: int
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
    beliefs: Beliefs, evidence: Evidence, smallest: float, confidence: float, doubt: float
) -> list[Located]:
    """Every located step, largest effect first."""
    found = []
    z = float(ndtri(0.5 + confidence / 2))
    positions = beliefs.data.positions
    for g in np.flatnonzero(beliefs.relevant >= 1 - doubt).tolist():
        left, right = int(positions[g]), int(positions[g + 1])
        closed = len(open_positions(evidence, left, right)) == 0
        effect, deviation = float(beliefs.effect[g]), float(beliefs.effect_deviation[g])
        rounds = evidence.pairs.get((left, right), ())
        state, more = confirm(rounds, effect, beliefs.sigma, confidence)
        credible = tuple(range(left + 1, right + 1))
        weights = evidence.weights if len(evidence.weights) == evidence.size else None
        best = max(credible, key=lambda x: (weights[x] if weights else 1.0, x))
        step = Step(
            position=best,
            left=left,
            right=right,
            credible=credible,
            log_ratio=effect,
            log_low=effect - z * deviation,
            log_high=effect + z * deviation,
            probability=min(1.0, float(beliefs.relevant[g])),
            confirmed=closed and state is Confirmation.CONFIRMED,
        )
        found.append(Located(g, step, closed, state if closed else Confirmation.WANTED, more))
    found.sort(key=lambda item: (-abs(item.step.log_ratio), item.step.position))
    return found


def confirm(
    rounds: tuple[float, ...], effect: float, sigma: float, confidence: float
) -> tuple[Confirmation, int]:
    """Judge the paired log ratios of a step believed to be ``effect``; and how many more to ask."""
    clean = np.array([x for x in rounds if np.isfinite(x)], dtype=float)
    scale = 1.3 * sigma
    bound = float(np.log(confidence / (1 - confidence)))
    score = 0.0
    if clean.size:
        no_step = np.log1p(np.square(clean / scale) / PAIR_SHAPE)
        as_believed = np.log1p(np.square((clean - effect) / scale) / PAIR_SHAPE)
        score = float(0.5 * (PAIR_SHAPE + 1) * (no_step - as_believed).sum())
    enough = len(rounds) >= LEAST_ROUNDS and score >= bound
    if enough and float(np.median(clean)) * effect > 0:
        return Confirmation.CONFIRMED, 0
    if len(rounds) >= MOST_ROUNDS:
        return Confirmation.EXHAUSTED, 0
    # A round brings about d^2/2 nats; ask for what is likely to settle it.
    each = max(0.5 * (effect / (1.41 * sigma)) ** 2, 0.05) if sigma > 0 else 1e3
    likely = int(np.ceil(max(bound - score, 0.5) / each))
    more = max(LEAST_ROUNDS - len(rounds), min(likely, max(LEAST_ROUNDS, len(rounds))), 1)
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
    where the step may be and over the build effects' size.

    Args:
        beliefs: what the runs say.
        located: the steps already accounted for.
        shares: the weight of each gap's candidates.
        smallest: the smallest relevant step, as a log ratio.
        confidence: of the statement.
        most_runs: commits with so many runs are not named as weak.
    """
    data = beliefs.data
    taken = np.zeros(data.positions.size - 1, dtype=bool)
    taken[[item.gap for item in located]] = True
    group = np.concatenate(([0], np.cumsum(taken)))
    same = group[:, None] == group
    earlier = np.tri(taken.size, taken.size + 1, dtype=bool)
    left = same[:-1] & earlier
    right = same[:-1] & ~earlier
    mass = np.where(taken, 0.0, np.maximum(shares, 1e-12))
    if not mass.any():
        return Limit(0.0, ())
    mass /= mass.sum()
    build = np.square(beliefs.build_deviations)[:, None]

    def errors(counts: Array) -> tuple[Array, Array]:
        own = 1 / (build + beliefs.sigma**2 / counts)
        left_mass = np.maximum(own @ left.T, 1e-300)
        right_mass = np.maximum(own @ right.T, 1e-300)
        value = own * beliefs.centres
        difference = value @ left.T / left_mass - value @ right.T / right_mass
        return np.abs(difference), np.sqrt(1 / left_mass + 1 / right_mass)

    difference, deviation = errors(data.counts.astype(float))

    def missed(size: float, spread: Array) -> float:
        return float(beliefs.build_masses @ ndtr((difference - size) / spread) @ mass)

    low, high = 0.0, float((difference + 40 * deviation).max(initial=0.0, where=~taken))
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if missed(middle, deviation) > 1 - confidence else (low, middle)
    if high <= smallest:
        return Limit(high, ())
    # Each cut counts by what it still hides; a run is worth the variance it takes off.
    hidden = mass * (beliefs.build_masses @ ndtr((difference - smallest) / deviation))
    worth = np.full(data.counts.size, -1.0)
    for i in np.flatnonzero(data.counts < most_runs).tolist():
        more = max(1, int(data.counts[i]) // 3)
        counts = data.counts.astype(float)
        counts[i] += more
        saved = beliefs.build_masses @ (np.square(deviation) - np.square(errors(counts)[1]))
        worth[i] = float(saved @ hidden) / more
    order = np.argsort(-worth, kind="stable").tolist()
    return Limit(high, tuple(i for i in order if worth[i] >= max(0.0, 0.3 * worth.max())))
