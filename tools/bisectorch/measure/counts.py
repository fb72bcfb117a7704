"""Instructions in place of seconds: nearly the same in every run, whatever else the machine does.

They are counted by the kernel where it does (perf events), else by callgrind, which executes the
program step by step: some fifty times slower, and on any x86-64 machine that valgrind runs on.
Both count what the calls execute between the two readings of ``timeit``'s clock (inspector.py),
so that neither imports nor setups matter. What moves a count without a change of code is held
still: the seed of hashes, the environment, numbers of threads.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.measure.caches import HoldsCaches, SetupCaches
from bisectorch.measure.child import Child, Fault, Switchboard
from bisectorch.measure.clocks import CallgrindClock, NotCounted, PerfClock
from bisectorch.measure.seats import Seat, Worker, observations, vacate
from bisectorch.model import Build, Count, Observation, Purpose, Workload

INSPECTOR = Path(__file__).with_name("inspector.py")
UNIT = "instructions"

SLOWER = 60.0
"""A program under callgrind takes so many times as long: limits of time are stretched by it."""

MOST_AT_ONCE = 8
"""However many cores there are: a process under callgrind takes three times its memory."""

HASH_SEED = 0
"""Of every count but confirmations', which try others: a random one moves counts by 1.6 %."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""One thread unless the build's own environment says otherwise: waiting threads count, too."""

KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
"""Variables that are handed on; the size of all others moves a count (by 0.2 % for 3 KB)."""


@dataclass(frozen=True)
class Tool:
    """What counts.

    Attributes:
        name: ``perf events`` or ``callgrind``.
        program: valgrind, where it is callgrind.
        slower: how many times longer a program takes while it is counted.
    """

    name: str
    program: str = ""
    slower: float = 1.0

    @property
    def is_cheap(self) -> bool:
        """A count costs no more than a run."""
        return not self.program

    def under(self, directory: Path) -> tuple[str, ...]:
        """What to start an interpreter with; files go into the directory."""
        if not self.program:
            return ()
        return (
            self.program,
            "--quiet",
            "--vgdb=no",  # it would leave its pipes behind
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={self.prefix(directory)}",
        )

    def prefix(self, directory: Path) -> str:
        """How the names of its files begin."""
        return str(directory / "callgrind.out")


def _ask_kernel() -> None:
    PerfClock().close()


def find_tool(kernel: Callable[[], object] = _ask_kernel) -> Tool:
    """The kernel's counter where there is one, else callgrind.

    Raises EnvironmentFailure, which says what would help, where there is neither.
    """
    try:
        kernel()
    except NotCounted as refusal:
        why = str(refusal)
    else:
        return Tool(PerfClock.name)
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise EnvironmentFailure(f"{why}, and valgrind is not installed: install valgrind")
    if platform.machine() not in ("x86_64", "AMD64"):
        raise EnvironmentFailure(f"{why}, and callgrind can be used on x86-64 machines only")
    return Tool(CallgrindClock.name, valgrind, SLOWER)


def is_countable(workload: Workload) -> bool:
    """Whether its calls run in the process that measures: time_ benchmarks, not timeraw_."""
    name = workload.benchmark.rpartition(".")[2].lower()
    return workload.kind == "time" and not name.startswith("timeraw")


def counted(workloads: Sequence[Workload]) -> tuple[Workload, ...]:
    """The workloads in instructions; UsageError for those that cannot be counted."""
    for workload in workloads:
        if not is_countable(workload):
            raise UsageError(
                f"--metric instructions counts time_ benchmarks, and {workload.benchmark} is none "
                "of them; narrow -b"
            )
    return tuple(replace(workload, unit=UNIT) for workload in workloads)


class CountingMeasurer(HoldsCaches):
    """Counts instructions (seams.Measurer); a run is one fresh process, in a block of its own.

    Runs are not interleaved, because nothing drifts: as many builds as there are cores are
    counted at the same time. Close it, or use it as a context manager, to remove its directories.
    """

    def __init__(
        self,
        benchmark_dir: Path,
        tool: Tool,
        *,
        start_timeout_seconds: float = 300.0,
        cache_dir: Path | None = None,
        attributes: Mapping[str, object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Choose how to count; nothing is started yet.

        Args:
            benchmark_dir: asv's benchmark directory.
            tool: what counts.
            start_timeout_seconds: how long importing the project may take where nothing counts.
            cache_dir: where to make temporary directories; the system's place by default.
            attributes: asv's benchmark attributes that override the benchmarks' own.
            clock: seconds that never run backwards, for tests.
        """
        self._benchmark_dir = str(Path(benchmark_dir).absolute())
        self._tool = tool
        self._start_timeout = start_timeout_seconds * max(1.0, tool.slower / 10)
        self._attributes = {k: v for k, v in (attributes or {}).items() if k != "cpu_affinity"}
        self._board = Switchboard()
        self._caches = SetupCaches(cache_dir)
        self._clock = clock
        self._rounds: Counter[tuple[str, ...]] = Counter()
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
        self._cores = sorted(allowed)[:MOST_AT_ONCE]

    def measure(
        self,
        builds: Sequence[Build],
        workload: Workload,
        runs: int,
        block: str,
        purpose: Purpose,
    ) -> Iterator[Observation]:
        """Count each build in ``runs`` fresh processes; see seams.Measurer.

        Rounds of a confirmation share a block, and each has another seed of hashes, the same for
        both of its builds: a step that is the seed's own does not last.
        """
        staying = list(builds)
        for number in range(runs):
            name, seed = f"{block}.{number}", HASH_SEED
            if purpose is Purpose.CONFIRM:
                key = (workload.name, *sorted(build.sha for build in builds))
                self._rounds[key] += 1
                seed = HASH_SEED + self._rounds[key]
            failed = set()
            for start in range(0, len(staying), len(self._cores)):
                wave = staying[start : start + len(self._cores)]
                for position, seen in enumerate(self._count(wave, workload, seed, purpose, name)):
                    if not seen.runs:
                        failed.add(start + position)
                    yield seen
            staying = [build for index, build in enumerate(staying) if index not in failed]

    def counts(self, builds: Sequence[Build], workload: Workload) -> Iterator[Count]:
        """One count of each build, or why there is none."""
        for seen in self.measure(builds, workload, 1, "", Purpose.REPEAT):
            if seen.runs:
                [run] = seen.runs
                yield Count(workload.name, seen.sha, run.value, self._tool.name, run.seconds)
            else:
                reason = f"{seen.outcome.value}: {seen.reason}"
                yield Count(workload.name, seen.sha, None, self._tool.name, 0.0, reason)

    def _count(
        self, builds: Sequence[Build], workload: Workload, seed: int, purpose: Purpose, block: str
    ) -> Iterator[Observation]:
        """One process a build, each on a core of its own."""
        began, started_seconds = self._clock(), time.time()
        seats: list[Seat] = []
        try:
            for build, core in zip(builds, self._cores, strict=False):
                seat = Seat(build, self._caches.scratch(), sampled=False)
                seats.append(seat)
                seat.worker = self._begin(build, workload, seat.directory, core, seed)
            self._set_up(seats, workload)
            limit = workload.timeout_seconds * self._tool.slower
            for seat in seats:
                seat.attempt(lambda worker: worker.send("count", limit))
            for seat in seats:
                told = seat.attempt(lambda worker: worker.answer())
                if told is not None:
                    seat.samples, seat.number = tuple(told["samples"]), told["number"]
            for seat in seats:
                seat.attempt(lambda worker: worker.ask("teardown", limit))
        finally:
            vacate(seats)
        seconds = (self._clock() - began) / len(seats)
        # A confirmation's rounds are pairs; else a count stands for itself in any company.
        name = block if purpose is Purpose.CONFIRM else ""
        yield from observations(seats, workload, purpose, name, started_seconds, seconds)

    def _begin(
        self, build: Build, workload: Workload, directory: Path, core: int, seed: int
    ) -> Worker:
        """Start a process that counts, and have it import the benchmark."""
        child = Child(
            self._board,
            build.python,
            fixed_environment(build, seed),
            directory,
            core,
            script=INSPECTOR,
            under=self._tool.under(directory),
        )
        child.send(
            "open", self._start_timeout, tool=self._tool.name, prefix=self._tool.prefix(directory)
        )
        self._send_load(child, workload)
        return child

    def _send_load(self, child: Child, workload: Workload) -> None:
        suffix = "" if workload.param_index is None else f"-{workload.param_index}"
        child.send(
            "load",
            self._start_timeout,
            benchmark_dir=self._benchmark_dir,
            name=workload.benchmark + suffix,
            attributes=self._attributes,
        )

    def _begin_plain(self, build: Build, workload: Workload, seed: int, directory: Path) -> Worker:
        """A process that does not count, for filling a cache."""
        environment = fixed_environment(build, seed)
        child = Child(self._board, build.python, environment, directory, self._cores[-1])
        self._send_load(child, workload)
        return child

    def _set_up(self, seats: Sequence[Seat], workload: Workload) -> None:
        """Await imports, fill caches where they are due, run setups."""
        limit = workload.timeout_seconds * self._tool.slower
        for seat in seats:
            seat.attempt(lambda worker: worker.answer())
            about = seat.attempt(lambda worker: worker.answer())
            if about is None:
                continue
            build = seat.build
            self._caches.fill(
                build,
                workload,
                about["cache_key"],
                about["cache_timeout"] or workload.timeout_seconds,
                partial(self._begin_plain, build, workload, HASH_SEED),
            )
            try:
                cache = self._caches.directory(build, workload)
            except Fault as fault:
                seat.fail(fault)
                continue
            seat.attempt(partial(_send_setup, cache=cache, timeout_seconds=limit))
        for seat in seats:
            seat.attempt(lambda worker: worker.answer())


def _send_setup(worker: Worker, cache: Path | None, timeout_seconds: float) -> None:
    worker.send("setup", timeout_seconds, cache_dir=None if cache is None else str(cache))


def fixed_environment(build: Build, seed: int) -> dict[str, str]:
    """The variables that a process is counted with: few, and the same in every run."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment.update(dict.fromkeys(THREADS, "1"), LC_ALL="C.UTF-8")
    environment.update(build.environment)
    environment.update(PYTHONHASHSEED=str(seed), PYTHONDONTWRITEBYTECODE="1")
    environment.pop("PYTHONPATH", None)
    if build.tree:
        environment["PYTHONPATH"] = build.tree
    return environment
