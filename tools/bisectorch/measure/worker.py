"""The child: one benchmark of one build, one measurement each time it is asked.

Started as a script, ``python -s worker.py COMMAND_FD REPLY_FD PARENT_PID``, by the interpreter of
the build under measurement; so this file imports the standard library and asv_runner only, keeps
to Python 3.6 syntax, and never imports the tracker. It reads one JSON object a line from
COMMAND_FD, ``{"do": NAME, "with": {...}}``, and answers each with one line on REPLY_FD:
``{"ok": RESULT}``, ``{"skipped": TEXT}`` or ``{"error": TEXT, "fault": KIND}``. What the benchmark
prints goes to the inherited standard output and error and cannot disturb the answers.

A benchmark is found, parametrised, set up and torn down by asv_runner itself, so every kind of
benchmark means here what it means to ``asv run``. The one thing done differently is how timings
are gathered: asv takes all its samples in a row; here a sample is taken when asked for, so that
samples of several builds can alternate.
"""

import contextlib
import json
import math
import os
import pickle
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

WARM_UP_SECONDS = 0.1
"""How long a benchmark is called before its calibration counts, unless it says itself."""

UNTIMED_FACTOR = 4.0
"""A sample may spend this many times its timed seconds, so a costly setup cannot stretch it."""

LONG_CALL_SECONDS = 1.0
"""A first call that takes longer is not worth a second one to calibrate by."""

TEXT_LIMIT = 300
"""Characters of an exception's message that are told."""


class NoRunner(Exception):
    """asv_runner cannot be imported by this interpreter."""


class Skipped(Exception):
    """The benchmark says that it does not apply here."""


