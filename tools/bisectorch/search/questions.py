"""What a measurement would tell: how the open questions divide the levels of a commit.

The open question of a commit is where the relevant steps of its stretch lie: to its left and to
its right, and there nowhere, in the gap beside it, or further off. Forward and backward passes
that carry these answers along give their joint masses with the commit's level, exactly, for a
measured commit and for one that might be measured inside a gap. What new runs would tell is the
mutual information (Lindley, Annals of Mathematical Statistics 27, 1956) of answer and mean,
summed over the levels with the noise of that mean.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bisectorch.search.likelihood import Array
from bisectorch.search.posterior import Beliefs, outside

ANSWERS = 3
"""On one side: no relevant step in the stretch, one further off, one in the gap beside."""
BINS_A_SIGMA = 4.0
LADDER = 4.0 ** np.arange(-3.0, 2.0)
RUNGS = np.log(LADDER)


class Questions:
    """The joint masses of answer and level, for measured commits and for new ones.

    Args:
        beliefs: what is known, over M measured commits and G levels.
        located: for each gap whether it surely holds a relevant step, shape (M-1,). Stretches
            between such gaps are asked about one by one.
    """

    def __init__(self, beliefs: Beliefs, located: npt.NDArray[np.bool_]) -> None:
        self.beliefs = beliefs
        self.chain = beliefs.chain
        self.located = located
        self.cuts = _bins(beliefs)
        centres = np.add.reduceat(beliefs.grid, self.cuts) / np.diff(
            [*self.cuts, len(beliefs.grid)]
        )
        self.squares = np.square(centres[:, None] - centres)
        self.before = self._forward()
        self.after = self._backward()

    def of_measured(self, chosen: npt.NDArray[np.intp]) -> Array:
        """Masses of answer and level bin for these measured commits, shape (n, 9, B)."""
        found = []
        for m in chosen.tolist():
            left, right = self.before[m], self.after[m]
            scale = (left.sum(axis=0) * right.sum(axis=0)).sum(axis=1)
            found.append(self._joined(left, right, scale).reshape(ANSWERS * ANSWERS, -1))
        masses = np.stack(found)
        normal: Array = masses / np.maximum(masses.sum(axis=(1, 2), keepdims=True), 1e-300)
        return normal

    def of_new(self, gap: int, shares: Array) -> Array:
        """The same for a commit with this share of the gap's weight before it, (shares, 9, B)."""
        chain = self.chain
        open_gap = bool(self.located[gap])
        source = self.before[gap]
        beyond = chain.likelihood[gap + 1] * self.after[gap + 1]
        if open_gap:
            # Inside a gap that surely holds a step, only its own sides are asked about.
            source, beyond = _forget(source), _forget(beyond)
        left, left_slope = self._across(source, forward=True)
        right, right_slope = self._across(beyond, forward=False)
        whole_gap = right + float(chain.chance[gap]) * right_slope
        scale = (left.sum(axis=0) * whole_gap.sum(axis=0)).sum(axis=1)
        tables = self._joined(
            np.concatenate((left, left_slope)), np.concatenate((right, right_slope)), scale
        )
        blocks = tables.reshape(2, ANSWERS, 2, ANSWERS, -1).transpose(0, 2, 1, 3, 4)
        plain, right_moved, left_moved, both = blocks.reshape(4, ANSWERS * ANSWERS, -1)
        whole = math.log1p(-min(float(chain.chance[gap]), 1 - 1e-12))
        ahead = -np.expm1(whole * shares)[:, None, None]
        behind = -np.expm1(whole * (1 - shares))[:, None, None]
        masses = plain + behind * right_moved + ahead * left_moved + ahead * behind * both
        masses = np.maximum(masses, 0.0)
        normal: Array = masses / np.maximum(masses.sum(axis=(1, 2), keepdims=True), 1e-300)
        return normal

    def gains(self, masses: Array) -> Array:
        """What the mean of new runs would tell, in nats, for each noise of the ``LADDER``.

        Args:
            masses: of answer and level bin, shape (n, answers, B).

        Returns:
            Shape (n, rungs); a rung is the variance of the mean, in run variances.
        """
        gains = np.empty((masses.shape[0], LADDER.size))
        prior = entropy(masses.sum(axis=2))
        for k, factor in enumerate(LADDER.tolist()):
            kernel = np.exp(-0.5 * self.squares / (factor * self.beliefs.sigma**2))
            kernel /= kernel.sum(axis=1, keepdims=True)
            seen = masses @ kernel
            whole = seen.sum(axis=1)
            inner = (seen * np.log(np.maximum(seen, 1e-300))).sum(axis=(1, 2))
            outer = (whole * np.log(np.maximum(whole, 1e-300))).sum(axis=1)
            gains[:, k] = np.clip(prior + inner - outer, 0.0, prior)
        return gains

    def _across(self, source: Array, *, forward: bool) -> tuple[Array, Array]:
        """Answers on the far side of a gap: a constant, and a slope in the gap's chance.

        Args:
            source: answers on the near side, shape (3, H, G).
            forward: towards later commits; backward messages meet the new level first.
        """
        slab = self.chain.slab
        stays = source[0], source[1] + source[2]
        fed = np.stack((*stays, source.sum(axis=0)))
        if not forward:
            fed = fed * slab
        lower, upper = outside(fed, self.chain.below, self.chain.above)
        far = lower + upper
        moved = np.stack(
            (fed[0].sum(-1, keepdims=True) - far[0], fed[1].sum(-1, keepdims=True) - far[1], far[2])
        )
        if forward:
            moved = moved * slab
        constant = np.stack((*stays, np.zeros_like(far[2])))
        return constant, moved - constant

    def _forward(self) -> Array:
        """Left answers and levels of the measured commits, shape (M, 3, H, G)."""
        chain = self.chain
        messages = np.zeros((chain.ahead.shape[0], ANSWERS, *chain.ahead.shape[1:]))
        messages[0, 0] = chain.ahead[0]
        for m in range(chain.chance.size):
            constant, slope = self._across(messages[m], forward=True)
            reached = (constant + chain.chance[m] * slope) * chain.likelihood[m + 1]
            if self.located[m]:
                reached = _forget(reached)
            total = reached.sum(axis=(0, 2))
            messages[m + 1] = reached / np.maximum(total, 1e-300)[:, None]
        return messages

    def _backward(self) -> Array:
        """Right answers given the levels of the measured commits, shape (M, 3, H, G)."""
        chain = self.chain
        messages = np.zeros((chain.ahead.shape[0], ANSWERS, *chain.ahead.shape[1:]))
        messages[-1, 0] = 1.0
        for m in reversed(range(chain.chance.size)):
            beyond = chain.likelihood[m + 1] * messages[m + 1]
            constant, slope = self._across(beyond, forward=False)
            reached = constant + chain.chance[m] * slope
            if self.located[m]:
                reached = _forget(reached)
            peak = reached.sum(axis=0).max(axis=-1)
            messages[m] = reached / np.maximum(peak, 1e-300)[:, None]
        return messages

    def _joined(self, left: Array, right: Array, scale: Array) -> Array:
        """Products of both sides' answers on each level bin, all hyperparameters summed.

        Args:
            left: shape (I, H, G).
            right: shape (J, H, G).
            scale: what each hyperparameter's masses come to before they are weighted, (H,).

        Returns:
            Shape (I, J, B).
        """
        weight = self.chain.weight / np.maximum(scale, 1e-300)
        joint = np.einsum("ihg,jhg->ijg", left * weight[None, :, None], right)
        binned: Array = np.add.reduceat(joint, self.cuts, axis=2)
        return binned


def entropy(masses: Array) -> Array:
    """Entropy in nats of each row, normalised."""
    p = masses / np.maximum(masses.sum(axis=-1, keepdims=True), 1e-300)
    result: Array = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=-1)
    return result


def read(gains: Array, variances: Array, unit: float) -> Array:
    """One row of gains at each noise variance, between the rungs of the ladder."""
    at = np.log(np.maximum(variances, 1e-300) / max(unit, 1e-300))
    # Beyond the ladder information falls as the inverse of the variance.
    beyond = np.exp(np.minimum(RUNGS[-1] - at, 0.0))
    between: Array = np.interp(at, RUNGS, gains) * beyond
    return between


def _forget(answers: Array) -> Array:
    """The same masses as a new stretch sees them: no step so far."""
    fresh = np.zeros_like(answers)
    fresh[0] = answers.sum(axis=0)
    return fresh


def _bins(beliefs: Beliefs) -> npt.NDArray[np.intp]:
    """Where bins of levels begin that a run cannot tell apart."""
    width = max(beliefs.sigma / BINS_A_SIGMA, beliefs.spacing)
    number = np.floor((beliefs.grid - beliefs.grid[0]) / width)
    return np.flatnonzero(np.concatenate(([True], np.diff(number) > 0)))
