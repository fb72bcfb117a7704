"""What to measure next: the largest expected gain of information for each second."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bisectorch.model import Evidence, Purpose
from bisectorch.search.likelihood import Array, Data
from bisectorch.search.posterior import Beliefs
from bisectorch.search.questions import Questions, entropy, read

RUNS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
ASKED = 16
"""How many measured commits, and how many gaps, are looked at: those that leave most open."""
KNOTS = np.linspace(0.0, 1.0, 5)
CONSIDERED = 256
UNIFORM_SHARE = 0.1
LEAST_GAIN = 1e-5
MOST_BUILDS = 8
"""So many builds of one commit have told what builds can tell."""
DEAR_RUNS = 10.0
"""A build that costs more runs than this is worth making while another is made anyway."""
RESERVED_RUNS = 5
"""What must be left of a budget beside a fresh build: a run of it and two rounds to confirm."""


@dataclass(frozen=True)
class Option:
    """One thing that could be measured.

    Attributes:
        position: the commit.
        runs: how many runs of it are best.
        purpose: SEARCH for a new commit, REPEAT for a measured one, REBUILD for a fresh build
            of a measured one.
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


def dear_of(evidence: Evidence, positions: Iterable[int]) -> list[int]:
    """Those of the positions of which a build would take long."""
    if len(evidence.build_seconds) != evidence.size:
        return []
    return [x for x in positions if evidence.build_seconds[x] > DEAR_RUNS * evidence.run_seconds]


def idle_builders(evidence: Evidence, positions: Iterable[int], builders: int) -> int:
    """How many builders would wait while these are built; none where nothing takes long."""
    dear = dear_of(evidence, positions)
    return max(0, builders - len(dear)) if dear else 0


