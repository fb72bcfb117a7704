"""Blocks: fresh processes of every build alive at once on one core, sampled in turn.

A machine drifts by more than the steps we look for, so builds are compared only with what ran
beside them: a round starts one process a build, samples them about 10 ms at a time in a balanced
random order, and reports one run a build. The next round has new processes, so that the layout
of memory, which a process keeps for life, is sampled as well.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from bisectorch.errors import UsageError
from bisectorch.measure.caches import HoldsCaches, SetupCaches
from bisectorch.measure.child import Child, Switchboard, child_environment
from bisectorch.measure.schedule import balanced_order, sample_count
from bisectorch.measure.seats import Seat, Start, Worker, observations, vacate
from bisectorch.model import Block, Build, Observation, Outcome, Purpose, Workload

PADDING_BYTES = 4096
HEAP_PADDING_BYTES = 1 << 16

Origin = tuple[str, int, str, str]
"""What tells the processes apart that copies are made of: a build's commit, salt and place."""


class PairedMeasurer(HoldsCaches):
    """Measures builds side by side (seams.Measurer and seams.BlockMeasurer).

    Close it, or use it as a context manager, to remove the directories it made; they also go
    when it does.

    Attributes:
        warming_seconds: the wall time that warming up and calibrating has taken.
        sampling_seconds: the wall time that taking samples has taken; the rest went into
            starting processes, importing, and setups.
    """

    def __init__(
        self,
        benchmark_dir: Path,
        *,
        core: int | None = None,
        seed: int = 20170601,
        samples: int = 20,
        sample_seconds: float = 0.01,
        start_timeout_seconds: float = 300.0,
        overlap: bool = False,
        cache_dir: Path | None = None,
        attributes: Mapping[str, object] | None = None,
        start: Start | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Choose how to measure; nothing is started yet.

        Args:
            benchmark_dir: asv's benchmark directory.
            core: the core that measures; the last one this process may use by default.
            seed: of the order of sampling and of the layouts.
            samples: how many samples a run takes of a benchmark that allows it.
            sample_seconds: how long one sample takes, unless the benchmark says itself.
            start_timeout_seconds: how long importing the project may take.
            overlap: start the next round's processes on another core, where there is one,
                while a round is measured: a third less time where importing is slow, but the
                imports' traffic in caches and memory multiplies the noise of some workloads
                (a small backward: 0.3 % alone, 3 % beside imports); twice as many processes.
            cache_dir: where to make temporary directories; the system's place by default.
            attributes: asv's benchmark attributes that override the benchmarks' own.
            start: starts a worker, for tests.
            clock: seconds that never run backwards, for tests.

        Raises UsageError when this process may not use the core.
        """
        allowed = _allowed_cores()
        if core is not None and allowed and core not in allowed:
            raise UsageError(
                f"core {core} is not one that this process may use; "
                f"choose one of {', '.join(map(str, allowed))}"
            )
        self._benchmark_dir = str(Path(benchmark_dir).absolute())
        self._core = core if core is not None else (allowed[-1] if allowed else None)
        self._others = [other for other in allowed if other != self._core]
        self._seed = seed
        self._samples = samples
        self._sample_seconds = sample_seconds
        self._start_timeout = start_timeout_seconds
        self._overlap = overlap and bool(self._others)
        self._attributes = {k: v for k, v in (attributes or {}).items() if k != "cpu_affinity"}
        self._board = Switchboard()
        self._start = start or self._start_child
        self._clock = clock
        self._caches = SetupCaches(cache_dir)
        self._uncopied: set[str] = set()
        self.warming_seconds = 0.0
        self.sampling_seconds = 0.0

    def measure(
        self,
        builds: Sequence[Build],
        workload: Workload,
        runs: int,
        block: str,
        purpose: Purpose,
    ) -> Iterator[Observation]:
        """Measure each build in ``runs`` rounds of fresh processes; a round is one block.

        Yields one observation a build as each round ends, its run in the block
        ``{block}.{round}``. A build that fails yields its outcome once, and the others go on
        without it. Closing the generator, like any exception, kills every process.

        Raises EnvironmentFailure when a build's interpreter cannot be started, or lacks
        asv_runner.
        """
        staying = list(builds)
        seats: list[Seat] = []
        following: list[Seat] = []
        try:
            for number in range(runs):
                if not staying:
                    return
                name = f"{block}.{number}"
                began, started_seconds = self._clock(), time.time()
                rng = self._chance(workload.name, name)
                seats, following = following, []
                if not seats:
                    self._seat(seats, staying, workload, rng, self._starting_cores())
                self._make_ready(seats, workload)
                self._pin(seats)
                ready = [seat for seat in seats if seat.fault is None]
                if self._overlap and number + 1 < runs:
                    next_rng = self._chance(workload.name, f"{block}.{number + 1}")
                    staying = [seat.build for seat in ready]
                    self._seat(following, staying, workload, next_rng, self._others)
                self._take(seats, workload, rng)
                vacate(seats)
                staying = [seat.build for seat in ready if seat.fault is None]
                if following:
                    fates = list(zip(ready, following, strict=True))
                    vacate([after for seat, after in fates if seat.fault is not None])
                    following = [after for seat, after in fates if seat.fault is None]
                seconds = (self._clock() - began) / len(seats)
                yield from observations(seats, workload, purpose, name, started_seconds, seconds)
        finally:
            vacate(seats)
            vacate(following)

    def measure_in_turn(self, blocks: Sequence[Block]) -> Iterator[Observation]:
        """Measure the blocks in random order (seams.BlockMeasurer).

        Each build's process imports the project once and is copied for each of its blocks, so a
        run starts in milliseconds and finds nothing of the runs before it. The process is what
        the runs of one call share: blocks of one workload are better measured by several calls.
        Timings only; what else there is, and what goes wrong in a copy, is measured in fresh
        processes. So a fault is always a fresh process's.

        Yields one observation a build as each block ends.
        """
        origins: dict[Origin, Seat] = {}
        lame: set[Origin] = set()
        chance = self._chance("in turn", "|".join(block.name for block in blocks))
        order = chance.sample(list(blocks), len(blocks))
        try:
            for place, block in enumerate(order):
                began = self._clock()
                seen = None
                if self._can_copy(block):
                    rest = [other for other in order[place:] if self._can_copy(other)]
                    lame |= self._start_origins(origins, rest, lame)
                    seen = self._copy_what_can_be(origins, lame, block, began)
                if seen is None:
                    yield from self.measure(
                        block.builds, block.workload, 1, block.name, block.purpose
                    )
                else:
                    yield from seen
        finally:
            vacate(list(origins.values()))

    def _can_copy(self, block: Block) -> bool:
        """Whether its runs may be copies, as far as is known."""
        return block.workload.kind == "time" and block.workload.name not in self._uncopied

    def _copy_what_can_be(
        self, origins: dict[Origin, Seat], lame: Set[Origin], block: Block, began: float
    ) -> list[Observation] | None:
        """The block in copies, but for builds that have no origin: those fail by themselves.

        None when it has to be measured in fresh processes altogether.
        """
        apart = tuple(build for build in block.builds if _origin(build) in lame)
        faults = list(self.measure(apart, block.workload, 1, f"{block.name}.apart", block.purpose))
        if any(fault.outcome is Outcome.MEASURED for fault in faults):
            return None
        together = replace(block, builds=tuple(b for b in block.builds if b not in apart))
        if not together.builds:
            return faults
        seen = self._measure_copies(origins, together, began)
        if seen is None:
            self._uncopied.add(block.workload.name)
            return None
        return faults + seen

    def _measure_copies(
        self, origins: dict[Origin, Seat], block: Block, began: float
    ) -> list[Observation] | None:
        """One block in copies of its builds' origins; None when it cannot be had in this way.

        The block's origins then are of no use any more, and gone. Its runs cost the time since
        ``began``.
        """
        workload, name = block.workload, f"{block.name}.0"
        started_seconds = time.time()
        rng = self._chance(workload.name, name)
        padding = rng.randrange(HEAP_PADDING_BYTES)
        seats = [
            Seat(build, self._caches.scratch(), origins[_origin(build)].worker)
            for build in block.builds
        ]
        try:
            for seat in seats:
                seat.attempt(partial(self._copy, directory=seat.directory, padding=padding))
                seat.attempt(partial(self._send_load, workload=workload))
                if self._caches.known(seat.build, workload):
                    self._send_setup(seat, workload)
            self._make_ready(seats, workload)
            if self._core is not None:
                core = self._core
                for seat in seats:
                    seat.attempt(lambda worker: worker.ask("move", self._start_timeout, core=core))
            self._take(seats, workload, rng)
            for seat in seats:
                seat.attempt(lambda worker: worker.ask("end", self._start_timeout))
            if any(seat.fault for seat in seats):
                vacate([origins.pop(_origin(build)) for build in block.builds])
                return None
            seconds = (self._clock() - began) / len(seats)
            return list(
                observations(seats, workload, block.purpose, name, started_seconds, seconds)
            )
        finally:
            for seat in seats:
                shutil.rmtree(seat.directory, ignore_errors=True)

    def _start_origins(
        self, origins: dict[Origin, Seat], blocks: Sequence[Block], lame: Set[Origin]
    ) -> set[Origin]:
        """Start a process for each build of the blocks that has none, the benchmark imported.

        They stay on the cores that they start on, so that their copies can be set up side by
        side. Returns those that could not be had.
        """
        starting: list[Seat] = []
        rng = self._chance("origins", "|".join(block.name for block in blocks))
        hash_seed, padding = _layout(rng)
        cores = self._starting_cores()
        for block in blocks:
            for build in block.builds:
                if _origin(build) in origins or _origin(build) in lame:
                    continue
                seat = Seat(build, self._caches.scratch())
                origins[_origin(build)] = seat
                core = cores[len(starting) % len(cores)] if cores else None
                starting.append(seat)
                seat.worker = self._begin(
                    build, block.workload, seat.directory, core, hash_seed, padding
                )
        for seat in starting:
            seat.attempt(lambda worker: worker.answer())
        failed = {_origin(seat.build) for seat in starting if seat.fault is not None}
        for key in failed:
            del origins[key]
        return failed

    def _copy(self, worker: Worker, directory: Path, padding: int) -> None:
        worker.ask("fork", self._start_timeout, directory=str(directory), padding=padding)

    def _pin(self, seats: Sequence[Seat]) -> None:
        if self._core is not None:
            core = self._core
            for seat in seats:
                seat.attempt(lambda worker: worker.pin(core))

    def _chance(self, what: str, block: str) -> random.Random:
        return random.Random(f"{self._seed}|{what}|{block}")

    def _starting_cores(self) -> list[int]:
        """Where processes start while nothing is measured: on every core, but one core each.

        One each, because a library that counts its cores when imported must count one.
        """
        return [*self._others, self._core] if self._core is not None else []

    def _seat(
        self,
        seats: list[Seat],
        builds: Sequence[Build],
        workload: Workload,
        rng: random.Random,
        cores: Sequence[int],
    ) -> None:
        """Start a worker a build; the workers of a round share what varies between rounds."""
        hash_seed, padding = _layout(rng)
        for position, build in enumerate(builds):
            seat = Seat(build, self._caches.scratch())
            seats.append(seat)
            core = cores[position % len(cores)] if cores else None
            seat.worker = self._begin(build, workload, seat.directory, core, hash_seed, padding)
            if self._caches.known(build, workload):
                self._send_setup(seat, workload)

    def _begin(
        self,
        build: Build,
        workload: Workload,
        directory: Path,
        core: int | None,
        hash_seed: int = 0,
        padding: int = 0,
    ) -> Worker:
        """Start a worker and have it import the benchmark."""
        environment = child_environment(build.tree, build.environment, hash_seed, padding)
        worker = self._start(build, environment, directory, core)
        self._send_load(worker, workload)
        return worker

    def _send_load(self, worker: Worker, workload: Workload) -> None:
        suffix = "" if workload.param_index is None else f"-{workload.param_index}"
        worker.send(
            "load",
            self._start_timeout,
            benchmark_dir=self._benchmark_dir,
            name=workload.benchmark + suffix,
            attributes=self._attributes,
        )

    def _start_child(
        self, build: Build, environment: Mapping[str, str], directory: Path, core: int | None
    ) -> Worker:
        return Child(self._board, build.python, environment, directory, core)

    def _send_setup(self, seat: Seat, workload: Workload) -> None:
        """Have it set up, on the filled cache where there is one, and make the first call."""

        def send(worker: Worker) -> None:
            cache = self._caches.directory(seat.build, workload)
            worker.send(
                "setup",
                workload.timeout_seconds,
                cache_dir=None if cache is None else str(cache),
            )

        seat.attempt(send)
        # Made here, before the seats move to the one core: the first call may import for long.
        seat.attempt(lambda worker: worker.send("call_once", workload.timeout_seconds))
        seat.setting_up = True

    def _make_ready(self, seats: Sequence[Seat], workload: Workload) -> None:
        """Await imports, setups and first calls, running setup_cache where due."""
        for seat in seats:
            about = seat.attempt(lambda worker: worker.answer())
            if about is None:
                continue
            seat.sampled = about["sampled"]
            if not seat.setting_up:
                build = seat.build
                self._caches.fill(
                    build,
                    workload,
                    about["cache_key"],
                    about["cache_timeout"] or workload.timeout_seconds,
                    partial(self._begin, build, workload, core=self._core),
                )
                self._send_setup(seat, workload)
        for seat in seats:
            for _ in ("setup", "call_once"):
                seat.attempt(lambda worker: worker.answer())

    def _take(self, seats: Sequence[Seat], workload: Workload, rng: random.Random) -> None:
        """Fill the seats' samples, then tear down; seats whose worker fails end up empty."""
        if all(seat.sampled for seat in seats):
            self._sample_in_turn(seats, workload, rng)
        else:
            for seat in rng.sample(seats, len(seats)):
                result = seat.attempt(lambda worker: worker.ask("run", workload.timeout_seconds))
                if result is not None:
                    seat.samples, seat.number = tuple(result["samples"]), result["number"]
        for seat in seats:
            seat.attempt(lambda worker: worker.ask("teardown", workload.timeout_seconds))

    def _sample_in_turn(
        self, seats: Sequence[Seat], workload: Workload, rng: random.Random
    ) -> None:
        timeout = workload.timeout_seconds
        cycles = self._samples
        began = self._clock()
        for seat in rng.sample(seats, len(seats)):
            calibrated = seat.attempt(
                lambda worker: worker.ask("calibrate", timeout, sample_seconds=self._sample_seconds)
            )
            if calibrated is not None:
                seat.number = calibrated.pop("number")
                count = sample_count(self._samples, self._sample_seconds, **calibrated)
                cycles = min(cycles, count)
        warm = self._clock()
        taken: list[list[float]] = [[] for _ in seats]
        for cycle in balanced_order(len(seats), cycles, rng):
            for position in cycle:
                sample = seats[position].attempt(lambda worker: worker.ask("sample", timeout))
                if sample is not None:
                    taken[position].append(sample)
        for seat, samples in zip(seats, taken, strict=True):
            if seat.fault is None:
                seat.samples = tuple(samples)
        self.warming_seconds += warm - began
        self.sampling_seconds += self._clock() - warm


def _origin(build: Build) -> Origin:
    return build.sha, build.salt, build.tree, build.python


def _layout(rng: random.Random) -> tuple[int, int]:
    """A seed of hashes and a number of bytes, for processes that are to lie alike in memory."""
    return rng.randrange(2**32), rng.randrange(PADDING_BYTES)


def _allowed_cores() -> list[int]:
    """The cores this process may use; empty where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))
