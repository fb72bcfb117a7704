"""Measure how well two builds of a real torch are told apart: the bars of measuring.

    python tools/bench/bench_measure.py [--trials N] [--only PART,...] [DIR]

DIR (by default beside the bars) gets an asv project over the replay's torch wheel with a history
of its own: a commit, one that changes only a comment, and one whose benchmark does a calibrated
3 % more. So the null pair and the known step are two overlay trees each, and the very same pairs
go to ``asv continuous``. Each trial is one comparison from the start, with fresh processes, and
stops when it is decided. Parts, and about how long each takes on two idle cores:

    null, step          about 11 s a trial each: 40 min for 100 trials; they also give the
                        coverage of the intervals. --trials 10 takes 4 min
    neighbour           --neighbour-trials (20) of both, beside a process that moves memory on
                        the other core: 15 to 20 min
    spread              1.5 min: one block's ratio, ours and a plain prototype's
    share               1 min: how much of the wall time is spent measuring
    asv                 --asv-trials (10) of both pairs, some 8 s each: 3 min; with null or step
                        it also compares the seconds to a verdict
    layout              2 min: what processes, copies of one process, and samples add to the noise

The step's true size is what all of its blocks say together; the null's is 0. "At equal power":
telling 3 % from nothing with 1 % of false and 5 % of missed ones takes a log ratio with a
deviation of 0.03 / (2.58 + 1.64); asv's runs would have to be repeated until theirs has it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bisectorch.model import Block, Build, Judgement, Observation, Purpose, Workload
from bisectorch.search.verdict import FEWEST_BLOCKS
from pairs import BIN, KNOWN, NULL, SMALLEST, STEP, Laboratory, Trial, log_ratios
from rows import BUILD, Rows

PARTS = ("null", "step", "neighbour", "spread", "share", "asv", "layout")
SECONDS = 30.0
NEIGHBOUR_SECONDS = 60.0
EQUAL_POWER = STEP / (2.576 + 1.645)
PLAIN = """
import sys, time
import torch
torch.set_num_threads(1)
layer, data = torch.nn.Linear(10, 10), torch.randn(1, 10)
def body(calls):
    for _ in range(calls * 100):
        layer(data)
body(20)
began = time.perf_counter(); body(20); one = (time.perf_counter() - began) / 20
calls = max(1, round(0.01 / one))
print("ready", flush=True)
for _ in sys.stdin:
    began = time.perf_counter(); body(calls)
    print((time.perf_counter() - began) / calls, flush=True)
"""
NEIGHBOUR = """
a = bytearray(64 << 20)
while True:
    b = bytes(a)
    sum(b[:1000000])
"""


def main() -> int:
    """Run the parts asked for and print their rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", nargs="?", type=Path, default=BUILD / "measure")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--neighbour-trials", type=int, default=20)
    parser.add_argument("--asv-trials", type=int, default=10)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    directory = args.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    laboratory = Laboratory(directory)
    rows = Rows("measure")
    rows.note("the step's extra, calibrated", f"{laboratory.units} turns of an empty loop")
    decided: list[float] = []
    covered: list[bool] = []
    if {"null", "step"} & set(wanted):
        began = time.monotonic()
        decided, covered = judge_trials(laboratory, rows, args.trials, SECONDS, wanted)
        rows.note("parts null and step", f"{time.monotonic() - began:.0f} s")
    for part in PARTS[2:]:
        if part not in wanted:
            continue
        began = time.monotonic()
        if part == "neighbour":
            with neighbour(laboratory.core):
                trials, both = args.neighbour_trials, ("null", "step")
                covered += judge_trials(laboratory, rows, trials, NEIGHBOUR_SECONDS, both)[1]
        elif part == "spread":
            spread(laboratory, rows)
        elif part == "share":
            share(laboratory, rows)
        elif part == "layout":
            layout(laboratory, rows)
        else:
            against_asv(laboratory, rows, args.asv_trials, decided)
        rows.note(f"part {part}", f"{time.monotonic() - began:.0f} s")
    if covered:
        label = f"intervals of nominal 95 % that hold, of {len(covered)}"
        share_covered = sum(covered) / len(covered)
        rows.add(label, share_covered, 0.93, at_least=True)
        rows.add(label, share_covered, 0.98, at_least=False)
    return rows.finish()


