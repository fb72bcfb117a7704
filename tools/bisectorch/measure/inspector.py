"""The child that counts instructions, and tells what it runs on; beside worker.py, as that is.

Started as ``python -s inspector.py COMMAND_FD REPLY_FD PARENT_PID``, under valgrind where the
kernel counts nothing. It imports the standard library and worker.py, keeps to Python 3.6 syntax,
and answers as the worker does. A benchmark is loaded, set up and called by the very code that
times it; only the clock that ``timeit`` reads on either side of the calls counts instructions.
"""

import ctypes
import errno
import importlib.util
import json
import mmap
import os
import platform
import struct
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

ENOUGH_INSTRUCTIONS = 2e6
"""A window of calls holds about so many, so that what surrounds it is nothing beside it."""

MOST_UNITS = 1024
MOST_READINGS = 16
"""Where every call reads the clock, a window has no more readings: each takes a good while."""

WINDOWS = 3
"""How many windows callgrind counts; the first call and the first window are thrown away."""

CHEAP_WINDOWS = 15
"""How many the kernel counts: interrupts move its counts a little, and they cost nothing."""

LONG_CALL_SECONDS = 20.0
"""A call that takes longer is counted once more, and no further."""

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
"""The number of the system call (man 2 perf_event_open), by platform.machine()."""

HARDWARE, INSTRUCTIONS = 0, 1
"""PERF_TYPE_HARDWARE and PERF_COUNT_HW_INSTRUCTIONS."""

_FLAGS = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6  # disabled, inherit, exclude_kernel, exclude_hv
_TIMES = 1 << 0 | 1 << 1  # read the time enabled and the time running with the count
_ENABLE = 0x2400

_RUNNING_ON_VALGRIND = 0x1001
_READ_WRITE_EXECUTE = 1 | 2 | 4
_DUMP, _ZERO, _START, _STOP = 0x43540000, 0x43540001, 0x43540004, 0x43540005
"""callgrind's requests (valgrind/callgrind.h): the letters C and T, then a number."""

_REQUEST_X86_64 = bytes(
    bytearray.fromhex(
        "4889f8"  # mov rax, rdi: the address of the request
        "31d2"  # xor edx, edx: the answer where nobody listens
        "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61 and 51: nothing, in effect
        "4887db"  # xchg rbx, rbx
        "4889d0 c3"  # mov rax, rdx; ret
    )
)
"""A client request as valgrind.h has the compiler write it; outside valgrind it does nothing."""

BLAS = ("mkl_rt", "mkl_core", "openblas", "blis", "Accelerate", "libblas", "libcblas")
THREADS = ("gomp", "iomp5", "libomp", "tbb")


class NotCounted(Exception):
    """Instructions cannot be counted; the text says why and what helps."""


class PerfClock(object):
    """Instructions that this thread and those it starts execute in user space (Linux).

    Called like a timer, it returns how many there were since it was opened. Open it before the
    project is imported: threads that exist already are not counted.
    """

    name = "perf events"
    windows = CHEAP_WINDOWS

    def __init__(self, kind: int = HARDWARE, event: int = INSTRUCTIONS) -> None:
        """Open the counter; NotCounted where the kernel or the processor has none."""
        number = PERF_EVENT_OPEN.get(platform.machine())
        if number is None or not sys.platform.startswith("linux"):
            raise NotCounted("this system has no perf events")
        attributes = struct.pack("=IIQQQQQIIQ", kind, 64, event, 0, 0, _TIMES, _FLAGS, 0, 0, 0)
        library = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(attributes, 64)
        close_on_exec = 8
        self._descriptor = library.syscall(number, buffer, 0, -1, -1, close_on_exec)
        if self._descriptor < 0:
            raise NotCounted(why_refused(ctypes.get_errno()))
        if library.ioctl(self._descriptor, _ENABLE, 0) < 0:
            raise NotCounted("the kernel's counter does not start")
        self()

    def __call__(self) -> float:
        """Instructions until now."""
        count, enabled, running = struct.unpack("=QQQ", os.read(self._descriptor, 24))
        if running < enabled:
            raise NotCounted("the processor's counters are shared with another program")
        return float(count)

    def start(self) -> None:
        """It runs since it was opened."""

    def stop(self) -> None:
        """It runs to the end."""

    def close(self) -> None:
        """Give the counter back."""
        os.close(self._descriptor)


