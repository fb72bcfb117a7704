"""The child that counts instructions, and tells what it runs on; beside worker.py, as that is.

Started as ``python -s inspector.py COMMAND_FD REPLY_FD PARENT_PID``, under valgrind where the
kernel counts nothing. It imports the standard library and worker.py, keeps to Python 3.6 syntax,
and answers as the worker does. A benchmark is loaded, set up and called by the very code that
times it; only the clock that ``timeit`` reads on either side of the calls counts instructions.
"""

import importlib.util
import json
import os
import platform
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

ENOUGH_INSTRUCTIONS = 2e6
"""A window of calls holds about so many, so that what surrounds it is nothing beside it."""

MOST_UNITS = 1024
MOST_READINGS = 16
"""Where every call reads the clock, a window has no more readings: each takes a good while."""

LONG_CALL_SECONDS = 20.0
"""A call that takes longer is counted once more, and no further."""

BLAS = ("mkl_rt", "mkl_core", "openblas", "blis", "Accelerate", "libblas", "libcblas")
THREADS = ("gomp", "iomp5", "libomp", "tbb")


class ElsewhereError(Exception):
    """The calls of a benchmark do not run in this process."""


class Inspector(object):
    """One loaded benchmark, counted; its public methods are the commands, as the worker's are."""

    def __init__(self, worker: Any, clocks: Any) -> None:
        self._worker = worker
        self._clocks = clocks
        self._session = worker.Session()
        self._clock: Any = None
        self.load = self._session.load
        self.setup = self._session.setup
        self.teardown = self._session.teardown

    def open(self, tool: str, prefix: str) -> None:
        """Make the clock, before anything is imported that starts threads."""
        clocks = self._clocks
        by_kernel = tool == clocks.PerfClock.name
        self._clock = clocks.PerfClock() if by_kernel else clocks.CallgrindClock(prefix)

    def count(self) -> Dict[str, Any]:
        """Instructions of one call of the benchmark, in several windows of calls."""
        refuse_other_processes(self._session.benchmark)
        clock = self._clock
        self._session.benchmark.timer = clock
        take, calls, apart = self._worker.how_to_take(self._session.benchmark)
        clock.start()
        try:
            readings = readings_apart(self._session.benchmark)
            windows, units = in_windows(take, clock, apart, readings, clock.windows)
        finally:
            clock.stop()
        number = units * calls
        return {"samples": [window / number for window in windows], "number": number}

    def surroundings(self) -> Dict[str, str]:
        """What this process runs on, by name; only what can be told."""
        return surroundings()


def readings_apart(benchmark: Any) -> int:
    """How often a unit taken apart reads the clock: asv reads it around every call on fresh state.

    That is, where there are setups and a ``number`` above 1; otherwise once around them all.
    """
    fresh = bool(benchmark._setups) and getattr(benchmark, "_setup_isolates_timed_calls", False)
    return max(1, int(benchmark.number)) if fresh else 1


def in_windows(
    take: Callable[[int], float],
    clock: Callable[[], float],
    apart: bool,
    readings: int = 1,
    windows: int = 3,
) -> Tuple[List[float], int]:
    """Windows of so many units each, in instructions, free of what the clock adds; and the units.

    What the clock adds to a reading is the least that two in a row tell; units taken ``apart``
    hold ``readings`` of them each. The first call and the first window are thrown away.
    """
    told = [clock() for _ in range(6)]
    own = min(after - before for before, after in zip(told, told[1:]))  # noqa: B905, RUF007

    def window(units: int) -> float:
        if apart:
            return sum(max(0.0, take(1) - readings * own) for _ in range(units))
        return max(0.0, take(units) - own)

    window(1)
    began = time.time()
    once = window(1)
    if time.time() - began > LONG_CALL_SECONDS:
        return [once], 1
    units = 1
    most = max(1, MOST_READINGS // readings) if apart else MOST_UNITS
    while units < most and units * once < ENOUGH_INSTRUCTIONS:
        units *= 2
    return [window(units) for _ in range(windows + 1)][1:], units


def refuse_other_processes(benchmark: Any) -> None:
    """Raise for a benchmark whose calls run elsewhere."""
    from asv_runner.benchmarks.time import TimeBenchmark

    kind = type(benchmark)
    if not isinstance(benchmark, TimeBenchmark) or kind._get_timer is not TimeBenchmark._get_timer:
        raise ElsewhereError("only time_ benchmarks, which run in this process, can be counted")


def surroundings() -> Dict[str, str]:
    """Interpreter, compilers, libraries of linear algebra and of threads, numbers of threads."""
    facts = {"python": platform.python_version(), "python compiler": platform.python_compiler()}
    libraries = mapped_libraries()
    facts["blas"] = ", ".join(library for library in libraries if any(n in library for n in BLAS))
    facts["thread library"] = ", ".join(
        library for library in libraries if any(name in library for name in THREADS)
    )
    facts["threads"] = str(threads_of(sys.modules.get("torch")) or running_threads() or "")
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch"] = str(getattr(torch, "__version__", ""))
        facts.update(built_with(torch))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        facts["numpy"] = str(getattr(numpy, "__version__", ""))
    return {name: text for name, text in facts.items() if text}


def built_with(torch: Any) -> Dict[str, str]:
    """What torch says it was built with: compiler and library of linear algebra."""
    try:
        said = torch.__config__.show().splitlines()
    except Exception:
        return {}
    lines = [line.strip(" -") for line in said]
    facts = {}
    for name, begins in (("compiler", ("GCC", "clang", "MSVC")), ("torch blas", ("Intel(R)",))):
        found = [line for line in lines if line.startswith(begins)]
        if found:
            facts[name] = found[0]
    return facts


def mapped_libraries() -> List[str]:
    """File names of the shared libraries that this process has loaded; empty if not known."""
    try:
        with open("/proc/self/maps") as file:
            paths = {line.split(None, 5)[5].strip() for line in file if ".so" in line}
    except (OSError, IndexError):
        return []
    return sorted({os.path.basename(path) for path in paths})


def threads_of(torch: Any) -> Optional[int]:
    """How many threads torch's operators use; None without torch."""
    try:
        return int(torch.get_num_threads())
    except Exception:
        return None


def running_threads() -> Optional[int]:
    """How many threads this process has; None where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None


def sibling(name: str) -> Any:
    """A file beside this one as a module, under a name that no project has."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("bisectorch_measure_" + name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(argv: List[str]) -> None:
    """Answer commands until the other end closes."""
    command_fd, reply_fd, parent = (int(word) for word in argv)
    worker = sibling("worker")
    worker.die_with(parent)
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != own]
    os.set_inheritable(command_fd, False)
    os.set_inheritable(reply_fd, False)
    inspector = Inspector(worker, sibling("clocks"))
    with os.fdopen(command_fd, "r") as commands, os.fdopen(reply_fd, "w") as replies:
        for line in iter(commands.readline, ""):
            replies.write(json.dumps(worker.answer(inspector, json.loads(line))) + "\n")
            replies.flush()
        os._exit(0)  # the interpreter's own ending takes long under a large library


if __name__ == "__main__":
    main(sys.argv[1:])