def judge_trials(
    laboratory: Laboratory, rows: Rows, trials: int, seconds: float, wanted: Sequence[str]
) -> tuple[list[float], list[bool]]:
    """Null and known step, from the start each time.

    Returns the seconds that each verdict took, and whether each interval holds the true ratio.
    """
    where = "" if seconds == SECONDS else "beside a noisy neighbour: "
    spent: list[float] = []
    covered: list[bool] = []
    for name, pair in (("null", NULL), ("step", KNOWN)):
        if name not in wanted:
            continue
        ran = []
        for index in range(trials):
            ran.append(laboratory.trial(pair, index, seconds))
            say(f"{where}{name} {index + 1}/{trials}: {told(ran[-1])}")
        ratios = [ratio for trial in ran for ratio in trial.ratios]
        truth = statistics.fmean(ratios) if name == "step" else 0.0
        covered += [trial.covers(truth) for trial in ran]
        spent += [trial.seconds for trial in ran]
        verdicts = [trial.comparison.judgement for trial in ran]
        label = f"{where}{name}, {trials} trials"
        if name == "null":
            different = verdicts.count(Judgement.DIFFERENT) / trials
            rows.add(f"{label}: DIFFERENT", different, 0.01, at_least=False)
            same = verdicts.count(Judgement.SAME) / trials
            rows.add(f"{label}: SAME within {seconds:g} s", same, 0.90, at_least=True)
        else:
            rows.note(f"{label}: true step, by all blocks", f"{math.expm1(truth):+.2%}")
            different = verdicts.count(Judgement.DIFFERENT) / trials
            rows.add(f"{label}: DIFFERENT within {seconds:g} s", different, 0.95, at_least=True)
        rows.note(
            f"{label}: seconds, mean and most",
            f"{statistics.fmean(t.seconds for t in ran):.1f}, {max(t.seconds for t in ran):.1f}",
        )
        block_seconds = sum(t.seconds for t in ran) / max(1, len(ratios))
        rows.note(f"{label}: seconds of a block", f"{block_seconds:.2f}")
        rows.note(
            f"{label}: seconds of the fewest blocks that can decide",
            f"{FEWEST_BLOCKS * block_seconds:.1f}",
        )
        if len(ratios) > 1:
            within = statistics.stdev(ratios)
            rows.note(f"{label}: deviation of one block's ratio", f"{within:.2%}")
    return spent, covered


@contextlib.contextmanager
def neighbour(core: int) -> Iterator[None]:
    """A process that moves memory on another core."""
    others = sorted(os.sched_getaffinity(0) - {core}) or [core]
    command = ["taskset", "-c", str(others[0]), sys.executable, "-c", NEIGHBOUR]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def spread(laboratory: Laboratory, rows: Rows, blocks: int = 15) -> None:
    """One block's log ratio: 60 samples of each of two fresh processes, ours and plain."""
    build = laboratory.builds[0]
    pair = [build, laboratory.builds[1]]
    ours, plain = [], []
    with laboratory.measurer(7, samples=60) as measurer:
        for index in range(blocks):
            seen = list(measurer.measure(pair, laboratory.one, 1, str(index), Purpose.COMPARE))
            ours += log_ratios(seen)
            plain.append(plain_block(laboratory, build))
    rows.note("deviation of one block's ratio, plain prototype", f"{statistics.stdev(plain):.2%}")
    rows.add(
        "deviation of one block's ratio, ours over the prototype's",
        statistics.stdev(ours) / statistics.stdev(plain),
        1.0,
        at_least=False,
    )
    rows.note("deviation of one block's ratio, ours", f"{statistics.stdev(ours):.2%}")


