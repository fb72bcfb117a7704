"""Measure what each commit of the replay does to each workload: docs/replay.md's tables.

    python tools/bench/bench_replay.py [--rounds N] [--base TREE --python PYTHON]

TREE is a directory into which ``pip install --target TREE torch==2.13.0 numpy`` was done for the
interpreter PYTHON; by default the one that the tests share. Every round starts one fresh process
a state, all on one core, and takes their samples in turn, so that drift hits all alike; a
process's figure is the least of its samples, a ratio is taken within a round, and the table shows
the median over the rounds. What is counted is the process's own processor time: on an idle core
it equals wall time (backward runs in the calling thread), and a neighbour's turn does not enter.

A bar for each ratio: a truth of the replay moves its workloads by TELLING or more in its
direction, and every other commit by NOTHING or less. Exit 1 when one is short.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from bisectorch.build.overlay import lay  # noqa: E402
from bisectorch.model import TreeFile  # noqa: E402
from bisectorch.replay import repository, story  # noqa: E402
from bisectorch.replay.write import names  # noqa: E402
from torch_env import installation  # noqa: E402

# The small step is 5 %; a figure of this table is good to some 2 % on a busy machine.
TELLING = 0.025
NOTHING = 0.02

STATES = ("base", "twice", "contiguous", "revert", "matmul", "checks", "merge", "compiled")
WORKER = """
import ast, gc, importlib, sys, time
for line in sys.stdin:
    name = line.strip()
    path, _, choice = name.partition("(")
    params = ast.literal_eval("(" + choice[:-1] + ",)") if choice else ()
    module, kind, method = path.split(".")
    benchmark = getattr(importlib.import_module("benchmarks." + module), kind)()
    benchmark.setup(*params)
    body = getattr(benchmark, method)
    gc.disable()
    start = time.process_time_ns()
    body(*params)
    spent = time.process_time_ns() - start
    gc.enable()
    print(spent, flush=True)
"""


def overlay(base: Path, node: repository.Node, tree: Path, python: str) -> Path:
    """The commit's torch files laid over ``base``, by the tracker's own overlay."""
    contents = {path: text.encode() for path, text in node.tree.items() if path[:6] == "torch/"}
    tree.mkdir()
    files = [TreeFile(path, "100644", path) for path in contents]
    lay(base, tree, files, contents, python=python, date_seconds=0)
    return tree


def measure(
    python: str, trees: dict[str, Path], workloads: list[str], samples: int, core: int
) -> dict[str, dict[str, float]]:
    """One round: state -> workload -> seconds of its quickest sample."""
    workers = {}
    for state in random.sample(list(trees), len(trees)):
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        environment["PYTHONPATH"] = os.pathsep.join([str(trees[state]), str(ROOT)])
        workers[state] = subprocess.Popen(
            ["taskset", "-c", str(core), python, "-c", WORKER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    best: dict[str, dict[str, float]] = {state: {} for state in trees}
    for workload in workloads:
        times = samples if workload.startswith("linear") else max(3, samples // 4)
        for _ in range(times):
            for state in random.sample(list(trees), len(trees)):
                worker = workers[state]
                assert worker.stdin
                assert worker.stdout
                worker.stdin.write(workload + "\n")
                worker.stdin.flush()
                spent = int(worker.stdout.readline()) / 1e9
                best[state][workload] = min(spent, best[state].get(workload, spent))
    for worker in workers.values():
        worker.communicate()
    return best


def truth_of(state: str) -> story.Truth | None:
    """The truth that shows at a commit of the line: its own, or its side branch's."""
    step = next(step for step in story.LINE if step.label == state)
    labels = [state, *(part.label for part in step.side)]
    return next((story.TRUTHS[label] for label in labels if label in story.TRUTHS), None)


def meets(state: str, workload: str, ratio: float) -> bool:
    """The bar of one ratio; there is none where the story says that it is doubtful."""
    if workload.split("(")[0] in story.DOUBTFUL.get(state, {}):
        return True
    truth = truth_of(state)
    if truth is None or workload.split("(")[0] not in truth.benchmarks:
        return abs(ratio - 1) <= NOTHING
    return ratio >= 1 + TELLING if truth.kind == "regression" else ratio <= 1 - TELLING


def main() -> int:
    """Print a row a workload: ms at the base, then each state's ratio to the one before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path)
    parser.add_argument("--python")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--states", nargs="*", default=list(STATES))
    arguments = parser.parse_args()
    shared = None if arguments.base else installation()
    base = (arguments.base or shared.tree).resolve()
    python = arguments.python or (shared.python if shared else sys.executable)

    workloads = [name for item in story.WORKLOADS.items() for name in names(*item)]
    rounds = []
    with tempfile.TemporaryDirectory() as scratch:
        trees = {
            node.step.label: overlay(base, node, Path(scratch) / node.step.label, python)
            for node in repository.nodes(story.LINE)
            if node.step.label in arguments.states
        }
        for _ in range(arguments.rounds):
            rounds.append(measure(python, trees, workloads, arguments.samples, arguments.core))
            sys.stderr.write(f"round {len(rounds)} of {arguments.rounds}\n")

    states = list(trees)
    short = 0
    sys.stdout.write(f"| workload | {states[0]}, ms | {' | '.join(states[1:])} |\n")
    sys.stdout.write("|---" + "|---:" * len(states) + "|\n")
    for workload in workloads:
        level = statistics.median(r[states[0]][workload] for r in rounds)
        cells = [f"{level * 1e3:.3f}"]
        for previous, state in itertools.pairwise(states):
            ratio = statistics.median(r[state][workload] / r[previous][workload] for r in rounds)
            met = meets(state, workload, ratio)
            short += not met
            cells.append(f"{ratio:.3f}" + ("" if met else " !"))
        sys.stdout.write(f"| `{workload}` | {' | '.join(cells)} |\n")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