def rebuild_quotes(evidence: Evidence, data: Data) -> Array:
    """What one more build of each measured commit would cost, in seconds, shape (M,).

    Infinite where it cannot be built again, where the budget would not pay for it, and where
    there are ``MOST_BUILDS`` already.
    """
    quotes = np.full(data.positions.size, np.inf)
    if len(evidence.rebuild_seconds) != evidence.size:
        return quotes
    quotes = np.asarray(evidence.rebuild_seconds, dtype=float)[data.positions]
    quotes[data.builds >= MOST_BUILDS] = np.inf
    if evidence.budget_seconds is not None:
        left = evidence.budget_seconds - evidence.spent_seconds
        quotes[quotes > left - RESERVED_RUNS * evidence.run_seconds] = np.inf
    return quotes


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
    """Ranks what could be measured next, given the beliefs.

    Args:
        beliefs: over M measured commits.
        evidence: what they were read from.
        weight_sums: sums of the candidates' weights.
        most_runs: never more runs than this of one commit.
        quiet: for each gap whether nothing in it is asked any more, shape (M-1,).
        located: for each gap whether it surely holds a relevant step, shape (M-1,).
    """

    def __init__(
        self,
        beliefs: Beliefs,
        evidence: Evidence,
        weight_sums: Array,
        *,
        most_runs: int,
        quiet: npt.NDArray[np.bool_],
        located: npt.NDArray[np.bool_],
    ) -> None:
        self.beliefs = beliefs
        self.evidence = evidence
        self.weight_sums = weight_sums
        self.most_runs = most_runs
        self.run_seconds = max(evidence.run_seconds, 1e-9)
        self.quiet = quiet
        self.located = located
        self.quotes = np.asarray(evidence.build_seconds, dtype=float)
        self.rebuild_quotes = rebuild_quotes(evidence, beliefs.data)
        self.questions = Questions(beliefs, located)

    def best(self, batch: int) -> list[Option]:
        """At most ``batch`` options, best first, none made useless by those before it."""
        options = self._again() + self._splits(batch)
        options = [o for o in options if o.gain > LEAST_GAIN]
        options.sort(key=lambda o: (-o.rate, o.position))
        if not options:
            return []
        # One fresh build at a time: what it tells may spare the next.
        fresh = [o for o in options if o.purpose is Purpose.REBUILD]
        options = [o for o in options if o not in fresh[1:]]
        floor = 0.15 * options[0].rate
        return [o for o in options[:batch] if o.rate >= floor]

    def beside(self, asked: Sequence[int], builders: int) -> list[Option]:
        """New commits for builders that would wait while those asked for are built.

        Only such as take long themselves: what builds at once loses nothing by being asked for
        later, when more is known. Not in a gap that is cut already.
        """
        idle = idle_builders(self.evidence, asked, builders)
        if not idle:
            return []
        positions = self.beliefs.data.positions
        new = sorted(set(asked) - set(positions.tolist()))
        cut = {int(g) for g in np.searchsorted(positions, new) - 1}
        options = [o for o in self._splits(idle, cut, dear_only=True) if o.gain > LEAST_GAIN]
        options.sort(key=lambda o: (-o.rate, o.position))
        return options[:idle]

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

    def _again(self) -> list[Option]:
        """More of measured commits whose stretch is still asked about: runs, or a fresh build."""
        b = self.beliefs
        counts = b.data.counts
        asked = ~self.quiet & ~self.located
        able = np.concatenate((asked, [False])) | np.concatenate(([False], asked))
        able &= (counts < self.most_runs) | np.isfinite(self.rebuild_quotes)
        chosen = np.flatnonzero(able)
        if not chosen.size:
            return []
        masses = self.questions.of_measured(chosen)
        kept = np.sort(np.argsort(-entropy(masses.sum(axis=2)), kind="stable")[:ASKED])
        chosen, gains = chosen[kept], self.questions.gains(masses[kept])
        found = []
        for i, row in zip(chosen.tolist(), gains, strict=True):
            options = [self._repeat(i, row)] if counts[i] < self.most_runs else []
            if np.isfinite(self.rebuild_quotes[i]):
                options.append(self._rebuild(i, row))
            found.append(max(options, key=lambda option: option.rate))
        return found

    def _repeat(self, i: int, row: Array) -> Option:
        """More runs of the build of commit ``i`` that has the fewest."""
        b = self.beliefs
        variance = b.sigma**2
        n = int(b.data.counts[i])
        fewest = int(b.data.build_counts[b.data.fewest[i]])
        least = max(1, n // 4)
        runs = np.array(sorted({least, *[r for r in RUNS if r >= least]}))
        runs = np.minimum(runs, self.most_runs - n)
        precision = 1 / (b.build_variance + variance / b.data.build_counts)
        known = float(b.data.of_commits(precision)[i])
        others = known - 1 / (b.build_variance + variance / fewest)
        then = others + 1 / (b.build_variance + variance / (fewest + runs))
        told = read(row, 1 / np.maximum(then - known, 1e-12), variance)
        seconds = runs * self.run_seconds
        best = int(np.argmax(told / seconds))
        return Option(
            int(b.data.positions[i]),
            int(runs[best]),
            Purpose.REPEAT,
            float(told[best]),
            float(seconds[best]),
        )

    def _rebuild(self, i: int, row: Array) -> Option:
        """One more build of commit ``i``: its level once more, with a build effect of its own."""
        b = self.beliefs
        runs = np.asarray(RUNS)
        told = read(row, b.build_variance + b.sigma**2 / runs, b.sigma**2)
        seconds = float(self.rebuild_quotes[i]) + runs * self.run_seconds
        best = int(np.argmax(told / seconds))
        return Option(
            int(b.data.positions[i]),
            # As with a new commit, further runs can follow.
            max(1, RUNS[best] // 3),
            Purpose.REBUILD,
            float(told[best]),
            float(seconds[best]),
        )

    def _splits(
        self, batch: int, but: Collection[int] = (), *, dear_only: bool = False
    ) -> list[Option]:
        """New commits inside the gaps that are still asked about, ``but`` for some of them."""
        b = self.beliefs
        positions = b.data.positions
        order = np.argsort(-b.relevant * ~self.quiet, kind="stable")[:ASKED].tolist()
        found = []
        for g in order:
            if self.quiet[g] or g in but or positions[g + 1] - positions[g] < 2:
                continue
            places = open_positions(self.evidence, int(positions[g]), int(positions[g + 1]))
            if dear_only:
                places = np.asarray(dear_of(self.evidence, places.tolist()), dtype=np.intp)
            if places.size:
                found.extend(self._cuts(g, self._thinned(places), batch))
        return found

    def _cuts(self, g: int, places: npt.NDArray[np.intp], batch: int) -> list[Option]:
        """Up to ``batch`` cuts of one gap, each counted against the cuts before it."""
        b = self.beliefs
        left, right = int(b.data.positions[g]), int(b.data.positions[g + 1])
        sums = self.weight_sums
        by_weight = (sums[places] - sums[left]) / max(float(sums[right] - sums[left]), 1e-300)
        by_number = (places - left) / (right - left)
        share = (1 - UNIFORM_SHARE) * by_weight + UNIFORM_SHARE * by_number
        noise = b.build_variance + b.sigma**2 / np.asarray(RUNS)
        rows = self.questions.gains(self.questions.of_new(g, KNOTS))
        table = np.stack([read(row, noise, b.sigma**2) for row in rows], axis=1)
        cost = self._build_seconds(places)[:, None] + np.asarray(RUNS) * self.run_seconds
        edges = [0.0, 1.0]
        cuts: list[Option] = []
        taken = np.zeros(places.size, dtype=bool)
        for _ in range(min(batch, places.size)):
            marks = np.asarray(edges)
            cell = np.clip(np.searchsorted(marks, share, side="left"), 1, marks.size - 1)
            low, high = marks[cell - 1], marks[cell]
            width = np.maximum(high - low, 1e-12)
            inner = np.clip((share - low) / width, 0.0, 1.0)
            told = np.stack([np.interp(inner, KNOTS, row) for row in table], axis=1)
            rates = told * (width * ~taken)[:, None] / cost
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
                    float(told[at, r] * width[at]),
                    float(cost[at, r]),
                )
            )
            edges = sorted({*edges, float(share[at])})
        return cuts
