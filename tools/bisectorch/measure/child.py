"""One worker process as the tracker sees it: commands out, answers in, every fault a text.

A child runs in a session of its own, so that it dies with whatever it started; its output is
kept in a bounded tail; and nothing it does (crash, hang, flood, a closed pipe) can block the
tracker for longer than the time limit of the command it was given.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bisectorch.errors import EnvironmentFailure
from bisectorch.model import Outcome

WORKER = Path(__file__).with_name("worker.py")
OUTPUT_TAIL_BYTES = 8192
REPLY_LIMIT_BYTES = 1 << 20
HEARTBEAT_SECONDS = 0.25
GRACE_SECONDS = 2.0

_WHILE = {
    "load": "while importing",
    "fill_cache": "in setup_cache",
    "setup": "in setup",
    "teardown": "in teardown",
}
_PREFIX = {"fill_cache": "setup_cache: ", "setup": "setup: ", "teardown": "teardown: "}


class Fault(Exception):
    """A child cannot go on; ``outcome`` and ``reason`` say why, as an observation tells it."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class Switchboard:
    """Listens to all children at once, so that none blocks on a full pipe while another works."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, child: Child, descriptor: int, handler: str) -> None:
        """Listen to one descriptor; its bytes go to that method of the child."""
        os.set_blocking(descriptor, False)
        self._selector.register(descriptor, selectors.EVENT_READ, (child, handler))

    def remove(self, descriptor: int) -> None:
        """Listen no longer."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def listen(self, seconds: float) -> None:
        """Hand over what has come, waiting at most so long for something to come."""
        if not self._selector.get_map():
            return
        for key, _ in self._selector.select(max(0.0, seconds)):
            child, handler = key.data
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                self.remove(key.fd)
            getattr(child, handler)(data)


