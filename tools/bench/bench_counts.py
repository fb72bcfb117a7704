"""Hold instruction counts against their bars, with a real torch: ``make bench-counts``.

    python tools/bench/bench_counts.py [--part counts|search] [--demo DIR]

``counts``: a null pair (one tree laid twice), and every state of the replay beside the one before
it, on one small workload: the truths must move its count, all else must not. ``search``: bisects
DIR, a replay (written first when it is not there), by instructions alone, and compares what it
names with expected.json. Counted by whatever ``--metric instructions`` would use here. Under
callgrind on an idle two-core machine each part takes a few minutes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from bench_replay import STATES, overlay, truth_of  # noqa: E402
from bisectorch.measure import CountingMeasurer  # noqa: E402
from bisectorch.measure.counts import find_tool  # noqa: E402
from bisectorch.model import Build, Purpose, Route, Workload  # noqa: E402
from bisectorch.replay import repository, story  # noqa: E402
from rows import Rows  # noqa: E402
from torch_env import installation  # noqa: E402

WORKLOAD = Workload("linear.Linear.time_forward", ("1", "10"), 0, timeout_seconds=60.0)
SHOWS = 0.02
"""A truth moves the count by so much or more."""

STILL = 0.002
"""Nothing else moves it by more."""

SAME = 1e-4
"""Two counts of the same files differ by no more."""


def counts(rows: Rows) -> None:
    """The null pair and the states."""
    torch, tool = installation(), find_tool()
    rows.note("counted by", tool.name)
    nodes = {
        node.step.label: node for node in repository.nodes(story.LINE) if node.step.label in STATES
    }
    with (
        tempfile.TemporaryDirectory() as scratch,
        CountingMeasurer(ROOT / "benchmarks", tool) as measurer,
    ):
        trees = {
            name: overlay(
                torch.tree.resolve(),
                nodes[name.split()[0]],
                Path(scratch) / name.replace(" ", "-"),
                torch.python,
            )
            for name in (*nodes, f"{STATES[0]} again")
        }
        builds = [
            Build(name, Route.OVERLAY, str(tree), sys.executable, {"OMP_NUM_THREADS": "1"}, name)
            for name, tree in trees.items()
        ]
        began = time.monotonic()
        seen = {}
        for each in measurer.measure(builds, WORKLOAD, 1, "0", Purpose.SEARCH):
            if not each.runs:
                raise SystemExit(f"{each.sha}: {each.outcome.value}: {each.reason}")
            seen[each.sha] = each.runs[0].value
            sys.stderr.write(f"{each.sha}: {each.runs[0].value:.0f}\n")
        rows.note("wall seconds a count", f"{(time.monotonic() - began) / len(builds):.1f}")
    base = STATES[0]
    rows.add(
        "null pair: |ratio - 1|", abs(seen[f"{base} again"] / seen[base] - 1), SAME, at_least=False
    )
    for before, state in itertools.pairwise(nodes):
        change = seen[state] / seen[before] - 1
        truth = truth_of(state)
        if truth is None or WORKLOAD.benchmark not in truth.benchmarks:
            rows.add(f"{state}: |change|, none is true", abs(change), STILL, at_least=False)
        else:
            signed = change if truth.kind == "regression" else -change
            rows.add(f"{state}: change as the truth has it", signed, SHOWS, at_least=True)


def search(rows: Rows, demo: Path) -> None:
    """One bisection of the whole replay by instructions alone."""
    bisectorch = [sys.executable, "-m", "bisectorch"]
    if not (demo / "expected.json").exists():
        subprocess.run([*bisectorch, "replay", str(demo)], check=True, stdout=subprocess.DEVNULL)
    expected = json.loads((demo / "expected.json").read_text())
    truths = {(item["commit"], item["kind"]) for item in expected["workloads"][WORKLOAD.name]}
    name = WORKLOAD.name.replace("(", r"\(").replace(")", r"\)")
    command = [*bisectorch, "bisect", expected["range"], "-b", f"^{name}$", "--dry-run"]
    command += ["--metric", "instructions", "--format", "json"]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--config", str(demo / "asv.conf.json")],
        cwd=demo,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"bisect ended with {done.returncode}")
    report = json.loads(done.stdout)
    [workload] = report["workloads"]
    found = {(each["commit"], each["kind"]) for each in workload["culprits"]}
    rows.add("truths named by instructions", len(found & truths), len(truths), at_least=True)
    rows.add("others named", len(found - truths), 0, at_least=False)
    rows.note("runs", str(report["cost"]["runs"]))
    rows.note("wall seconds", f"{time.monotonic() - began:.0f}")
    for each in workload["culprits"]:
        rows.note(each["subject"][:60], f"{(each['ratio'] - 1) * 100:+.1f} %")


def main() -> int:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("counts", "search"))
    parser.add_argument("--demo", type=Path)
    arguments = parser.parse_args()
    rows = Rows("counts" if arguments.part is None else f"counts-{arguments.part}")
    if arguments.part in (None, "counts"):
        counts(rows)
    if arguments.part in (None, "search"):
        with tempfile.TemporaryDirectory() as scratch:
            search(rows, arguments.demo or Path(scratch) / "replay")
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