class Session:
    """One loaded benchmark; its public methods are the commands, in the order they are given."""

    def __init__(self) -> None:
        self.benchmark: Any = None
        self.sampled = False
        self.take: Optional[Callable[[int], float]] = None
        self.first_wall = 0.0
        self.apart = False
        self.core_clock: Optional[CoreClock] = None
        self.shortest_gap = math.inf
        self.unit_calls = 1
        self.units = 1
        self.reheat = 0
        self.calls = 1

    def load(self, benchmark_dir: str, name: str, attributes: Dict[str, Any]) -> Dict[str, Any]:
        """Import the benchmark, and with it the project.

        ``name`` ends in ``-INDEX`` when it has parameters; ``attributes`` override its own.
        """
        try:
            from asv_runner.benchmarks.time import TimeBenchmark
            from asv_runner.discovery import get_benchmark_from_name
        except ImportError as error:
            raise NoRunner(str(error)) from error
        benchmark = get_benchmark_from_name(benchmark_dir, name, extra_params=attributes)
        self.benchmark = benchmark
        own_run = getattr(type(benchmark), "run", None) is not TimeBenchmark.run
        self.sampled = isinstance(benchmark, TimeBenchmark) and not own_run
        return {
            "sampled": self.sampled,
            "cache_key": benchmark.setup_cache_key,
            "cache_timeout": benchmark.setup_cache_timeout,
        }

    def fill_cache(self) -> None:
        """Run setup_cache and leave its pickle in the working directory."""
        cache = self.benchmark.do_setup_cache()
        with open("cache.pickle", "wb") as file:
            pickle.dump(cache, file)

    def setup(self, cache_dir: Optional[str]) -> None:
        """Enter the directory of the filled cache, if there is one, and run the setups."""
        benchmark = self.benchmark
        cache = None
        if cache_dir is not None:
            os.chdir(cache_dir)
            with open("cache.pickle", "rb") as file:
                cache = pickle.load(file)
        if hasattr(benchmark, "set_cache"):
            benchmark.set_cache(cache)
        elif cache is not None:
            benchmark.insert_param(cache)
        if benchmark.do_setup():
            raise Skipped("skipped")

    def move(self, core: int) -> None:
        """Go on on this core, every thread of it."""
        if hasattr(os, "sched_setaffinity"):
            for thread in os.listdir("/proc/self/task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), {core})

    def call_once(self) -> None:
        """Make the first call, which may pay for what later ones find done (a lazy import).

        Nothing is measured by it, so several builds may do this at the same time on all cores.
        A benchmark that is not sampled is left alone.
        """
        if not self.sampled:
            return
        self.take, self.unit_calls, self.apart = how_to_take(self.benchmark)
        if getattr(self.benchmark, "timer", None) in (time.perf_counter, time.monotonic, time.time):
            self.core_clock = CoreClock.open()
        _, self.first_wall = self.timed_and_wall(1)

    def calibrate(self, sample_seconds: float) -> Dict[str, Any]:
        """After the first call: warm up, and settle what makes a sample of ``sample_seconds``.

        With setups and no ``number`` of its own, asv times single calls, each on fresh state. A
        sample here is as many of those as fill it, divided by their count. A ``number`` that the
        benchmark sets is kept in the same way: whole repetitions of it fill the sample.
        """
        benchmark = self.benchmark
        seconds = float(own_attribute(benchmark, "sample_time", sample_seconds))
        wall = self.first_wall
        wanted = units = 1
        warm = time.perf_counter() + warm_up_seconds(benchmark)
        while wall < LONG_CALL_SECONDS:
            timed, wall = self.timed_and_wall(units)
            wanted = min(fill(units, timed, seconds), fill(units, wall, UNTIMED_FACTOR * seconds))
            full = timed >= seconds or wall >= UNTIMED_FACTOR * seconds
            if full and time.perf_counter() >= warm:
                break
            units = min(wanted if full else max(units + 1, wanted), 10 * units)
        self.units = wanted
        self.calls = wanted * self.unit_calls
        self.reheat = max(1, wanted // 10) if wall / units < seconds else 0
        most, most_seconds = repeat_limits(own_attribute(benchmark, "repeat", 0))
        return {
            "number": self.calls,
            "wall_seconds": wall * wanted / units,
            "most": most,
            "most_seconds": most_seconds,
        }

    def sample(self) -> float:
        """Seconds of one call, averaged over one sample.

        Wall time, less what the sample spent waiting for a core that others held: that is a
        property of the neighbours, not of the build. The calls before it, a tenth as many, are not
        counted: the worker sampled before left the core's caches cold.
        """
        if self.reheat:
            self.timed_and_wall(self.reheat)
        return self.timed_and_wall(self.units)[0] / self.calls

    def timed_and_wall(self, units: int) -> Tuple[float, float]:
        """Seconds timed in so many units, and spent on them in all; both as ``sample`` says.

        Units with untimed setups between them are taken one by one, each with its own loss.
        """
        if self.take is None:
            raise RuntimeError("sample before the first call")
        if not self.apart:
            return self._timed_and_wall(units)
        each = [self._timed_and_wall(1) for _ in range(units)]
        return math.fsum(timed for timed, _ in each), math.fsum(wall for _, wall in each)

    def _timed_and_wall(self, units: int) -> Tuple[float, float]:
        assert self.take is not None
        if self.core_clock is None:
            begin = time.perf_counter()
            return self.take(units), time.perf_counter() - begin
        before = self.core_clock.read()
        timed = self.take(units)
        wall, lost = self.core_clock.since(before)
        # A loss just before or after the timing shows as a gap that is longer than the shortest.
        self.shortest_gap = min(self.shortest_gap, wall - timed)
        inside = max(0.0, lost - (wall - timed - self.shortest_gap))
        return max(0.0, timed - inside), wall - lost

    def run(self) -> Dict[str, Any]:
        """Run a benchmark that yields its own number: track_, mem_, peakmem_, or a plug-in's."""
        result = self.benchmark.do_run()
        number = 1
        if isinstance(result, dict):
            samples = [float(sample) for sample in result["samples"]]
            number = int(result.get("number") or 1)
        elif result is None:
            raise ValueError("the benchmark returned None where a number is due")
        else:
            samples = [float(result)]
        if not samples or any(math.isnan(sample) for sample in samples):
            raise Skipped("skipped")
        if any(math.isinf(sample) for sample in samples):
            raise ValueError("the benchmark returned an infinite number")
        if self.benchmark.type == "peakmemory":
            own_peak = peak_bytes()
            if own_peak is not None:
                samples = [min(sample, own_peak) for sample in samples]
        return {"samples": samples, "number": number}

    def teardown(self) -> None:
        """Run the teardowns."""
        self.benchmark.do_teardown()


def how_to_take(benchmark: Any) -> Tuple[Callable[[int], float], int, bool]:
    """How to time so many units of a time_ benchmark, the calls in one unit, and whether apart.

    Units are taken apart, one at a time, where something untimed comes between them. asv's own
    timer is used throughout; it disables garbage collection while it times.
    """
    build_params = getattr(benchmark, "_build_params", None)  # asv_runner >= 0.3
    params = build_params() if build_params else tuple(benchmark._current_params)
    fresh = bool(benchmark._setups) and getattr(benchmark, "_setup_isolates_timed_calls", False)
    number = int(benchmark.number)
    if fresh and number > 1:
        timeit = benchmark._get_interleaved_timer(*params).timeit
    else:
        timeit = benchmark._get_timer(*params).timeit
    if number == 0 and not fresh:
        return timeit, 1, False
    calls = max(number, 1)
    return (lambda units: timeit(calls)), calls, True


def warm_up_seconds(benchmark: Any) -> float:
    """How long to call it first: as it says, else longer where a compiler has to warm up."""
    if benchmark.warmup_time >= 0:
        return float(benchmark.warmup_time)
    return {"pypy": 1.0, "graalpy": 5.0}.get(sys.implementation.name, WARM_UP_SECONDS)


class CoreClock:
    """How long this process was ready to run while its core ran something else (Linux).

    The kernel counts it for each thread, in nanoseconds, as the second number of
    /proc/.../schedstat. Waiting for a thread of our own is part of the work and not counted:
    the loss is never more than the wall time in which no thread of this process ran.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def open(cls) -> "Optional[CoreClock]":
        """The main thread's clock, or None where the kernel keeps none."""
        try:
            descriptor = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            clock = cls(descriptor)
            clock.read()
        except (OSError, ValueError, IndexError, AttributeError):
            return None
        return clock

    def read(self) -> Tuple[float, float, float]:
        """Seconds: wall time, processor time of the process, waiting of this thread."""
        waited = 1e-9 * int(os.pread(self.descriptor, 128, 0).split()[1])
        return time.perf_counter(), time.process_time(), waited

    def since(self, before: Tuple[float, float, float]) -> Tuple[float, float]:
        """Wall seconds since ``before``, and how many of them were lost to others."""
        wall, used, waited = (now - then for now, then in zip(self.read(), before))  # noqa: B905
        return wall, max(0.0, min(waited, wall - used))


def fill(units: int, seconds: float, wanted: float) -> int:
    """How many units take ``wanted`` seconds when ``units`` of them took ``seconds``; >= 1."""
    return max(1, math.ceil(units * wanted / seconds)) if seconds > 0 else 10 * units


def own_attribute(benchmark: Any, name: str, default: Any) -> Any:
    """An attribute as the benchmark, its class or its module sets it, or the default."""
    for source in benchmark._attr_sources:
        value = getattr(source, name, None)
        if value is not None:
            return value
    return default


def repeat_limits(repeat: Any) -> List[Optional[float]]:
    """The most samples and the most seconds that asv's ``repeat`` attribute allows."""
    try:
        _, most, seconds = repeat
        return [int(most), float(seconds)]
    except (TypeError, ValueError):
        return [int(repeat) or None, None]


def peak_bytes() -> Optional[float]:
    """The peak resident size of this program alone, in bytes; None where the system does not tell.

    ``ru_maxrss``, which asv reads, survives exec on Linux and so starts at the size of whoever
    started this process; VmHWM belongs to the program.
    """
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return 1024.0 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def describe(error: BaseException) -> str:
    """One line: the exception, the first line of its message, and where it was raised."""
    try:
        message = str(error).strip()
    except Exception:
        message = "(message cannot be shown)"
    text = type(error).__name__
    if message:
        first = message.splitlines()[0]
        text += ": " + (first if len(first) <= TEXT_LIMIT else first[: TEXT_LIMIT - 3] + "...")
    if isinstance(error, SyntaxError):
        return text  # its message names the file and line
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename
        if not path.startswith("<") and path != __file__:
            place = " (%s:%d)" % (os.path.basename(path), traceback.tb_lineno)
        traceback = traceback.tb_next
    return text + place


def answer(session: Session, command: Dict[str, Any]) -> Dict[str, Any]:
    """Carry out one command; whatever goes wrong becomes part of the answer."""
    stage = command["do"]
    try:
        return {"ok": getattr(session, stage)(**command["with"])}
    except NoRunner as error:
        return {"error": str(error), "fault": "no runner"}
    except Skipped as error:
        return {"skipped": str(error)}
    except MemoryError as error:
        return {"error": "out of memory: " + describe(error), "fault": "raised"}
    except BaseException as error:
        if stage == "load" and isinstance(error, ValueError) and "Could not find" in str(error):
            return {"error": str(error), "fault": "unknown"}
        if stage != "load" and type(error).__name__ == "SkipNotImplemented":
            return {"skipped": "skipped"}
        return {"error": describe(error), "fault": "raised"}


def die_with(parent: int) -> None:
    """Arrange to be killed when the parent dies, even while busy (Linux; elsewhere: at EOF)."""
    if sys.platform.startswith("linux"):
        set_parent_death_signal = 1
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes
            import signal

            ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0)
    # A sandbox may stand between, which dies with the parent, too.
    if parent not in (os.getppid(), parent_of(os.getppid())):
        os._exit(1)


def parent_of(pid: int) -> int:
    """The parent of another process; 0 where that cannot be told."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def reply(descriptor: int, message: Dict[str, Any]) -> None:
    """Write one line, however many writes it takes."""
    rest = json.dumps(message).encode("utf-8") + b"\n"
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def serve(command_fd: int, reply_fd: int) -> None:
    """Answer commands until the other end closes.

    ``fork`` makes a copy of this process, which answers in its place until it is told to ``end``,
    or ends; the line after its last answer then is ``{"ended": STATUS}``. So what was imported
    before is imported once, and every copy starts from the same clean state. asv's fork server
    does the same. The copy enters ``directory`` and moves what it allocates by ``padding`` bytes.
    """
    # Unbuffered: what a copy is to read must not wait in the memory of the process it copies.
    commands = open(command_fd, "rb", buffering=0, closefd=False)  # noqa: SIM115
    session = Session()
    kept = []
    for line in iter(commands.readline, b""):
        command = json.loads(line.decode("utf-8"))
        if command["do"] == "end":
            os._exit(0)
        if command["do"] != "fork":
            reply(reply_fd, answer(session, command))
            continue
        own = os.getpid()
        try:
            copy = os.fork()
        except OSError as error:
            reply(reply_fd, {"error": describe(error), "fault": "raised"})
            continue
        if copy:
            reply(reply_fd, {"ended": os.waitpid(copy, 0)[1]})
            continue
        die_with(own)
        os.chdir(command["with"]["directory"])
        kept.append(bytearray(command["with"]["padding"]))
        session = Session()
        reply(reply_fd, {"ok": None})


def main(argv: List[str]) -> None:
    """Set the stage, then answer commands."""
    command_fd, reply_fd, parent = (int(word) for word in argv)
    die_with(parent)
    # This file's directory heads sys.path; its modules must not shadow the project's.
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != own]
    os.set_inheritable(command_fd, False)
    os.set_inheritable(reply_fd, False)
    serve(command_fd, reply_fd)
    os._exit(0)  # the interpreter's own ending takes long under a large library


if __name__ == "__main__":
    main(sys.argv[1:])
