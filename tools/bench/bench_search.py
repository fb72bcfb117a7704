"""``make bench-search``: the search and its peers on the same simulated histories.

    python tools/bench/bench_search.py [--trials N] [--quick] [--no-docs] [--jobs N]

Prints every strategy on every case with standard errors, then a row a bar (figure, bar, ok or
SHORT); exits 1 when a bar is missed. Writes build/bench/search.json, docs/search-bench.md and
docs/figures/search.svg.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.pool import Pool
from pathlib import Path

import matplotlib
import numpy as np
import peers
from bisectorch.model import Evidence, Verdict
from bisectorch.search import BayesSearcher
from bisectorch.search.simulate import Setting, Trial, World, draw, search
from rows import BUILD, Rows
from threadpoolctl import threadpool_limits

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[2] / "docs"
SMALLEST = 0.03
FIRST_SEED = 4_000_000
"""No seed from here on was looked at while the search was made."""
BUILD_SECONDS, RUN_SECONDS = 15.0, 2.0
PEER_TRIALS = 100

Figures = dict[str, float]

READING = (
    "How to read the rows beside peers: `found minus false` is recall less the false culprits a",
    "range, and runs are compared with those of the best peer that is as right on that case",
    "alone. Peers are told what a user does not know: git-bayesect the threshold half way between",
    "the two levels and that there is one culprit, Pinpoint the magnitude.",
    "",
    "One step of 20 %: told the threshold, answers that are right with probability 0.966 carry",
    "0.785 bits each, so that one of 512 commits takes (log2 512 + log2 100) / 0.785 = 19.9 runs",
    "to be known to 99 %; git-bayesect is there, and nothing that is told as much, and only passes",
    "and fails, can do with fewer. This search is told no threshold, level, noise or number;",
    "three and more of its runs are the confirmation by fresh blocks, which git-bayesect does not",
    "make.",
    "",
    "Nothing changed: a peer that stops after its first runs is as right as one can be, and says",
    "nothing about what it would have missed. This search measures on until it can say that a step",
    "of 3 % is excluded. A test of fixed size that excludes one at 95 % in nine of ten null ranges",
    "takes 4 ((1.645 + 1.282) sigma / ln 1.03)^2 runs: 16, 98 and 392 at 2, 5 and 10 %, with the",
    "noise known. That is the figure to hold the runs of these rows against; with Pinpoint's 40",
    "and 82 runs such a test excludes 3 % in 59 and 38 of a hundred ranges.",
    "",
    "Calibration: sets hold a truth more often than the 95 % they promise, because every one is",
    "confirmed before it is named, and most are then a single commit.",
)


@dataclass(frozen=True)
class Case:
    """A kind of history, and the bars for it."""

    name: str
    setting: Setting
    bars: tuple[tuple[str, float], ...] = ()


@dataclass
class Score:
    """What one strategy came to on one case; each figure is a mean with its standard error."""

    case: str
    strategy: str
    trials: int
    exact: float
    recall: float
    false: float
    builds: float
    runs: float
    seconds: float
    cpu: float
    errors: dict[str, float]


def setting_of(ratios: tuple[float, ...], sigma: float, **more: float) -> Setting:
    """A history of the table, at its prices."""
    return Setting(
        ratios=ratios,
        sigma=sigma,
        build_seconds=BUILD_SECONDS,
        run_seconds=RUN_SECONDS,
        **more,  # type: ignore[arg-type]
    )


def cases() -> list[Case]:
    """The cases of the table."""
    three, pair = (0.2, 0.1, 0.1), (0.2, 0.1, -0.1)
    five = (0.15, -0.1, 0.2, -0.15, 0.1)
    return [
        Case(
            "one step 20 %, sigma 5 %",
            setting_of((0.2,), 0.05),
            (("exact", 0.98), ("builds", 13), ("runs", 25)),
        ),
        Case(
            "one step 5 %, sigma 5 %",
            setting_of((0.05,), 0.05),
            (("exact", 0.95), ("builds", 15), ("runs", 200)),
        ),
        Case(
            "one step 5 %, sigma 2 %",
            setting_of((0.05,), 0.02),
            (("exact", 0.98), ("builds", 13), ("runs", 40)),
        ),
        Case(
            "+20 +10 +10 %, sigma 5 %",
            setting_of(three, 0.05),
            (("recall", 0.96), ("false", 0.02), ("builds", 28), ("runs", 120)),
        ),
        Case(
            "+20 +10 -10 %, sigma 2 %",
            setting_of(pair, 0.02),
            (("recall", 0.95), ("false", 0.02), ("builds", 30), ("runs", 110)),
        ),
        Case(
            "five alternating, sigma 2 %",
            setting_of(five, 0.02),
            (("recall", 0.88), ("false", 0.02), ("builds", 42)),
        ),
        *(
            Case(
                f"nothing changed, sigma {100 * s:.0f} %",
                setting_of((), s),
                (("false", 0.01), ("runs", r)),
            )
            for s, r in ((0.02, 30), (0.05, 110), (0.1, 350))
        ),
        Case(
            "+20 +10 +10 %, sigma 2 % and 2 % between builds",
            setting_of(three, 0.02, build_sigma=0.02),
            (("recall", 0.88), ("false", 0.05), ("builds", 60)),
        ),
        Case(
            "+20 +10 +10 %, the same, fresh builds",
            setting_of(three, 0.02, build_sigma=0.02, fresh_builds=True),
            (("exact", 0.95), ("recall", 0.95), ("false", 0.02), ("builds", 60)),
        ),
        Case(
            "one step 20 %, sigma 5 %, 20 % unbuildable",
            setting_of((0.2,), 0.05, unbuildable=0.2),
            (("recall", 0.95),),
        ),
    ]


def strategies(case: Case) -> dict[str, Callable[[World], Trial | list[int]]]:
    """Ours and every peer; Pinpoint is told the magnitude and git-bayesect the threshold."""
    ratios = case.setting.ratios
    size = min((abs(r) for r in ratios), default=0.05)
    total = sum(math.log1p(r) for r in ratios) or math.log1p(0.05)
    return {
        "bisectorch": lambda world: search(world, BayesSearcher(SMALLEST)),
        "oracle": peers.oracle,
        "asv find": peers.asv_find,
        "TorchBench": peers.torchbench,
        "Pinpoint": lambda world: peers.pinpoint(world, size),
        "git-bayesect": lambda world: peers.git_bayesect(world, total / 2),
    }


def play(task: tuple[int, str, int]) -> tuple[Figures, list[bool]]:
    """One trial of (case, strategy, seed): its figures, and for each culprit if it is true."""
    index, strategy, seed = task
    case = cases()[index]
    world = World(draw(case.setting, seed))
    began = time.process_time()
    came = strategies(case)[strategy](world)
    cpu = time.process_time() - began
    named = came.credible if isinstance(came, Trial) else tuple((x,) for x in came)
    truth = world.drawn.positions
    hits = [any(t in c for c in named) for t in truth]
    good = [any(t in c for t in truth) for c in named]
    figures = {
        "exact": float(all(hits) and all(good)),
        "recall": float(np.mean(hits)) if hits else 1.0,
        "false": float(len(good) - sum(good)),
        "builds": float(world.builds),
        "runs": float(world.runs),
        "seconds": world.seconds,
        "cpu": cpu,
    }
    return figures, good


def score(index: int, strategy: str, trials: int, pool: Pool) -> tuple[Score, list[bool]]:
    """Run one strategy on the first ``trials`` seeds; also for each culprit if its set is true."""
    tasks = [(index, strategy, FIRST_SEED + k) for k in range(trials)]
    came = pool.map(play, tasks, chunksize=1)
    names = list(came[0][0])
    table = np.array([[figures[name] for name in names] for figures, _ in came])
    means = dict(zip(names, table.mean(axis=0).tolist(), strict=True))
    spreads = table.std(axis=0) / math.sqrt(trials)
    errors = dict(zip(names, spreads.tolist(), strict=True))
    sets = [ok for _, good in came for ok in good]
    return Score(cases()[index].name, strategy, trials, **means, errors=errors), sets


def small_step(seed: int) -> tuple[bool, bool]:
    """A history with one small step: whether "no change" was said, and with a limit below it."""
    ratio = (0.035, 0.04, 0.05)[seed % 3]
    setting = setting_of((ratio,), (0.02, 0.05)[seed % 2])
    trial = search(World(draw(setting, FIRST_SEED + seed)), BayesSearcher(SMALLEST))
    said = trial.verdict is Verdict.NO_CHANGE
    return said, said and trial.limit < ratio


def priced(task: tuple[int, bool]) -> tuple[float, bool, int]:
    """One history of native and Python-only commits: cost, right, and its native states."""
    seed, blind = task
    setting = Setting(
        ratios=(0.2,), sigma=0.02, build_seconds=300.0, python_seconds=0.2, run_seconds=2.0
    )
    world = World(draw(setting, FIRST_SEED + seed))
    trial = search(world, BayesSearcher(SMALLEST), blind=blind)
    right = all(any(t in c for c in trial.credible) for t in world.drawn.positions)
    return world.seconds, right, len(set(world.drawn.states.tolist()))


def limit_is_true(trials: int, rows: Rows, pool: Pool) -> None:
    """Histories with one small step: how often "no change" is said with a limit below it."""
    came = pool.map(small_step, range(trials), chunksize=1)
    rows.note("steps of 3.5 to 5 %: no change said", f"{sum(said for said, _ in came)}/{trials}")
    wrong = sum(wrong for _, wrong in came) / trials
    rows.add("steps of 3.5 to 5 %: limit below the step", wrong, 0.05, at_least=False)


def cost_aware(trials: int, rows: Rows, pool: Pool) -> None:
    """Native and Python-only commits in a real-shaped mix, with and without the quotes.

    No search can do with fewer native builds than both ends and a binary search of the states.
    """
    came = {
        blind: pool.map(priced, [(seed, blind) for seed in range(trials)], chunksize=1)
        for blind in (False, True)
    }
    cost = {blind: float(np.mean([c for c, _, _ in each])) for blind, each in came.items()}
    right = {blind: float(np.mean([r for _, r, _ in each])) for blind, each in came.items()}
    least = float(np.mean([300 * (2 + math.log2(n)) for _, _, n in came[False]]))
    rows.note("quotes: exact, aware and blind", f"{right[False]:.3f}, {right[True]:.3f}")
    rows.note("quotes: seconds, aware and blind", f"{cost[False]:.0f}, {cost[True]:.0f}")
    rows.note("quotes: an oracle's native builds alone, over blind", f"{least / cost[True]:.3f}")
    rows.add(
        "quotes: cost over that of a blind search", cost[False] / cost[True], 0.7, at_least=False
    )


def scale(rows: Rows) -> None:
    """The first and the later choices on 100,000 commits, CPU seconds."""
    size = 100_000
    setting = Setting(size=size, ratios=(0.2,), sigma=0.02)
    world = World(draw(setting, 1))
    times: list[float] = []

    class Timed(BayesSearcher):
        def decide(self, evidence: Evidence, batch: int):  # type: ignore[no-untyped-def]
            began = time.process_time()
            decision = super().decide(evidence, batch)
            times.append(time.process_time() - began)
            return decision

    search(world, Timed(SMALLEST))
    rows.add("100,000 commits: first plan, s", times[0], 2.0, at_least=False)
    rows.add("100,000 commits: slowest later choice, s", max(times[1:]), 0.1, at_least=False)


def beside_peers(scores: list[Score], rows: Rows) -> None:
    """Each case: found minus false of ours less that of the best peer; the oracle is no peer."""
    for name in dict.fromkeys(s.case for s in scores):
        here = [s for s in scores if s.case == name and s.strategy != "oracle"]
        ours = next(s for s in here if s.strategy == "bisectorch")
        peers_here = [s for s in here if s is not ours]
        worth = {s.strategy: s.recall - s.false for s in here}
        best = max(peers_here, key=lambda s: worth[s.strategy])
        rows.add(
            f"{name}: found minus false, beyond {best.strategy}",
            worth["bisectorch"] - worth[best.strategy],
            0.0,
            at_least=True,
        )
        equal = [s for s in peers_here if worth[s.strategy] >= worth["bisectorch"]]
        if equal:
            least = min(equal, key=lambda s: s.runs)
            rows.add(
                f"{name}: runs, over those of {least.strategy}",
                ours.runs / least.runs,
                1.0,
                at_least=False,
            )


def document(scores: list[Score], rows: Rows, trials: int) -> None:
    """The table and the figure of docs/."""
    lines = [
        "# The search beside its peers",
        "",
        f"Written by `make bench-search`: {trials} simulated histories of 512 commits a case for",
        f"this search, up to {PEER_TRIALS} for a peer; a build costs {BUILD_SECONDS:g} s and a run "
        f"{RUN_SECONDS:g} s. Change points are",
        "uniform. Pinpoint is told the magnitude, git-bayesect the threshold, the oracle the",
        "truth at each commit it builds. `exact`: everything named and nothing else.",
        "",
        "| case | strategy | exact | recall | false a range | builds | runs | CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for s in scores:
        e = s.errors
        lines.append(
            f"| {s.case} | {s.strategy} | {s.exact:.3f} | {s.recall:.3f} ± {e['recall']:.3f} "
            f"| {s.false:.3f} ± {e['false']:.3f} | {s.builds:.1f} ± {e['builds']:.1f} "
            f"| {s.runs:.0f} ± {e['runs']:.0f} | {s.cpu:.2f} |"
        )
    lines += ["", "![Recall minus false culprits against runs](figures/search.svg)", ""]
    lines += ["| bar | figure | to reach | |", "|---|---|---|---|"]
    for row in rows.rows:
        value = row.figure if isinstance(row.figure, str) else f"{row.figure:.4g}"
        state = ("SHORT" if row.short else "ok") if row.bar else ""
        lines.append(f"| {row.name} | {value} | {row.bar} | {state} |")
    lines += ["", *READING]
    (DOCS / "search-bench.md").write_text("\n".join(lines) + "\n")
    draw_figure(scores)


MARKERS = {
    "bisectorch": "o",
    "oracle": "*",
    "asv find": "v",
    "TorchBench": "s",
    "Pinpoint": "D",
    "git-bayesect": "P",
}


def draw_figure(scores: list[Score]) -> None:
    """The figure: each case by runs and by what was found."""
    names = list(dict.fromkeys(s.case for s in scores))
    figure, axes = plt.subplots(3, 4, figsize=(15, 9), sharey=True)
    for axis, name in zip(axes.flat, names, strict=False):
        for s in (s for s in scores if s.case == name):
            axis.plot(s.runs, max(s.recall - s.false, -1.0), MARKERS[s.strategy], label=s.strategy)
        axis.set_title(name, fontsize=8)
        axis.set_xscale("log")
        axis.set_ylim(-1.05, 1.05)
    axes.flat[0].legend(fontsize=7)
    figure.supxlabel("runs")
    figure.supylabel("recall minus false culprits a range (at least -1)")
    figure.tight_layout()
    (DOCS / "figures").mkdir(exist_ok=True)
    figure.savefig(DOCS / "figures" / "search.svg", metadata={"Date": None})
    plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="20 trials, no peers, no docs")
    parser.add_argument("--no-docs", action="store_true")
    given = parser.parse_args(arguments)
    trials = 20 if given.quick else given.trials
    rows = Rows("search")
    scores: list[Score] = []
    sets: list[bool] = []
    with multiprocessing.Pool(given.jobs, threadpool_limits, (1,)) as pool:
        for index, case in enumerate(cases()):
            for strategy in ["bisectorch"] if given.quick else list(strategies(case)):
                ours = strategy == "bisectorch"
                count = trials if ours else min(trials, PEER_TRIALS)
                got, held = score(index, strategy, count, pool)
                scores.append(got)
                sys.stdout.write(
                    f"{case.name:48} {strategy:12} exact {got.exact:.3f} recall {got.recall:.3f} "
                    f"false {got.false:.3f} builds {got.builds:.1f} runs {got.runs:.0f} "
                    f"± {got.errors['runs']:.0f} cpu {got.cpu:.2f}\n"
                )
                sys.stdout.flush()
                if ours:
                    sets += held
                    for name, bar in case.bars:
                        figure = getattr(got, name)
                        at_least = name in ("exact", "recall")
                        rows.add(f"{case.name}: {name}", figure, bar, at_least=at_least)
        rows.add("calibration: sets that hold a truth", float(np.mean(sets)), 0.94, at_least=True)
        limit_is_true(trials, rows, pool)
        cost_aware(max(10, trials // 4), rows, pool)
    if not given.quick:
        beside_peers(scores, rows)
    scale(rows)
    code = rows.finish()
    (BUILD / "search-scores.json").write_text(
        json.dumps([asdict(s) for s in scores], indent=1) + "\n"
    )
    if not (given.quick or given.no_docs):
        document(scores, rows, trials)
    return code


if __name__ == "__main__":
    sys.exit(main())
