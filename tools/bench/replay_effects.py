"""Measure what each commit of the replay does to each workload: docs/replay.md's table.

    python tools/bench/replay_effects.py --base TREE [--rounds N] [--python PYTHON]

TREE is a directory into which ``pip install --target TREE torch==2.13.0 numpy`` was done, for
the interpreter PYTHON. Every round starts one fresh process a state, all on one core, and takes
their samples in turn, so that drift hits all alike; a process's figure is the least of its
samples, a ratio is taken within a round, and the table shows the median over the rounds. What is
counted is the process's own processor time: it equals wall time on an idle core (backward runs
in the calling thread) and a neighbour on the core does not enter it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from bisectorch.build.overlay import lay  # noqa: E402
from bisectorch.model import TreeFile  # noqa: E402
from bisectorch.replay import repository, story  # noqa: E402
from bisectorch.replay.write import names  # noqa: E402

STATES = (
    "base",
    "doc-shape",
    "bilinear-checks",
    "twice",
    "contiguous",
    "revert",
    "matmul",
    "checks",
    "mend",
    "merge",
    "compiled",
)
LABELER = ("sequence_labeler.Run.time_train", "sequence_labeler.Stages.time_forward('forward')")

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


def main() -> None:
    """Print one row a workload: seconds at the base, then each state's ratio to the one before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--states", nargs="*", default=list(STATES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    workloads = [name for item in story.WORKLOADS.items() for name in names(*item)] + list(LABELER)
    rounds = []
    with tempfile.TemporaryDirectory() as scratch:
        trees = {
            node.step.label: overlay(
                arguments.base.resolve(), node, Path(scratch) / node.step.label, arguments.python
            )
            for node in repository.nodes(story.LINE)
            if node.step.label in arguments.states
        }
        for _ in range(arguments.rounds):
            rounds.append(
                measure(arguments.python, trees, workloads, arguments.samples, arguments.core)
            )
            sys.stderr.write(f"round {len(rounds)} of {arguments.rounds}\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(rounds))
    states = list(trees)
    write = sys.stdout.write
    write("| workload | " + states[0] + ", ms | " + " | ".join(states[1:]) + " |\n")
    write("|---" * (len(states) + 1) + "|\n")
    for workload in workloads:
        level = statistics.median(r[states[0]][workload] for r in rounds)
        ratios = [
            statistics.median(r[state][workload] / r[previous][workload] for r in rounds)
            for previous, state in itertools.pairwise(states)
        ]
        cells = [f"{level * 1e3:.3f}", *(f"{ratio:.3f}" for ratio in ratios)]
        write(f"| {workload} | " + " | ".join(cells) + " |\n")


if __name__ == "__main__":
    main()