def plain_block(laboratory: Laboratory, build: Build, samples: int = 60) -> float:
    """What two alternating processes give without anything of ours: the ratio of their means."""
    processes = [
        subprocess.Popen(
            laboratory.python(build, "-c", PLAIN),
            env=laboratory.variables(build),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    sums = [0.0, 0.0]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for _ in range(samples):
        for side, process in enumerate(processes):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            sums[side] += float(process.stdout.readline())
    for process in processes:
        process.communicate()
    return math.log(sums[1] / sums[0])


def share(laboratory: Laboratory, rows: Rows, rounds: int = 3) -> None:
    """Samples and warming up, over all the wall time of blocks, with the builds ready."""
    pair = laboratory.builds[:2]
    for label, workloads in (("8 workloads", laboratory.many), ("1 workload", [laboratory.one])):
        with laboratory.measurer(3) as measurer:
            began = time.monotonic()
            for index in range(rounds):
                for _ in measurer.measure_in_turn(blocks(pair, workloads, str(index))):
                    pass
            wall = time.monotonic() - began
        running = (measurer.warming_seconds + measurer.sampling_seconds) / wall
        name = f"share of wall time spent measuring, {label}"
        if workloads is laboratory.many:
            rows.add(name, running, 0.70, at_least=True)
        else:
            rows.note(name, f"{running:.2f}")
        rows.note(f"{name}: samples alone", f"{measurer.sampling_seconds / wall:.2f}")
        rows.note(f"{label}: seconds of a block", f"{wall / rounds / len(workloads):.2f}")


def layout(laboratory: Laboratory, rows: Rows, origins: int = 12, copies: int = 5) -> None:
    """The deviation of a block's log ratio, split: processes, their copies, samples."""
    pair = laboratory.builds[:2]
    table: list[list[float]] = []
    halves: list[float] = []
    with laboratory.measurer(11) as measurer:
        for index in range(origins):
            seen = list(
                measurer.measure_in_turn(blocks(pair, [laboratory.one] * copies, str(index)))
            )
            table.append(log_ratios(seen))
            for old, new in zip(seen[::2], seen[1::2], strict=True):
                halves.append(half_difference(new) - half_difference(old))
    sampling = statistics.fmean(half**2 for half in halves) / 4
    within = statistics.fmean(statistics.variance(row) for row in table)
    between = statistics.variance([statistics.fmean(row) for row in table]) - within / copies
    rows.note("layout: what the samples add to a block's ratio", f"{math.sqrt(sampling):.2%}")
    of_copies = math.sqrt(max(0.0, within - sampling))
    rows.note("layout: copies of one process beyond that", f"{of_copies:.2%}")
    rows.note("layout: processes beyond that", f"{math.sqrt(max(0.0, between)):.2%}")


def blocks(builds: Sequence[Build], workloads: Sequence[Workload], name: str) -> list[Block]:
    """One of each workload, of all builds; names of their own give each a layout of its own."""
    return [
        Block(workload, tuple(builds), f"{name}-{place}", Purpose.COMPARE)
        for place, workload in enumerate(workloads)
    ]


def half_difference(observation: Observation) -> float:
    """The level by a run's even samples against that by its odd ones, in logarithms."""
    samples = observation.runs[0].samples
    even, odd = (sorted(samples[start::2])[: len(samples) // 4] for start in (0, 1))
    return math.log(statistics.fmean(even) / statistics.fmean(odd))


def against_asv(laboratory: Laboratory, rows: Rows, trials: int, decided: Sequence[float]) -> None:
    """``asv continuous`` on both pairs: how often it is right, and what equal power would cost."""
    centred: list[float] = []
    seconds: list[float] = []
    began = time.monotonic()
    for name, pair in (("null", NULL), ("step", KNOWN)):
        called = 0
        ratios = []
        for index in range(trials):
            ratio, spent, says = asv_continuous(laboratory, pair)
            ratios.append(ratio)
            seconds.append(spent)
            called += says
            say(f"asv {name} {index + 1}/{trials}: {math.expm1(ratio):+.2%} in {spent:.1f} s")
        mean = statistics.fmean(ratios)
        centred += [ratio - mean for ratio in ratios]
        rows.note(
            f"asv continuous -f {1 + SMALLEST:g}, {name}: calls it changed", f"{called} of {trials}"
        )
    deviation = math.sqrt(math.fsum(x * x for x in centred) / max(1, len(centred) - 2))
    each = statistics.fmean(seconds)
    wall = (time.monotonic() - began) / len(seconds)
    rows.note("asv continuous: seconds a run, measuring and all", f"{each:.1f}, {wall:.1f}")
    rows.note("asv continuous: deviation of its log ratio", f"{deviation:.2%}")
    equal = each * max(1.0, (deviation / EQUAL_POWER) ** 2)
    rows.note("asv continuous: seconds at equal power", f"{equal:.1f}")
    if decided:
        ours = statistics.fmean(decided)
        rows.note("ours: mean seconds to a verdict", f"{ours:.1f}")
        rows.add("seconds to a verdict, ours over asv's", ours / equal, 0.25, at_least=False)


def asv_continuous(laboratory: Laboratory, pair: tuple[int, int]) -> tuple[float, float, bool]:
    """Log ratio, seconds that asv says it measured, and whether it calls it changed."""
    old, new = (laboratory.shas[side] for side in pair)
    results = laboratory.directory / "results"
    for path in results.rglob("*-*.json"):
        path.unlink()
    done = subprocess.run(
        [
            *(BIN / "bisectorch", "continuous", old, new, "-b", "linear.time_forward"),
            *("-f", str(1 + SMALLEST), "--cpu-affinity", str(laboratory.core)),
            *("--config", laboratory.config),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    levels, spent = [], 0.0
    for sha in (old, new):
        path = next(results.rglob(f"{sha[:8]}-*.json"), None)
        if path is None:
            raise SystemExit(
                f"asv continuous measured nothing: {(done.stderr or done.stdout)[-500:]}"
            )
        stored: dict[str, Any] = json.loads(path.read_text())
        columns = stored["result_columns"]
        (entry,) = stored["results"].values()
        row = dict(zip(columns, entry, strict=False))
        levels.append(row["result"][0])
        spent += row["duration"]
    says = "CHANGED SIGNIFICANTLY" in done.stdout and "NOT SIGNIFICANTLY" not in done.stdout
    return math.log(levels[1] / levels[0]), spent, says


def told(trial: Trial) -> str:
    """A trial in a few words."""
    found = trial.comparison
    return (
        f"{found.judgement.value} {found.ratio - 1:+.2%} in {trial.seconds:.1f} s, "
        f"{len(trial.ratios)} blocks"
    )


def say(line: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
