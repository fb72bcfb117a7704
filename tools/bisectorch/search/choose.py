"""What to measure next: the largest expected gain of information for each second.

For a measured commit the question is whether a relevant step lies just before or just after it;
for a new commit inside a gap, on which side of it the gap's step lies. Both are questions about
a small discrete variable whose answer shifts the level of the commit, so the gain is the mutual
information between that variable and the mean of the new runs, taken exactly over the grid of
levels with the noise of that mean (Lindley, Annals of Mathematical Statistics 27, 1956).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bisectorch.model import Evidence, Purpose
from bisectorch.search.posterior import Array, Beliefs

RUNS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
LADDER = 4.0 ** np.arange(-4.0, 2.0)
RUNGS = np.log(LADDER)
PRUNED = 24
CONSIDERED = 256
UNIFORM_SHARE = 0.1
LEAST_GAIN = 1e-7


@dataclass(frozen=True)
class Option:
    """One thing that could be measured.

    Attributes:
        position: the commit.
        runs: how many runs of it are best.
        purpose: SEARCH for a new commit, REPEAT for a measured one.
        gain: the expected gain, in nats.
        seconds: what it costs.
    """

    position: int
    runs: int
    purpose: Purpose
    gain: float
    seconds: float

    @property
    def rate(self) -> float:
        """Nats a second."""
        return self.gain / self.seconds


def open_positions(evidence: Evidence, left: int, right: int) -> npt.NDArray[np.intp]:
    """The positions strictly between two measured ones that may still be measured."""
    inside = np.arange(left + 1, right, dtype=np.intp)
    broken = [x for x in evidence.failed if left < x < right]
    return np.setdiff1d(inside, np.asarray(broken, dtype=np.intp)) if broken else inside


def grid_targets(
    evidence: Evidence, weight_sums: Array, first: int, last: int, cells: int
) -> list[int]:
    """The starting grid: inner positions that cut the range's weight into equal cells."""
    span = float(weight_sums[last] - weight_sums[first])
    targets: list[int] = []
    for k in range(1, cells):
        goal = weight_sums[first] + span * k / cells
        x = int(np.searchsorted(weight_sums, goal, side="left"))
        targets.append(min(max(x, first + 1), last - 1))
    return sorted(set(targets)) if last - first > 1 else []


def missing_targets(
    evidence: Evidence, weight_sums: Array, first: int, last: int, cells: int
) -> list[int]:
    """Grid positions still to be measured: those with nothing measured or failing nearby.

    A target that failed is replaced by its nearest measurable neighbour within a quarter of a
    cell; where there is none its mass is left to the gap.
    """
    span = float(weight_sums[last] - weight_sums[first])
    reach = 0.25 * span / cells
    measured = np.array(sorted(evidence.values), dtype=np.intp)
    missing: list[int] = []
    for target in grid_targets(evidence, weight_sums, first, last, cells):
        here = float(weight_sums[target])
        if measured.size and float(np.abs(weight_sums[measured] - here).min()) <= reach:
            continue
        low = int(np.searchsorted(weight_sums, here - reach, side="left"))
        high = int(np.searchsorted(weight_sums, here + reach, side="right"))
        near = (
            [
                x
                for x in range(max(low, first + 1), min(high, last))
                if x not in evidence.failed and x not in evidence.values
            ]
            if target in evidence.failed
            else [target]
        )
        if near:
            missing.append(min(near, key=lambda x: (abs(x - target), x)))
    return sorted(set(missing))


