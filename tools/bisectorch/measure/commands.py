"""Plain commands as workloads: run in turn in the directories of both sides."""

from __future__ import annotations

import contextlib
import enum
import math
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bisectorch.measure.child import Fault
from bisectorch.model import Block, Build, Observation, Outcome, Run, Workload

SHORT_SECONDS = 0.2
"""Commands shorter than this are run several times a block, so that a block fills it."""

MOST_RUNS_A_BLOCK = 20
TAIL_BYTES = 4096


class Metric(enum.Enum):
    """What is measured of one run of a command."""

    WALL = "wall time"
    CPU = "processor time"
    PRINTED = "the number on its last line"


@dataclass(frozen=True)
class Ran:
    """One run of a command: what it was measured at, and the wall time it took."""

    value: float
    seconds: float


def run_command(
    command: str,
    directory: str,
    *,
    timeout_seconds: float | None,
    metric: Metric = Metric.WALL,
    core: int | None = None,
) -> Ran:
    """Run a shell command to its end, and measure it.

    Processor time is its own and that of the processes it waited for, in seconds: what others do
    on the machine moves it less than wall time. It runs in a group of its own, which is killed at
    the limit, if there is one, and when we are interrupted.

    Raises Fault, with the last line it said, when it fails, hangs, or prints no number.
    """
    pin = None if core is None else (lambda: os.sched_setaffinity(0, {core}))
    used, began = _children_seconds(), time.monotonic()
    process = subprocess.Popen(
        command,
        shell=True,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=pin,
    )
    try:
        out, errors = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise Fault(Outcome.TIMED_OUT, f"no end within {timeout_seconds:g} s") from None
    except BaseException:
        _kill(process)
        raise
    seconds = time.monotonic() - began
    if process.returncode:
        said = _last_line(errors) or _last_line(out)
        status = f"exit status {process.returncode}"
        raise Fault(Outcome.FAILED, f"{status}: {said}" if said else status)
    if metric is not Metric.PRINTED:
        value = seconds if metric is Metric.WALL else _children_seconds() - used
        return Ran(value, seconds)
    line = _last_line(out)
    try:
        value = float(line.split()[-1])
    except (ValueError, IndexError):
        value = math.nan
    if not math.isfinite(value):
        raise Fault(Outcome.FAILED, f"its last line holds no number: {line!r}")
    return Ran(value, seconds)


class CommandMeasurer:
    """Runs each side's command in random order, block after block (seams.BlockMeasurer).

    A build's tree is the directory that the command runs in; the workload's benchmark is the
    command. ``known`` gives sides that are a number instead, by their object names.
    """

    def __init__(
        self,
        *,
        metric: Metric = Metric.WALL,
        core: int | None = None,
        known: Mapping[str, float] | None = None,
        seed: int = 20170601,
        run: Callable[..., Ran] = run_command,
    ) -> None:
        """Choose how to measure; nothing is run yet."""
        self._metric = metric
        self._core = core
        self._known = dict(known or {})
        self._random = random.Random(seed)
        self._run_command = run
        self._runs_a_block = 1

    def warm_up(self, build: Build, workload: Workload) -> float:
        """Run it once, uncounted; the seconds it took. Raises Fault when it fails."""
        if build.sha in self._known:
            return 0.0
        seconds = self._run(build, workload).seconds
        wanted = math.ceil(SHORT_SECONDS / max(seconds, 1e-3))
        self._runs_a_block = max(self._runs_a_block, min(MOST_RUNS_A_BLOCK, wanted))
        return seconds

    def measure_in_turn(self, blocks: Sequence[Block]) -> Iterator[Observation]:
        """Every side of each block, as often as fills it, in random order."""
        for block in blocks:
            workload, builds = block.workload, block.builds
            ran: dict[str, list[Ran]] = {build.sha: [] for build in builds}
            faults: dict[str, Fault] = {}
            began = time.time()
            for _ in range(self._runs_a_block):
                for build in self._random.sample(builds, len(builds)):
                    if build.sha in faults:
                        continue
                    try:
                        ran[build.sha].append(self._run(build, workload))
                    except Fault as fault:
                        faults[build.sha] = fault
            for build in builds:
                name, sha = workload.name, build.sha
                if sha in faults:
                    outcome, reason = faults[sha].outcome, faults[sha].reason
                    yield Observation(name, sha, outcome, (), reason, block.purpose)
                else:
                    run = _run_of(ran[sha], f"{block.name}.0", began)
                    yield Observation(name, sha, Outcome.MEASURED, (run,), "", block.purpose)

    def _run(self, build: Build, workload: Workload) -> Ran:
        if build.sha in self._known:
            return Ran(self._known[build.sha], 0.0)
        return self._run_command(
            workload.benchmark,
            build.tree,
            timeout_seconds=workload.timeout_seconds,
            metric=self._metric,
            core=self._core,
        )


def _run_of(ran: Sequence[Ran], block: str, began: float) -> Run:
    values = tuple(each.value for each in ran)
    seconds = math.fsum(each.seconds for each in ran)
    return Run(median(values), block, values, 1, began, seconds)


def _children_seconds() -> float:
    """Processor seconds of all the children waited for so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _last_line(said: bytes) -> str:
    lines = said[-TAIL_BYTES:].decode("utf-8", "replace").split("\n")
    words = [line.strip() for line in lines if line.strip()]
    return words[-1][:200] if words else ""
