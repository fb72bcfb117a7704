from __future__ import annotations

import errno
import os
import platform
import shutil
from pathlib import Path

import pytest
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.measure import clocks, inspector
from bisectorch.measure.clocks import WINDOWS, NotCounted, why_refused
from bisectorch.measure.counts import Tool, counted, find_tool, fixed_environment, is_countable
from bisectorch.measure.inspector import in_windows, surroundings
from bisectorch.model import Build, Route, Workload


class Program:
    """A program whose instructions are known: each call costs so many, each reading so many."""

    def __init__(self, call: float, reading: float = 70.0, first: float = 0.0) -> None:
        self.count = 0.0
        self.call = call
        self.reading = reading
        self.first = first
        self.calls = 0

    def clock(self) -> float:
        """As timeit reads it: the reading itself counts."""
        self.count += self.reading
        return self.count

    def take(self, units: int) -> float:
        """As timeit times so many calls; the first call of all pays for more."""
        begin = self.clock()
        for _ in range(units):
            self.count += self.call + (0.0 if self.calls else self.first)
            self.calls += 1
        return self.clock() - begin


def test_windows_hold_the_calls_alone() -> None:
    """Neither what the clock costs nor what the first call pays for is counted."""
    program = Program(500.0, first=1e7)
    windows, units = in_windows(program.take, program.clock, apart=False)
    assert units == inspector.MOST_UNITS
    assert [window / units for window in windows] == [500.0] * WINDOWS


def test_a_call_that_is_long_enough_is_counted_alone() -> None:
    """More calls would only take longer."""
    program = Program(inspector.ENOUGH_INSTRUCTIONS)
    windows, units = in_windows(program.take, program.clock, apart=False)
    assert units == 1
    assert windows == [inspector.ENOUGH_INSTRUCTIONS] * WINDOWS


@pytest.mark.parametrize("readings", [1, 4])
def test_calls_taken_apart_are_freed_of_every_reading(readings: int) -> None:
    """With setups between them the clock is read around each; then few are enough."""
    program = Program(500.0)

    def take(units: int) -> float:
        assert units == 1
        return sum(program.take(1) for _ in range(readings))

    windows, units = in_windows(take, program.clock, apart=True, readings=readings)
    assert units * readings <= inspector.MOST_READINGS
    assert [window / units for window in windows] == [500.0 * readings] * WINDOWS


