"""One command of a build: its output kept within bounds, its whole process group within limits."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bisectorch.errors import EnvironmentFailure

TICK_SECONDS = 0.1
"""How often time and memory are looked at."""

KEPT_BYTES = 2 << 20
"""A log keeps so much of its beginning, and as much of its end."""


_running: set[int] = set()
_ending = threading.Event()
_lock = threading.Lock()


class Ended(EnvironmentFailure):
    """A command was ended because nobody wants its result any more: not to be remembered."""


class OverLimit(Exception):
    """A command was killed because it took more time or memory than it may."""


class CappedLog:
    """A log file that holds the beginning and the end of what was said, however much that was."""

    def __init__(self, path: Path, kept_bytes: int = KEPT_BYTES) -> None:
        self.path = path
        self._kept = kept_bytes
        self._head = 0
        self._dropped = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._file = path.open("wb")

    def __enter__(self) -> CappedLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._dropped:
            self._file.write(b"\n[... %d bytes left out ...]\n" % self._dropped)
        self._file.writelines(self._tail)
        self._file.close()

    def write(self, data: bytes) -> None:
        """Take in more output."""
        room = self._kept - self._head
        if room > 0:
            self._file.write(data[:room])
            self._file.flush()
            self._head += min(room, len(data))
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._kept:
                gone = len(self._tail.popleft())
                self._tail_bytes -= gone
                self._dropped += gone


def run(
    command: Sequence[str],
    log: CappedLog,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    deadline: float | None = None,
    memory_bytes: int | None = None,
    started: Callable[[int], None] = lambda pid: None,
) -> int:
    """Run one command to its end and return its status; nothing it started outlives it.

    Args:
        command: the program and its arguments.
        log: takes all it says.
        cwd: where it runs.
        environment: all of its variables.
        deadline: in ``time.monotonic()`` seconds.
        memory_bytes: how much its processes may hold in memory together.
        started: told the process group's number as soon as it runs.

    Raises:
        OverLimit: it was killed, with the reason.
        Ended: it was ended, by ``ending_all``.
        EnvironmentFailure: it cannot be started.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentFailure(f"cannot run {command[0]}: {error.strerror}") from error
    assert process.stdout is not None
    output = process.stdout.fileno()
    os.set_blocking(output, False)
    try:
        with _lock:
            _running.add(process.pid)
            _refuse_when_ending()
        started(process.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            is_open = True
            next_look = 0.0
            while process.poll() is None:
                if is_open and selector.select(TICK_SECONDS):
                    is_open = _drain(output, log)
                elif not is_open:
                    time.sleep(TICK_SECONDS)
                if time.monotonic() >= next_look:
                    _check(process.pid, deadline, memory_bytes)
                    next_look = time.monotonic() + TICK_SECONDS
        _refuse_when_ending()
        return process.returncode
    finally:
        kill_group(process.pid)
        with _lock:
            _running.discard(process.pid)
        process.wait()
        _drain(output, log)
        process.stdout.close()


@contextlib.contextmanager
def ending_all() -> Iterator[None]:
    """Meanwhile, the commands that any thread of this process runs or starts are ended."""
    with _lock:
        _ending.set()
        for group in _running:
            kill_group(group)
    try:
        yield
    finally:
        _ending.clear()


def _drain(output: int, log: CappedLog) -> bool:
    """Take what is there, a bounded amount at a time; False at the end of the output."""
    for _ in range(64):
        try:
            data = os.read(output, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        log.write(data)
    return True


def kill_group(group: int) -> None:
    """Kill every process of a group; one that is gone already is no fault."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _refuse_when_ending() -> None:
    if _ending.is_set():
        raise Ended("the build was ended: it is not wanted any more")


def _check(session: int, deadline: float | None, memory_bytes: int | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise OverLimit("it ran out of time")
    if memory_bytes is not None and resident_bytes(session) > memory_bytes:
        raise OverLimit(f"it took more than {memory_bytes / (1 << 30):.1f} GiB of memory")


def resident_bytes(session: int) -> int:
    """The memory that the processes of one session hold, shared pages counted by each."""
    pages = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = stat_fields(int(entry.name))
                if int(fields[3]) == session:
                    pages += int(fields[21])
    return pages * os.sysconf("SC_PAGESIZE")


def stat_fields(pid: int) -> list[str]:
    """What follows the name in ``/proc/PID/stat``: state, parent, group, session..."""
    return Path("/proc", str(pid), "stat").read_text("utf-8", "replace").rpartition(")")[2].split()


_TELLING = (
    re.compile(r"\b(?:fatal )?error: (?!command |subprocess-exited|metadata-gen|legacy-)", re.I),
    re.compile(r"undefined reference|cannot find -l|CMake Error|ninja: error|No space left"),
    re.compile(r"^\w*(?:Error|Exception)\b.*:|^E: "),
    re.compile(r"No matching distribution|^ERROR: |^error: |^fatal: "),
)


def telling(log: Path) -> str:
    """The line of a build's log that says what went wrong: the first of the strongest kind."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - KEPT_BYTES))
        text = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in _TELLING:
        for line in lines:
            if pattern.search(line):
                return line[:300]
    return lines[-1][:300] if lines else "it said nothing"
