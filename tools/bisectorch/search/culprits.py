"""From beliefs to verdicts: which steps stand, which are confirmed, and what would be seen.

A step is *located* when one gap holds a relevant step with the asked confidence, and *closed*
when nothing inside that gap can be measured any more; the gap's candidates are then its credible
set. It is *confirmed* by fresh rounds of the two builds on either side, judged by Wald's
sequential test (Annals of Mathematical Statistics 16, 1945) of "the step the model believes in"
against "no step" under Student t noise.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bisectorch.model import Evidence, Step
from bisectorch.search.choose import open_positions
from bisectorch.search.posterior import Beliefs

PAIR_SHAPE = 5.0
LEAST_ROUNDS = 3
MOST_ROUNDS = 48


class Confirmation(enum.Enum):
    """What the fresh rounds of a step's two builds say."""

    WANTED = "wanted"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
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
        log_ratio: its size; a lasting step at least this large, anywhere among the measured
            commits and beside the located steps, is excluded at the confidence.
        weak: the measured commits (indices) whose runs would lower it most, best first.
    """

    log_ratio: float
    weak: tuple[int, ...]


def locate(
    beliefs: Beliefs, evidence: Evidence, smallest: float, confidence: float
) -> list[Located]:
    """Every located step, largest effect first."""
    found = []
    z = float(ndtri(0.5 + confidence / 2))
    positions = beliefs.data.positions
    for g in np.flatnonzero(beliefs.relevant >= confidence).tolist():
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
    if len(rounds) >= LEAST_ROUNDS:
        if score >= bound and float(np.median(clean)) * effect > 0:
            return Confirmation.CONFIRMED, 0
        if score <= -bound:
            return Confirmation.REFUTED, 0
    if len(rounds) >= MOST_ROUNDS:
        return Confirmation.EXHAUSTED, 0
    # A round brings about d^2/2 nats; ask for what is likely to settle it.
    each = max(0.5 * (effect / (1.41 * sigma)) ** 2, 0.05) if sigma > 0 else 1e3
    likely = int(np.ceil(max(bound - score, 0.5) / each))
    more = max(LEAST_ROUNDS - len(rounds), min(likely, max(LEAST_ROUNDS, len(rounds))), 1)
    return Confirmation.WANTED, min(more, MOST_ROUNDS - len(rounds))


def detection_limit(beliefs: Beliefs, located: list[Located], confidence: float) -> Limit:
    """The smallest lasting step excluded at ``confidence`` beside the located ones.

    For every cut of every stretch between located steps: the upper confidence bound of the
    difference of the pooled levels on the two sides, both levels of noise counted.
    """
    data = beliefs.data
    z = float(ndtri(confidence))
    precision = 1 / (beliefs.build_variance + beliefs.sigma**2 / data.counts)
    edges = [0, *sorted(item.gap + 1 for item in located), data.positions.size]
    worst, weak = 0.0, (0, data.positions.size - 1)
    for start, stop in itertools.pairwise(edges):
        if stop - start < 2:
            continue
        own = precision[start:stop]
        mass = np.cumsum(own)
        total = np.cumsum(own * data.centres[start:stop])
        left, right = mass[:-1], mass[-1] - mass[:-1]
        difference = np.abs(total[:-1] / left - (total[-1] - total[:-1]) / right)
        bounds = difference + z * np.sqrt(1 / left + 1 / right)
        cut = int(np.argmax(bounds))
        if bounds[cut] > worst:
            worst = float(bounds[cut])
            sides = (range(start, start + cut + 1), range(start + cut + 1, stop))
            thin, thick = sides if left[cut] <= right[cut] else sides[::-1]
            weak = (
                min(thin, key=lambda i: int(data.counts[i])),
                min(thick, key=lambda i: int(data.counts[i])),
            )
    return Limit(worst, weak)
