"""The search as the loop sees it: evidence in, the next probes or a verdict out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bisectorch.model import Decision, Evidence, Probe, Purpose, Verdict
from bisectorch.search.choose import Chooser, Option, missing_targets
from bisectorch.search.culprits import (
    Confirmation,
    Limit,
    Located,
    detection_limit,
    locate,
)
from bisectorch.search.posterior import Array, Beliefs, believe, cumulative, gather, summarise

MOST_RUNS = 200


class BayesSearcher:
    """Exact Bayesian change point search, pooled over levels and aware of cost.

    Stateless: a decision follows from the evidence alone.

    Args:
        smallest_step: the smallest relevant step, relative (0.03 for 3 %).
        confidence: of every statement it makes.
        cells: how many cells of equal weight the starting grid cuts the range into.
        start_runs: how many runs each end and each grid commit gets at first.
        most_runs: never more runs than this of one commit, confirmations aside.
    """

    def __init__(
        self,
        smallest_step: float = 0.03,
        confidence: float = 0.95,
        *,
        cells: int = 8,
        start_runs: int = 3,
        most_runs: int = MOST_RUNS,
    ) -> None:
        if not 0 < smallest_step < math.inf or not 0.5 <= confidence < 1:
            raise ValueError("smallest_step must be positive and confidence in [0.5, 1)")
        self.smallest_step = smallest_step
        self.smallest = math.log1p(smallest_step)
        self.confidence = confidence
        self.cells = cells
        self.start_runs = start_runs
        self.most_runs = most_runs

    def decide(self, evidence: Evidence, batch: int) -> Decision:
        """At most ``batch`` positions to probe next (a confirmation takes two), or a verdict."""
        batch = max(1, batch)
        evidence = _cleaned(evidence)
        sums = cumulative(evidence.weights, evidence.size)
        data = gather(evidence.values)
        beliefs = believe(data, sums, self.smallest) if data.positions.size else None
        usable = [x for x in (self._first(evidence), self._last(evidence)) if x is not None]
        if len(set(usable)) < 2:
            return self._end(
                evidence,
                sums,
                beliefs,
                [],
                Limit(math.inf, ()),
                Verdict.INCONCLUSIVE,
                "fewer than two commits of the range can be measured",
            )
        first, last = usable
        located = locate(beliefs, evidence, self.smallest, self.confidence) if beliefs else []
        limit = (
            detection_limit(beliefs, located, self.confidence)
            if beliefs and data.positions.size > 1
            else Limit(math.inf, ())
        )
        spent = evidence.budget_seconds is not None and (
            evidence.spent_seconds >= evidence.budget_seconds
        )
        measured = set(data.positions.tolist())
        ends = [x for x in (first, last) if x not in measured]
        if ends and not spent:
            return self._go(
                evidence,
                sums,
                beliefs,
                located,
                limit,
                [Probe(tuple(ends), self.start_runs, Purpose.ENDS)],
            )
        cells, grid_runs = self._grid(evidence, first, last)
        grid = missing_targets(evidence, sums, first, last, cells)
        if grid and not spent:
            return self._go(
                evidence,
                sums,
                beliefs,
                located,
                limit,
                [Probe(tuple(grid[:batch]), grid_runs, Purpose.GRID)],
            )
        if beliefs is None or ends:
            return self._end(
                evidence,
                sums,
                beliefs,
                located,
                limit,
                Verdict.INCONCLUSIVE,
                "the budget ended before both ends were measured",
            )
        settled = self._settled(beliefs, located)
        wanted = [x for x in located if x.closed and x.confirmation is Confirmation.WANTED]
        done = settled and not wanted
        if done and located:
            return self._conclude(evidence, sums, beliefs, located, limit, "")
        if done and limit.log_ratio <= self.smallest:
            return self._end(evidence, sums, beliefs, located, limit, Verdict.NO_CHANGE, "")
        if spent:
            return self._end(
                evidence,
                sums,
                beliefs,
                located,
                limit,
                Verdict.INCONCLUSIVE,
                "a larger budget: " + self._open_question(beliefs, located),
            )
        probes = self._confirmations(wanted, batch)
        room = batch - sum(len(p.positions) for p in probes)
        if done:
            probes += self._sharpen(beliefs, limit, room)
        elif room > 0 and not settled:
            options = Chooser(beliefs, evidence, sums, most_runs=self.most_runs).best(room)
            probes += _grouped(options)
        if probes:
            return self._go(evidence, sums, beliefs, located, limit, probes)
        return self._conclude(
            evidence, sums, beliefs, located, limit, self._open_question(beliefs, located)
        )

    def _first(self, evidence: Evidence) -> int | None:
        return next((x for x in range(evidence.size) if x not in evidence.failed), None)

    def _last(self, evidence: Evidence) -> int | None:
        return next((x for x in reversed(range(evidence.size)) if x not in evidence.failed), None)

    def _grid(self, evidence: Evidence, first: int, last: int) -> tuple[int, int]:
        """The cells of the starting grid, and the runs of each of its commits.

        All commits of a level inform it, so where builds are cheaper than runs the same runs
        are spread over more commits: what cancels between two of them is then seen.
        """
        quotes = sorted(x for x in evidence.build_seconds[first + 1 : last] if x > 0)
        if quotes and quotes[len(quotes) // 2] < 0.5 * evidence.run_seconds:
            return self.cells * self.start_runs, 1
        return self.cells, self.start_runs

    def _settled(self, beliefs: Beliefs, located: list[Located]) -> bool:
        """Every step is closed, and what is left over is less than the confidence allows."""
        inside = {item.gap for item in located}
        rest = sum(p for g, p in enumerate(beliefs.relevant.tolist()) if g not in inside)
        allowed = (1 - self.confidence) * (1 + len(located))
        return rest <= allowed and all(item.closed for item in located)

    def _confirmations(self, wanted: Sequence[Located], batch: int) -> list[Probe]:
        return [
            Probe((item.step.left, item.step.right), item.rounds, Purpose.CONFIRM)
            for item in wanted[: max(1, batch // 2)]
        ]

    def _sharpen(self, beliefs: Beliefs, limit: Limit, room: int) -> list[Probe]:
        """More runs where they lower the detection limit most."""
        data = beliefs.data
        weak = [i for i in limit.weak if data.counts[i] < self.most_runs][: max(1, room)]
        if not weak:
            return []
        least = min(int(data.counts[i]) for i in weak)
        runs = min(max(1, least // 3), self.most_runs - max(int(data.counts[i]) for i in weak))
        return [Probe(tuple(int(data.positions[i]) for i in weak), runs, Purpose.REPEAT)]

    def _open_question(self, beliefs: Beliefs, located: list[Located]) -> str:
        inside = {item.gap for item in located if item.closed}
        rest = [(p, g) for g, p in enumerate(beliefs.relevant.tolist()) if g not in inside]
        if not rest:
            return "fresh rounds of the unconfirmed steps"
        p, g = max(rest)
        left, right = (int(x) for x in beliefs.data.positions[g : g + 2])
        return (
            f"more runs around positions {left} to {right}, where a relevant step is "
            f"{p:.0%} probable (one run spreads by {math.expm1(beliefs.sigma):.1%})"
        )

    def _conclude(
        self,
        evidence: Evidence,
        sums: Array,
        beliefs: Beliefs,
        located: list[Located],
        limit: Limit,
        needed: str,
    ) -> Decision:
        """The search has nothing more to ask: culprits if any is confirmed."""
        verdict = Verdict.INCONCLUSIVE
        if any(item.step.confirmed for item in located):
            verdict = Verdict.CULPRITS
        elif not needed:
            needed = "a step is seen in the pooled runs but fresh rounds do not confirm it"
        return self._end(evidence, sums, beliefs, located, limit, verdict, needed)

    def _end(
        self,
        evidence: Evidence,
        sums: Array,
        beliefs: Beliefs | None,
        located: list[Located],
        limit: Limit,
        verdict: Verdict,
        needed: str,
    ) -> Decision:
        steps = tuple(item.step for item in located if item.step.confirmed)
        return Decision(
            (), steps, verdict, _relative(limit), summarise(beliefs, evidence, sums), needed
        )

    def _go(
        self,
        evidence: Evidence,
        sums: Array,
        beliefs: Beliefs | None,
        located: list[Located],
        limit: Limit,
        probes: list[Probe],
    ) -> Decision:
        steps = tuple(item.step for item in located)
        return Decision(
            tuple(probes), steps, None, _relative(limit), summarise(beliefs, evidence, sums)
        )


def _cleaned(evidence: Evidence) -> Evidence:
    """The evidence without what cannot be used: a commit without a finite run has failed."""
    values = {
        x: tuple(y for y in runs if math.isfinite(y))
        for x, runs in evidence.values.items()
        if 0 <= x < evidence.size
    }
    empty = frozenset(x for x, runs in values.items() if not runs)
    values = {x: runs for x, runs in values.items() if runs}
    return replace(evidence, values=values, failed=(evidence.failed | empty) - values.keys())


def _relative(limit: Limit) -> float:
    return math.expm1(limit.log_ratio) if limit.log_ratio < 700 else math.inf


def _grouped(options: Sequence[Option]) -> list[Probe]:
    """Options as probes: those of one purpose share a probe and its number of runs."""
    probes = []
    for purpose in (Purpose.SEARCH, Purpose.REPEAT):
        same = [o for o in options if o.purpose is purpose]
        if same:
            runs = int(np.ceil(np.mean([o.runs for o in same])))
            probes.append(Probe(tuple(o.position for o in same), runs, purpose))
    return probes