class Chooser:
    """Ranks what could be measured next, given the beliefs."""

    def __init__(
        self,
        beliefs: Beliefs,
        evidence: Evidence,
        weight_sums: Array,
        *,
        most_runs: int,
        quiet: npt.NDArray[np.bool_],
        doubt: float,
    ) -> None:
        self.beliefs = beliefs
        self.evidence = evidence
        self.weight_sums = weight_sums
        self.most_runs = most_runs
        self.run_seconds = max(evidence.run_seconds, 1e-9)
        # A located gap is still to be cut, but whether it holds a step is no question any more.
        self.open = ~quiet
        self.quotes = np.asarray(evidence.build_seconds, dtype=float)
        self.asked = self.open & (beliefs.relevant < 1 - doubt)
        self.level_gains = self._level_gains()

    def best(self, batch: int) -> list[Option]:
        """At most ``batch`` options, best first, none made useless by those before it."""
        options = self._repeats() + self._splits(batch)
        options = [o for o in options if o.gain > LEAST_GAIN]
        options.sort(key=lambda o: (-o.rate, o.position))
        if not options:
            return []
        floor = 0.15 * options[0].rate
        return [o for o in options[:batch] if o.rate >= floor]

    def _build_seconds(self, positions: npt.NDArray[np.intp]) -> Array:
        if self.quotes.size != self.evidence.size:
            return np.zeros(positions.size)
        seconds: Array = np.maximum(self.quotes[positions], 0.0)
        return seconds

    def _thinned(self, places: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Of very many places some hundred evenly spaced ones, and as many of the cheapest."""
        if places.size <= 4 * CONSIDERED:
            return places
        even = np.linspace(0, places.size - 1, CONSIDERED).astype(np.intp)
        cheap = np.argpartition(self._build_seconds(places), CONSIDERED)[:CONSIDERED]
        kept: npt.NDArray[np.intp] = places[np.union1d(even, cheap)]
        return kept

    def _level_gains(self) -> Array:
        """What the level of each measured commit tells of steps, a column a noise in ``LADDER``."""
        b = self.beliefs
        masses = b.level
        # What is settled has nothing left to tell.
        inward = b.left_relevant * np.concatenate(([False], self.asked))[:, None]
        outward = b.right_relevant * np.concatenate((self.asked, [False]))[:, None]
        safe = np.maximum(masses, 1e-300)
        before = np.clip(inward / safe, 0, 1)
        after = np.clip(outward / safe, 0, 1)
        classes = np.stack(
            (
                masses * before * after,
                masses * before * (1 - after),
                masses * (1 - before) * after,
                masses * (1 - before) * (1 - after),
            ),
            axis=1,
        )
        bound = _entropy(classes.sum(axis=2))
        sources = np.sort(np.argsort(-bound, kind="stable")[:PRUNED])
        table = np.zeros((masses.shape[0], LADDER.size))
        table[sources] = self._gains(classes[sources])
        # Runs of one commit inform every commit on its level, as far as no step lies between.
        apart = np.concatenate(([0.0], np.cumsum(-np.log(np.maximum(1 - b.jump, 1e-12)))))
        shared = np.exp(-np.abs(apart[:, None] - apart[sources]))
        spread: Array = (shared[:, :, None] * table[sources]).max(axis=1)
        return spread

    def _repeats(self) -> list[Option]:
        b = self.beliefs
        counts = b.data.counts
        variance = b.sigma**2
        found = []
        for i in range(counts.size):
            n = int(counts[i])
            if n >= self.most_runs or self.level_gains[i].max() <= LEAST_GAIN:
                continue
            least = max(1, n // 4)
            runs = np.array(sorted({least, *[r for r in RUNS if r >= least]}))
            runs = np.minimum(runs, self.most_runs - n)
            known = 1 / (b.build_variance + variance / n)
            then = 1 / (b.build_variance + variance / (n + runs))
            gains = _read(self.level_gains[i], 1 / np.maximum(then - known, 1e-12), variance)
            seconds = runs * self.run_seconds
            best = int(np.argmax(gains / seconds))
            found.append(
                Option(
                    int(b.data.positions[i]),
                    int(runs[best]),
                    Purpose.REPEAT,
                    float(gains[best]),
                    float(seconds[best]),
                )
            )
        return found

    def _splits(self, batch: int) -> list[Option]:
        b = self.beliefs
        positions = b.data.positions
        order = np.argsort(-b.relevant, kind="stable")[:PRUNED].tolist()
        chosen = [
            g
            for g in order
            if positions[g + 1] - positions[g] > 1
            and len(open_positions(self.evidence, int(positions[g]), int(positions[g + 1])))
        ]
        if not chosen:
            return []
        before = 0.5 * b.left_relevant[1:][chosen]
        after = 0.5 * b.right_relevant[:-1][chosen]
        none = np.maximum(b.level[:-1][chosen] - b.right_relevant[:-1][chosen], 0.0)
        table = self._gains(np.stack((before, after, none), axis=1))
        table *= self.open[chosen][:, None]
        found = []
        for row, g in enumerate(chosen):
            cuts = self._cuts(g, table[row], batch)
            found.extend(cuts)
        return found

    def _cuts(self, g: int, gains: Array, batch: int) -> list[Option]:
        """Up to ``batch`` cuts of one gap, each counted against the cuts before it."""
        b = self.beliefs
        left, right = int(b.data.positions[g]), int(b.data.positions[g + 1])
        places = np.asarray(open_positions(self.evidence, left, right), dtype=np.intp)
        places = self._thinned(places)
        sums = self.weight_sums
        by_weight = (sums[places] - sums[left]) / max(float(sums[right] - sums[left]), 1e-300)
        by_number = (places - left) / (right - left)
        share = (1 - UNIFORM_SHARE) * by_weight + UNIFORM_SHARE * by_number
        builds = self._build_seconds(places)
        variance = b.sigma**2
        noise = b.build_variance + variance / np.asarray(RUNS)
        levels = _read(gains, noise, variance)
        # Where it does not cut the step's gap a new commit is one more build of its level.
        beside = (1 - float(b.jump[g])) * np.maximum(
            _read(self.level_gains[g], noise, variance),
            _read(self.level_gains[g + 1], noise, variance),
        )
        edges = [0.0, 1.0]
        cuts: list[Option] = []
        taken = np.zeros(places.size, dtype=bool)
        for _ in range(min(batch, places.size)):
            marks = np.asarray(edges)
            cell = np.clip(np.searchsorted(marks, share, side="left"), 1, marks.size - 1)
            low, high = marks[cell - 1], marks[cell]
            width = np.maximum(high - low, 1e-12)
            inner = np.clip((share - low) / width, 1e-9, 1 - 1e-9)
            split = width * (-(inner * np.log(inner) + (1 - inner) * np.log1p(-inner)) / np.log(2))
            split[taken] = 0.0
            cost = builds[:, None] + np.asarray(RUNS) * self.run_seconds
            rates = (split[:, None] * levels + beside * ~taken[:, None]) / cost
            at, r = divmod(int(np.argmax(rates)), len(RUNS))
            if taken[at]:
                break
            taken[at] = True
            cuts.append(
                Option(
                    int(places[at]),
                    # The build once made, further runs can follow when they are wanted.
                    max(1, RUNS[r] // 3),
                    Purpose.SEARCH,
                    float(split[at] * levels[r] + beside[r]),
                    float(cost[at, r]),
                )
            )
            edges = sorted({*edges, float(share[at])})
        return cuts

    def _gains(self, classes: Array) -> Array:
        """Mutual information of class and measured mean, a column a noise in ``LADDER``.

        Args:
            classes: joint masses of class and level, shape (rows, classes, G).
        """
        b = self.beliefs
        gains = np.empty((classes.shape[0], LADDER.size))
        prior = _entropy(classes.sum(axis=2))
        squares = np.square(b.grid[:, None] - b.grid)
        for k, factor in enumerate(LADDER.tolist()):
            kernel = np.exp(-0.5 * squares / max(factor * b.sigma**2, (0.3 * b.spacing) ** 2))
            kernel /= kernel.sum(axis=1, keepdims=True)
            seen = classes @ kernel
            whole = seen.sum(axis=1)
            inner = (seen * np.log(np.maximum(seen, 1e-300))).sum(axis=(1, 2))
            outer = (whole * np.log(np.maximum(whole, 1e-300))).sum(axis=1)
            gains[:, k] = np.clip(prior + inner - outer, 0.0, prior)
        return gains


def _entropy(masses: Array) -> Array:
    """Entropy in nats of each row, normalised."""
    p = masses / np.maximum(masses.sum(axis=-1, keepdims=True), 1e-300)
    entropy: Array = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=-1)
    return entropy


def _read(gains: Array, variances: Array, unit: float) -> Array:
    """The gain at each noise variance, between the rungs of the ladder."""
    at = np.log(np.maximum(variances, 1e-300) / max(unit, 1e-300))
    # Beyond the ladder information falls as the inverse of the variance.
    beyond = np.exp(np.minimum(RUNGS[-1] - at, 0.0))
    between: Array = np.interp(at, RUNGS, gains) * beyond
    return between