def test_a_call_that_takes_very_long_is_counted_once_more_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Minutes under callgrind."""
    monkeypatch.setattr(inspector, "LONG_CALL_SECONDS", -1.0)
    program = Program(500.0)
    assert in_windows(program.take, program.clock, apart=False) == ([500.0], 1)
    assert program.calls == 2


def refusing(text: str) -> object:
    """A kernel that counts nothing."""

    def kernel() -> object:
        raise NotCounted(text)

    return kernel


def test_the_kernel_counts_where_it_can() -> None:
    """That costs nothing; valgrind is not looked for."""
    tool = find_tool(lambda: None)
    assert tool == Tool("perf events")
    assert tool.is_cheap
    assert tool.under(Path("/x")) == ()


def test_callgrind_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told to count nothing at first, and where its files go."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    tool = find_tool(refusing("no counters"))  # type: ignore[arg-type]
    assert tool.name == "callgrind"
    assert not tool.is_cheap
    program, *options = tool.under(Path("/x"))
    assert program == "/bin/valgrind"
    assert {"--tool=callgrind", "--instr-atstart=no"} < set(options)
    assert "--callgrind-out-file=/x/callgrind.out" in options


@pytest.mark.parametrize(
    ("valgrind", "processor", "says"),
    [
        (None, "x86_64", "no counters, and valgrind is not installed: install valgrind"),
        ("/bin/valgrind", "aarch64", "no counters, and callgrind can be used on x86-64"),
    ],
)
def test_where_nothing_counts_one_line_says_what_helps(
    monkeypatch: pytest.MonkeyPatch, valgrind: str | None, processor: str, says: str
) -> None:
    """A fault of the environment, exit code 4."""
    monkeypatch.setattr(shutil, "which", lambda name: valgrind)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    with pytest.raises(EnvironmentFailure, match=says) as caught:
        find_tool(refusing("no counters"))  # type: ignore[arg-type]
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errno.EACCES, "kernel.perf_event_paranoid=2"),
        (errno.EPERM, "a container may forbid it"),
        (errno.ENOENT, "counters are not to be had here"),
        (errno.ENOSYS, os.strerror(errno.ENOSYS)),
    ],
)
def test_a_refusal_is_explained(error: int, says: str) -> None:
    """What to do differs: permit it, or use another machine."""
    assert says in why_refused(error)


def test_what_is_no_time_benchmark_is_refused_by_name() -> None:
    """Before anything is built or counted."""
    time = Workload("a.time_x")
    raw = Workload("a.B.timeraw_x")
    tracked = Workload("a.track_x", unit="bytes", kind="track")
    assert is_countable(time)
    assert [found.unit for found in counted([time])] == ["instructions"]
    for other in (raw, tracked):
        with pytest.raises(UsageError, match=f"{other.benchmark} is none of them; narrow -b"):
            counted([time, other])


def test_counts_start_from_the_same_environment_every_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few variables, one seed, one thread; the build's own variables go before."""
    monkeypatch.setenv("A_LONG_AND_USELESS_VARIABLE", "x" * 3000)
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    build = Build("a" * 40, Route.CACHED, "/tree", "python", {"MKL_NUM_THREADS": "2"})
    given = fixed_environment(build, 7)
    assert "A_LONG_AND_USELESS_VARIABLE" not in given
    assert given["PYTHONHASHSEED"] == "7"
    assert given["PYTHONPATH"] == "/tree"
    assert (given["OMP_NUM_THREADS"], given["MKL_NUM_THREADS"]) == ("1", "2")
    assert given["PATH"] == os.environ["PATH"]
    without = fixed_environment(Build("a" * 40, Route.CACHED, "", "python"), 0)
    assert "PYTHONPATH" not in without


def test_the_surroundings_are_those_of_this_process() -> None:
    """Interpreter and libraries, numpy's among them, which the tests have loaded."""
    told = surroundings()
    assert told["python"] == platform.python_version()
    assert "numpy" in told
    assert all(told.values())


class Torch:
    """What torch says of itself."""

    __version__ = "2.13.0+cpu"

    class __config__:
        """Its own name for it."""

        @staticmethod
        def show() -> str:
            """Some of the lines."""
            return "PyTorch built with:\n  - GCC 13.3\n  - Intel(R) oneAPI Math Kernel Library\n"


def test_torch_tells_what_built_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is loaded; its threads fall back on the process's."""
    monkeypatch.setitem(inspector.sys.modules, "torch", Torch)
    told = surroundings()
    assert told["torch"] == "2.13.0+cpu"
    assert told["compiler"] == "GCC 13.3"
    assert told["torch blas"].startswith("Intel(R)")
    assert int(told["threads"]) >= 1


@pytest.mark.parametrize("name", ["perf events", "callgrind"])
def test_a_clock_outside_its_place_says_so(name: str) -> None:
    """Callgrind's, in a process that callgrind does not run; the kernel's, for a mute event."""
    if name == "callgrind":
        with pytest.raises(NotCounted):
            clocks.CallgrindClock("/nowhere/x")
    else:
        with pytest.raises(NotCounted):
            clocks.PerfClock(kind=99, event=99)


@pytest.mark.skipif(
    platform.machine() not in clocks.PERF_EVENT_OPEN or not shutil.which("true"),
    reason="no perf events here",
)
def test_the_kernels_counter_goes_on() -> None:
    """By an event that every kernel has: the nanoseconds that this thread ran."""
    try:
        clock = clocks.PerfClock(kind=1, event=1)
    except NotCounted as refusal:
        pytest.skip(str(refusal))
    before = clock()
    assert sum(range(10**6)) > 0
    assert clock() > before
    clock.close()