class Child:
    """A worker process; see worker.py for the commands."""

    def __init__(
        self,
        board: Switchboard,
        python: str,
        environment: Mapping[str, str],
        directory: Path,
        core: int | None,
        *,
        script: Path = WORKER,
        under: Sequence[str] = (),
    ) -> None:
        """Start it, on one core when one is given.

        ``script`` speaks as the worker does; ``under`` is a program and its arguments that runs
        the interpreter in its own process, such as valgrind.

        Raises EnvironmentFailure when the interpreter cannot be started.
        """
        self._board = board
        self._python = python
        self._tail = bytearray()
        self._buffer = bytearray()
        self._answers: deque[tuple[bytes, float]] = deque()
        self._pending: deque[tuple[str, float, float]] = deque()
        self._last_answer = 0.0
        self._hung_up = False
        command_read, self._command = os.pipe()
        self._reply, reply_write = os.pipe()
        self._output, output_write = os.pipe()
        theirs = (command_read, reply_write, output_write)
        try:
            self._process = subprocess.Popen(
                [
                    *under,
                    python,
                    "-s",
                    str(script),
                    # Of one width, so that the stack lies as it lies in any other run.
                    *(f"{n:08d}" for n in (command_read, reply_write, os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output_write,
                stderr=output_write,
                pass_fds=(command_read, reply_write),
                env=dict(environment),
                cwd=directory,
                start_new_session=True,
            )
        except OSError as error:
            for descriptor in (self._command, self._reply, self._output):
                os.close(descriptor)
            raise EnvironmentFailure(
                f"cannot start {python}: {error.strerror or error}; remove the environment "
                "directory and run the same command again to make it anew"
            ) from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        board.add(self, self._reply, "_heard_reply")
        board.add(self, self._output, "_heard_output")
        if core is not None:
            self.pin(core)

    def pin(self, core: int) -> None:
        """Move every thread of the process to one core."""
        if not hasattr(os, "sched_setaffinity"):
            return
        for thread in _threads(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                try:
                    os.sched_setaffinity(thread, {core})
                except OSError as error:
                    raise EnvironmentFailure(
                        f"cannot run on core {core}: {error.strerror or error}; "
                        "choose one of the cores that this process may use"
                    ) from error

    def send(self, command: str, timeout_seconds: float, **arguments: Any) -> None:
        """Give a command; commands queue, and are answered in order."""
        self._pending.append((command, timeout_seconds, time.monotonic()))
        line = json.dumps({"do": command, "with": arguments}) + "\n"
        with contextlib.suppress(OSError):  # a child that is gone shows when its answer is awaited
            os.write(self._command, line.encode())

    def answer(self) -> Any:
        """The result of the earliest command not yet answered; Fault when there is none."""
        command, timeout, sent = self._pending.popleft()
        deadline = max(sent, self._last_answer) + timeout
        self._board.listen(0.0)
        while not self._answers:
            if self._hung_up or self._ended():
                self._board.listen(0.0)
                if not self._answers:
                    raise self._death(command)
                break
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self.close()
                place = _WHILE.get(command, "in the benchmark")
                raise Fault(Outcome.TIMED_OUT, f"no answer within {timeout:g} s {place}")
            self._board.listen(min(remaining, HEARTBEAT_SECONDS))
        line, self._last_answer = self._answers.popleft()
        return self._unpack(command, line)

    def ask(self, command: str, timeout_seconds: float, **arguments: Any) -> Any:
        """Give a command and await its answer."""
        self.send(command, timeout_seconds, **arguments)
        return self.answer()

    def close(self) -> None:
        """Kill the process and all that it started."""
        if self._command < 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for descriptor in (self._reply, self._output):
            self._board.remove(descriptor)
            os.close(descriptor)
        os.close(self._command)
        self._command = -1

    def _heard_reply(self, data: bytes) -> None:
        if not data:
            self._hung_up = True
            return
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        now = time.monotonic()
        self._answers.extend((bytes(line), now) for line in lines)
        if len(self._buffer) > REPLY_LIMIT_BYTES:
            self._answers.append((b"", now))
            self._buffer.clear()

    def _heard_output(self, data: bytes) -> None:
        self._tail += data
        del self._tail[:-OUTPUT_TAIL_BYTES]

    def _unpack(self, command: str, line: bytes) -> Any:
        try:
            answer = json.loads(line)
            if "ok" in answer:
                return answer["ok"]
            if "skipped" in answer:
                raise Fault(Outcome.FAILED, answer["skipped"])
            if "ended" in answer:
                return self._copy_ended(command, int(answer["ended"]))
            text, fault = str(answer["error"]), answer["fault"]
        except (ValueError, TypeError, KeyError):
            raise Fault(
                Outcome.FAILED, "the benchmark wrote on the tracker's own connection"
            ) from None
        if fault == "no runner":
            raise EnvironmentFailure(
                f"{self._python} cannot import asv_runner ({text}); "
                "install asv_runner into that environment"
            )
        if fault == "raised" and command == "load":
            raise Fault(Outcome.UNIMPORTABLE, text)
        raise Fault(Outcome.FAILED, _PREFIX.get(command, "") + text)

    def _copy_ended(self, command: str, status: int) -> None:
        """A copy may end when it was told to; otherwise it took its benchmark with it."""
        if command == "end" and status == 0:
            return
        self._board.listen(0.0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        raise self._fault(command, _how(code, command))

    def _ended(self) -> bool:
        """Whether the process has ended; it is not reaped, so its number stays its own."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def _death(self, command: str) -> Fault:
        patience = time.monotonic() + GRACE_SECONDS
        while not (ended := self._ended()) and time.monotonic() < patience:
            self._board.listen(0.01)
        self._board.listen(0.0)
        self.close()
        if ended:
            return self._fault(command, _how(self._process.returncode, command))
        place = _WHILE.get(command, "in the benchmark")
        return self._fault(command, f"closed its connection to the tracker {place}")

    def _fault(self, command: str, how: str) -> Fault:
        last = self._last_words()
        outcome = Outcome.UNIMPORTABLE if command == "load" else Outcome.FAILED
        return Fault(outcome, f"{how}: {last}" if last else how)

    def _last_words(self) -> str:
        lines = bytes(self._tail).decode(errors="replace").split("\n")
        words = [line.strip() for line in lines if line.strip()]
        return words[-1][:200] if words else ""


def _how(code: int, command: str) -> str:
    """How a process ended, from its return code as subprocess tells it."""
    place = _WHILE.get(command, "in the benchmark")
    if code >= 0:
        return f"exited with status {code} {place}"
    memory = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"killed by {_signal_name(-code)} {place}{memory}"


def _threads(pid: int) -> list[int]:
    """The threads of a process; of a sandbox, those of the process inside it as well."""
    process = Path("/proc", str(pid))
    try:
        threads = [int(entry.name) for entry in (process / "task").iterdir()]
        if (process / "comm").read_text() != "bwrap\n":
            return threads
        inside = [
            int(child)
            for thread in threads
            for child in (process / "task" / str(thread) / "children").read_text().split()
        ]
    except OSError:
        return [pid]
    return [*threads, *(thread for child in inside for thread in _threads(child))]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def child_environment(
    tree: str, given: Mapping[str, str], hash_seed: int, padding: int
) -> dict[str, str]:
    """The variables a child starts with.

    Ours, without any that steer Python; then the build's own; then the tree as the only entry of
    PYTHONPATH. ``hash_seed`` and ``padding`` vary the layout of memory from round to round: both
    move a build's time by a percent or more without any change of code (Mytkowicz et al.,
    "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009).
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "__PYVENV"))}
    environment["PYTHONHASHSEED"] = str(hash_seed)
    environment["BISECTORCH_PADDING"] = "x" * padding
    environment.update(given)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment.pop("PYTHONPATH", None)
    if tree:
        environment["PYTHONPATH"] = tree
    return environment
