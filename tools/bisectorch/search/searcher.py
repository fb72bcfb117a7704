"""The search as the loop sees it: evidence in, the next probes or a verdict out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bisectorch.model import Decision, Evidence, Probe, Purpose, Verdict
from bisectorch.search.choose import (
    Chooser,
    Option,
    dear_of,
    idle_builders,
    missing_targets,
    open_positions,
)
from bisectorch.search.culprits import (
    MOST_ROUNDS,
    Confirmation,
    Limit,
    Located,
    detection_limit,
    locate,
)
from bisectorch.search.hidden import build_cost, gaps_of, hidden_pairs, standing_out
from bisectorch.search.likelihood import Array, gather
from bisectorch.search.posterior import Beliefs, believe, cumulative, summarise

MOST_RUNS = 200
EARLY = 0.5
SLACK = 4.0
CHEAP_BUILD_RUNS = 0.5
CELLS = 4
CHEAP_CELLS = 24


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
        cells: int | None = None,
        start_runs: int = 1,
        most_runs: int = MOST_RUNS,
    ) -> None:
        if not 0 < smallest_step < math.inf or not 0.5 <= confidence < 1:
            raise ValueError("smallest_step must be positive and confidence in [0.5, 1)")
        self.smallest_step = smallest_step
        self.smallest = math.log1p(smallest_step)
        self.confidence = confidence
        # Fresh rounds must then agree, which makes up for the doubt left when a step is located.
        self.doubt = SLACK * (1 - confidence)
        self.cells = cells
        self.start_runs = start_runs
        self.most_runs = most_runs

    def decide(self, evidence: Evidence, batch: int) -> Decision:
        """At most ``batch`` positions to probe next (a confirmation takes two), or a verdict."""
        batch = max(1, batch)
        evidence = _cleaned(evidence)
        sums = cumulative(evidence.weights, evidence.size)
        data = gather(evidence.values, evidence.builds)
        beliefs = (
            believe(
                data,
                sums,
                self.smallest,
                one_build=evidence.one_build,
                build_sigma=evidence.build_sigma,
            )
            if data.positions.size
            else None
        )
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
        located = (
            locate(beliefs, evidence, self.smallest, self.confidence, self.doubt, self.most_runs)
            if beliefs
            else []
        )
        limit = Limit(math.inf, ())
        if beliefs and data.positions.size > 1:
            shares = np.diff(sums[data.positions])
            limit = detection_limit(
                beliefs, located, shares, self.smallest, self.confidence, self.most_runs
            )
        spent = evidence.budget_seconds is not None and (
            evidence.spent_seconds >= evidence.budget_seconds
        )
        measured = set(data.positions.tolist())
        ends = [x for x in (first, last) if x not in measured]
        grid = missing_targets(evidence, sums, first, last, self._cells(evidence, batch))
        if ends and not spent:
            probes = [Probe(tuple(ends), self.start_runs, Purpose.ENDS)]
            idle = idle_builders(evidence, ends, batch)
            if idle and (dear := dear_of(evidence, grid)):
                probes.append(Probe(tuple(dear[:idle]), 1, Purpose.GRID))
            return self._go(evidence, sums, beliefs, located, limit, probes)
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
        quiet = self._quiet(beliefs, located)
        chooser = Chooser(
            beliefs,
            evidence,
            sums,
            most_runs=self.most_runs,
            quiet=quiet,
            located=gaps_of(located, beliefs),
        )
        if grid and not spent:
            probes = [Probe(tuple(grid[:batch]), 1, Purpose.GRID)]
            probes += _grouped(chooser.beside(probes[0].positions, batch))
            return self._go(evidence, sums, beliefs, located, limit, probes)
        settled = bool(quiet.all())
        wanted = [x for x in located if x.closed and x.confirmation is Confirmation.WANTED]
        done = settled and not wanted
        if done and not spent:
            odd = standing_out(beliefs)
            if odd:
                probes = [Probe(tuple(odd[:batch]), 1, Purpose.REPEAT)]
                return self._go(evidence, sums, beliefs, located, limit, probes)
        if done and located and not spent:
            probes = hidden_pairs(beliefs, evidence, sums, located, self.smallest, batch)
            if probes:
                return self._go(evidence, sums, beliefs, located, limit, probes)
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
            options = chooser.best(room)
            options += chooser.beside([option.position for option in options], batch)
            probes += self._as_confirmations(beliefs, evidence, options)
        if probes:
            return self._go(evidence, sums, beliefs, located, limit, probes)
        return self._conclude(
            evidence, sums, beliefs, located, limit, self._open_question(beliefs, located)
        )

    def _first(self, evidence: Evidence) -> int | None:
        return next((x for x in range(evidence.size) if x not in evidence.failed), None)

    def _last(self, evidence: Evidence) -> int | None:
        return next((x for x in reversed(range(evidence.size)) if x not in evidence.failed), None)

    def _cells(self, evidence: Evidence, batch: int) -> int:
        """How many cells the starting grid cuts the range into, one run for each commit of it.

        All commits of a level inform it, so where builds are cheaper than runs the runs are
        spread over many commits: what cancels between two of a coarser grid is then seen.
        """
        if self.cells is not None:
            return self.cells
        cheap = build_cost(evidence) <= CHEAP_BUILD_RUNS * evidence.run_seconds
        return CHEAP_CELLS if cheap else max(CELLS, batch + 1)

    def _quiet(self, beliefs: Beliefs, located: list[Located]) -> NDArray[np.bool_]:
        """For each gap: closed by a located step, or in a stretch that holds no other."""
        inside = gaps_of(located, beliefs)
        rest = np.where(inside, 0.0, beliefs.relevant)
        starts = np.flatnonzero(np.concatenate(([True], inside[1:])))
        # Where there are some there are more: a second and a third step lower the doubt allowed.
        quiet = np.add.reduceat(rest, starts) <= (1 - self.confidence) / max(1, len(located)) ** 2
        each: NDArray[np.bool_] = np.repeat(quiet, np.diff([*starts, rest.size]))
        for item in located:
            each[list(item.gaps)] = item.closed
        return each

    def _confirmations(self, wanted: Sequence[Located], batch: int) -> list[Probe]:
        return [
            Probe((item.step.left, item.step.right), item.rounds, Purpose.CONFIRM)
            for item in wanted[: max(1, batch // 2)]
        ]

    def _as_confirmations(
        self, beliefs: Beliefs, evidence: Evidence, options: list[Option]
    ) -> list[Probe]:
        """Repeats on either side of a closed, probable step are made as its fresh rounds."""
        positions = beliefs.data.positions
        sides: dict[int, tuple[int, int]] = {}
        for g in np.flatnonzero(beliefs.relevant >= EARLY).tolist():
            left, right = int(positions[g]), int(positions[g + 1])
            done = len(evidence.pairs.get((left, right), ()))
            if done < MOST_ROUNDS and not len(open_positions(evidence, left, right)):
                sides.setdefault(left, (left, right))
                sides.setdefault(right, (left, right))
        probes: list[Probe] = []
        kept = []
        used: set[int] = set()
        for option in options:
            pair = sides.get(option.position)
            if option.purpose is not Purpose.REPEAT or pair is None:
                kept.append(option)
            elif not used & set(pair):
                used |= set(pair)
                probes.append(Probe(pair, (option.runs + 1) // 2, Purpose.CONFIRM))
        kept = [o for o in kept if o.position not in used or o.purpose is Purpose.REBUILD]
        return probes + _grouped(kept)

    def _sharpen(self, beliefs: Beliefs, limit: Limit, room: int) -> list[Probe]:
        """More runs where they lower the detection limit most.

        Asked for in few large helpings: a limit that is looked at after each run is too low when
        it is low enough at last.
        """
        data = beliefs.data
        weak = limit.weak[: max(1, room)]
        if not weak:
            return []
        lacking = (limit.log_ratio / self.smallest) ** 2 - 1
        helping = min(1.0, lacking) * float(data.counts.sum()) / len(limit.weak)
        most = self.most_runs - max(int(data.counts[i]) for i in weak)
        runs = max(1, min(round(helping), most))
        return [Probe(tuple(int(data.positions[i]) for i in weak), runs, Purpose.REPEAT)]

    def _open_question(self, beliefs: Beliefs, located: list[Located]) -> str:
        inside = {g for item in located if item.closed for g in item.gaps}
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
    inside = {x: runs for x, runs in evidence.values.items() if 0 <= x < evidence.size}
    empty = frozenset(x for x, runs in inside.items() if not any(map(math.isfinite, runs)))
    values = {x: runs for x, runs in inside.items() if x not in empty}
    return replace(evidence, values=values, failed=(evidence.failed | empty) - values.keys())


def _relative(limit: Limit) -> float:
    return math.expm1(limit.log_ratio) if limit.log_ratio < 700 else math.inf


def _grouped(options: Sequence[Option]) -> list[Probe]:
    """Options as probes: those of one purpose share a probe and its number of runs."""
    probes = []
    for purpose in (Purpose.SEARCH, Purpose.REPEAT, Purpose.REBUILD):
        same = [o for o in options if o.purpose is purpose]
        if same:
            runs = int(np.ceil(np.mean([o.runs for o in same])))
            probes.append(Probe(tuple(o.position for o in same), runs, purpose))
    return probes
