"""``make bench-search``: the search and its peers on the same simulated histories.

    python tools/bench/bench_search.py [--trials N] [--quick] [--no-docs]

Prints every strategy on every case with standard errors, then a row a bar (figure, bar, ok or
SHORT); exits 1 when a bar is missed. Writes build/bench/search.json, docs/search-bench.md and
docs/figures/search.svg.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import matplotlib
import numpy as np
import peers
from bisectorch.model import Evidence, Verdict
from bisectorch.search import BayesSearcher
from bisectorch.search.simulate import Setting, Trial, World, draw, search
from rows import BUILD, Rows

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[2] / "docs"
SMALLEST = 0.03


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


def cases() -> list[Case]:
    """The cases of the table."""
    three, pair = (0.2, 0.1, 0.1), (0.2, 0.1, -0.1)
    five = (0.15, -0.1, 0.2, -0.15, 0.1)
    return [
        Case(
            "one step 20 %, sigma 5 %",
            Setting(ratios=(0.2,), sigma=0.05),
            (("exact", 0.98), ("builds", 13), ("runs", 25)),
        ),
        Case(
            "one step 5 %, sigma 5 %",
            Setting(ratios=(0.05,), sigma=0.05),
            (("exact", 0.95), ("builds", 15), ("runs", 200)),
        ),
        Case(
            "one step 5 %, sigma 2 %",
            Setting(ratios=(0.05,), sigma=0.02),
            (("exact", 0.98), ("builds", 13), ("runs", 40)),
        ),
        Case(
            "+20 +10 +10 %, sigma 5 %",
            Setting(ratios=three, sigma=0.05),
            (("recall", 0.96), ("false", 0.02), ("builds", 28), ("runs", 120)),
        ),
        Case(
            "+20 +10 -10 %, sigma 2 %",
            Setting(ratios=pair, sigma=0.02),
            (("recall", 0.95), ("false", 0.02), ("builds", 30), ("runs", 110)),
        ),
        Case(
            "five alternating, sigma 2 %",
            Setting(ratios=five, sigma=0.02),
            (("recall", 0.88), ("false", 0.02), ("builds", 42)),
        ),
        *(
            Case(
                f"nothing changed, sigma {100 * s:.0f} %",
                Setting(sigma=s),
                (("false", 0.01), ("runs", r)),
            )
            for s, r in ((0.02, 30), (0.05, 110), (0.1, 350))
        ),
        Case(
            "+20 +10 +10 %, sigma 2 % and 2 % between builds",
            Setting(ratios=three, sigma=0.02, build_sigma=0.02),
            (("recall", 0.88), ("false", 0.05), ("builds", 60)),
        ),
        Case(
            "one step 20 %, sigma 5 %, 20 % unbuildable",
            Setting(ratios=(0.2,), sigma=0.05, unbuildable=0.2),
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


def score(case: Case, strategy: str, trials: int) -> tuple[Score, list[tuple[bool, int]]]:
    """Run one strategy on the first ``trials`` seeds; also (set holds a truth, size) a culprit."""
    run = strategies(case)[strategy]
    columns: dict[str, list[float]] = {
        k: [] for k in ("exact", "recall", "false", "builds", "runs", "seconds", "cpu")
    }
    sets: list[tuple[bool, int]] = []
    for seed in range(trials):
        world = World(draw(case.setting, seed))
        began = time.process_time()
        came = run(world)
        cpu = time.process_time() - began
        named = came.credible if isinstance(came, Trial) else tuple((x,) for x in came)
        truth = world.drawn.positions
        hits = [any(t in c for c in named) for t in truth]
        good = [any(t in c for t in truth) for c in named]
        sets += [(ok, len(c)) for ok, c in zip(good, named, strict=True)]
        columns["exact"].append(float(all(hits) and all(good)))
        columns["recall"].append(float(np.mean(hits)) if hits else 1.0)
        columns["false"].append(float(len(good) - sum(good)))
        columns["builds"].append(world.builds)
        columns["runs"].append(world.runs)
        columns["seconds"].append(world.seconds)
        columns["cpu"].append(cpu)
    means = {k: float(np.mean(v)) for k, v in columns.items()}
    errors = {k: float(np.std(v) / math.sqrt(len(v))) for k, v in columns.items()}
    return Score(case.name, strategy, trials, **means, errors=errors), sets


def limit_is_true(trials: int, rows: Rows) -> None:
    """Histories with one small step: how often "no change" is said with a limit below it."""
    wrong = said = 0
    for seed in range(trials):
        ratio = (0.03, 0.035, 0.04)[seed % 3]
        sigma = (0.02, 0.05)[seed % 2]
        trial = search(
            World(draw(Setting(ratios=(ratio,), sigma=sigma), seed)), BayesSearcher(SMALLEST)
        )
        said += trial.verdict is Verdict.NO_CHANGE
        wrong += trial.verdict is Verdict.NO_CHANGE and trial.limit < ratio
    rows.note("steps of 3 to 4 %: no change said", f"{said}/{trials}")
    rows.add("steps of 3 to 4 %: limit below the step", wrong / trials, 0.05, at_least=False)


def cost_aware(trials: int, rows: Rows) -> None:
    """Native and Python-only commits in a real-shaped mix, with and without the quotes."""
    setting = Setting(
        ratios=(0.2,), sigma=0.02, build_seconds=300.0, python_seconds=0.2, run_seconds=2.0
    )
    spent: dict[bool, float] = {}
    right: dict[bool, float] = {}
    for blind in (False, True):
        costs, hits = [], []
        for seed in range(trials):
            world = World(draw(setting, seed))
            trial = search(world, BayesSearcher(SMALLEST), blind=blind)
            costs.append(world.seconds)
            hits.append(all(any(t in c for c in trial.credible) for t in world.drawn.positions))
        spent[blind], right[blind] = float(np.mean(costs)), float(np.mean(hits))
    rows.note("quotes: exact, aware and blind", f"{right[False]:.3f}, {right[True]:.3f}")
    rows.add(
        "quotes: cost over that of a blind search", spent[False] / spent[True], 0.7, at_least=False
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
    rows.add(
        "100,000 commits: median later choice, s", float(np.median(times[1:])), 0.1, at_least=False
    )


def document(scores: list[Score], rows: Rows, trials: int) -> None:
    """The table and the figure of docs/."""
    lines = [
        "# The search beside its peers",
        "",
        f"Written by `make bench-search`: {trials} simulated histories of 512 commits a case for",
        "this search, up to 100 for a peer; a build costs 15 s and a run 2 s. Change points are",
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
    (DOCS / "search-bench.md").write_text("\n".join(lines) + "\n")
    names = list(dict.fromkeys(s.case for s in scores))
    figure, axes = plt.subplots(3, 4, figsize=(15, 9), sharey=True)
    for axis, name in zip(axes.flat, names, strict=False):
        for s in (s for s in scores if s.case == name):
            axis.plot(s.runs, max(s.recall - s.false, -1.0), "o", label=s.strategy)
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
    parser.add_argument("--quick", action="store_true", help="20 trials, no peers, no docs")
    parser.add_argument("--no-docs", action="store_true")
    given = parser.parse_args(arguments)
    trials = 20 if given.quick else given.trials
    rows = Rows("search")
    scores: list[Score] = []
    sets: list[tuple[bool, int]] = []
    for case in cases():
        for strategy in ["bisectorch"] if given.quick else list(strategies(case)):
            ours = strategy == "bisectorch"
            got, held = score(case, strategy, trials if ours else min(trials, 100))
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
                    rows.add(
                        f"{case.name}: {name}",
                        getattr(got, name),
                        bar,
                        at_least=name in ("exact", "recall"),
                    )
    share = float(np.mean([ok for ok, _ in sets]))
    rows.add("calibration: sets that hold a truth", share, 0.94, at_least=True)
    limit_is_true(trials, rows)
    cost_aware(max(10, trials // 2), rows)
    scale(rows)
    code = rows.finish()
    (BUILD / "search-scores.json").write_text(
        json.dumps([asdict(replace(s)) for s in scores], indent=1) + "\n"
    )
    if not (given.quick or given.no_docs):
        document(scores, rows, trials)
    return code


if __name__ == "__main__":
    sys.exit(main())