def why_refused(error: int) -> str:
    """What the kernel means by refusing a counter, and what helps."""
    if error in (errno.EACCES, errno.EPERM):
        return (
            "the kernel does not permit to count instructions "
            "(sysctl kernel.perf_event_paranoid=2 does, a container may forbid it besides)"
        )
    if error in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "the processor's counters are not to be had here (as in many virtual machines)"
    return "the kernel counts no instructions here: " + os.strerror(error)


class CallgrindClock(object):
    """Instructions of this whole process, counted by the callgrind that runs it.

    Each call writes what was counted since the last one into a file, adds it up and starts from
    zero: its own work is not counted, but for what lies between the zero and its return.
    """

    name = "callgrind"
    windows = WINDOWS

    def __init__(self, prefix: str) -> None:
        """``prefix`` is how the names of callgrind's files begin; NotCounted outside callgrind."""
        if platform.machine() not in ("x86_64", "AMD64"):
            raise NotCounted("callgrind can be told when to count on x86-64 only")
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=_READ_WRITE_EXECUTE)
        self._page.write(_REQUEST_X86_64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._request = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)(address)
        self._arguments = (ctypes.c_ulong * 6)()
        if not self._ask(_RUNNING_ON_VALGRIND):
            raise NotCounted("this process does not run under callgrind")
        self._prefix = prefix
        self._dumps = 0
        self._total = 0.0

    def _ask(self, request: int) -> int:
        self._arguments[0] = request
        return int(self._request(ctypes.addressof(self._arguments)))

    def __call__(self) -> float:
        """Instructions until now."""
        self._ask(_DUMP)
        self._dumps += 1
        path = "%s.%d" % (self._prefix, self._dumps)
        with open(path) as file:
            for line in file:
                if line.startswith(("summary:", "totals:")):
                    self._total += float(line.split()[1])
                    break
        os.unlink(path)
        self._ask(_ZERO)
        return self._total

    def start(self) -> None:
        """Count from now on; until then the program runs ten times faster."""
        self._ask(_START)

    def stop(self) -> None:
        """Count no longer."""
        self._ask(_STOP)

    def close(self) -> None:
        """Nothing is held."""


class Inspector(object):
    """One loaded benchmark, counted; its public methods are the commands, as the worker's are."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._session = worker.Session()
        self._clock: Any = None
        self.load = self._session.load
        self.setup = self._session.setup
        self.teardown = self._session.teardown

    def open(self, tool: str, prefix: str) -> None:
        """Make the clock, before anything is imported that starts threads."""
        self._clock = PerfClock() if tool == PerfClock.name else CallgrindClock(prefix)

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
    windows: int = WINDOWS,
) -> Tuple[List[float], int]:
    """Windows of so many units each, in instructions, free of what the clock adds; and the units.

    What the clock adds to a reading is the least that two in a row tell; units taken ``apart``
    hold ``readings`` of them each.
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
        raise NotCounted("only time_ benchmarks, which run in this process, can be counted")


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


def load_worker() -> Any:
    """worker.py as a module under a name that no project has."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
    spec = importlib.util.spec_from_file_location("bisectorch_measure_worker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(argv: List[str]) -> None:
    """Answer commands until the other end closes."""
    command_fd, reply_fd, parent = (int(word) for word in argv)
    worker = load_worker()
    worker.die_with(parent)
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != own]
    os.set_inheritable(command_fd, False)
    os.set_inheritable(reply_fd, False)
    inspector = Inspector(worker)
    with os.fdopen(command_fd, "r") as commands, os.fdopen(reply_fd, "w") as replies:
        for line in iter(commands.readline, ""):
            replies.write(json.dumps(worker.answer(inspector, json.loads(line))) + "\n")
            replies.flush()
        os._exit(0)  # the interpreter's own ending takes long under a large library


if __name__ == "__main__":
    main(sys.argv[1:])
