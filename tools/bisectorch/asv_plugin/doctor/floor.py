"""The machine's floor: what a pair of equal builds differs by, and the smallest step it shows."""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from bisectorch.asv_plugin.doctor.finding import Check, missing, note, ok
from bisectorch.measure import PairedMeasurer, noise, reference
from bisectorch.model import Build, Noise, Outcome, Purpose, Route, Run, Workload
from bisectorch.seams import Measurer

REFERENCE = Path(reference.__file__).parent
WORKLOAD = Workload("calls.time_small_calls")
SPANS = {"30 s": 30.0, "5 min": 300.0}
FEWEST_ROUNDS = 4


def floor(
    seconds: float,
    *,
    measurer: Measurer | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Check:
    """Measure a null pair for so long: two equal builds of nothing, by the usual blocks.

    The workload is our own, of small Python calls, because any project's is not there before it
    is built; it runs in this very interpreter.
    """
    if measurer is not None:
        yield from _floor(seconds, measurer, clock)
        return
    with PairedMeasurer(REFERENCE) as own:
        yield from _floor(seconds, own, clock)


def _floor(seconds: float, measurer: Measurer, clock: Callable[[], float]) -> Check:
    builds = [Build(name, Route.CACHED, "", sys.executable, {}, name) for name in ("one", "other")]
    runs: dict[str, list[Run]] = defaultdict(list)
    began = clock()
    rounds = 0
    while rounds < FEWEST_ROUNDS or clock() - began < seconds:
        for seen in measurer.measure(builds, WORKLOAD, 1, str(rounds), Purpose.REPEAT):
            if seen.outcome is not Outcome.MEASURED:
                yield missing(f"a benchmark of our own fails here: {seen.reason}")
                return
            runs[seen.sha].extend(seen.runs)
        rounds += 1
    each = (clock() - began) / rounds
    ratios = [
        math.log(right.value / left.value)
        for left, right in zip(runs["one"], runs["other"], strict=True)
    ]
    mean = math.fsum(ratios) / rounds
    error = math.sqrt(math.fsum((r - mean) ** 2 for r in ratios) / (rounds - 1) / rounds)
    found = noise.within_and_between(runs)
    yield ok(
        f"floor: two equal builds differ by {_percent(mean)} ± {_percent(2 * error)} after "
        f"{rounds} blocks; one run spreads by {_percent(found.run)} "
        f"({_percent(found.within)} inside a process, {_percent(found.between)} between them)"
    )
    yield note(
        f"floor: the smallest step that shows is {_smallest(found, each)} (95 %, nine times of "
        "ten), for small Python calls; a benchmark of yours may be noisier, and so may an hour"
    )


def _smallest(found: Noise, seconds_a_round: float) -> str:
    steps = []
    for name, seconds in SPANS.items():
        rounds = max(1, int(seconds / seconds_a_round))
        step = noise.smallest_resolvable_step(found, rounds)
        steps.append(f"{step:.2%} in {name}".replace("%", " %"))
    return ", ".join(steps)


def _percent(log_size: float) -> str:
    return f"{math.expm1(log_size) * 100:.2f} %"
