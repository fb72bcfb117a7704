"""One child process that looks into a build: commands out, answers in, every fault a text."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bisectorch.errors import EnvironmentFailure
from bisectorch.model import Build

WORKER = Path(__file__).with_name("child") / "worker.py"
HEARTBEAT_SECONDS = 0.25
LAST_WORDS_BYTES = 4096
MOST_ANSWER_BYTES = 64 << 20


class Blind(Exception):
    """A build cannot be looked into; the text says why, in one line."""


class Looker:
    """A child that looks into one build; close it, or use it as a context manager."""

    def __init__(self, build: Build, core: int | None, wrapper: Sequence[str] = ()) -> None:
        """Start it, on one core when one is given, inside ``wrapper`` when there is one.

        Raises EnvironmentFailure when the interpreter cannot be started.
        """
        self.build = build
        self._sha = build.sha[:10]
        self._home = tempfile.TemporaryDirectory(prefix="bisectorch-", ignore_cleanup_errors=True)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        command_read, self._command = os.pipe()
        self._reply, reply_write = os.pipe()
        self._buffer = bytearray()
        ends = [str(command_read), str(reply_write), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [*wrapper, build.python, "-s", str(WORKER), *ends],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(command_read, reply_write),
                env=child_environment(build.tree, build.environment),
                cwd=self._home.name,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._command)
            os.close(self._reply)
            self._command = -1
            raise EnvironmentFailure(
                f"cannot start {build.python}: {error.strerror or error}; remove the environment "
                "directory and run the same command again to make it anew"
            ) from error
        finally:
            os.close(command_read)
            os.close(reply_write)
        if core is not None and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._process.pid, {core})

    def __enter__(self) -> Looker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process and all that it started."""
        if self._command < 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._command)
        os.close(self._reply)
        self._command = -1
        self._output.close()
        self._home.cleanup()

    def ask(self, command: str, timeout_seconds: float, **arguments: Any) -> Any:
        """Give a command and await its answer; Blind when there is none."""
        line = json.dumps({"do": command, "with": arguments}) + "\n"
        with contextlib.suppress(OSError):  # one that is gone shows when its answer is awaited
            os.write(self._command, line.encode())
        answer = json.loads(self._line(command, timeout_seconds))
        if "ok" in answer:
            return answer["ok"]
        if answer["stage"] == "runner":
            raise EnvironmentFailure(
                f"{self.build.python} cannot import asv_runner ({answer['error']}); "
                "install asv_runner into that environment"
            )
        where = _DURING.get(answer["stage"], UNDER)
        raise Blind(f"{self._sha} {where}: {answer['error']}")

    def _line(self, command: str, timeout_seconds: float) -> bytes:
        deadline = time.monotonic() + timeout_seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._reply], [], [], HEARTBEAT_SECONDS)
            data = os.read(self._reply, 1 << 16) if ready else None
            if data == b"" or len(self._buffer) > MOST_ANSWER_BYTES:
                raise Blind(self._death(command))
            self._buffer += data or b""
            if not data and self._process.poll() is not None:
                raise Blind(self._death(command))
            if time.monotonic() > deadline:
                raise Blind(
                    f"{self._sha} {_place(command)}: no answer within {timeout_seconds:g} s"
                )
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = bytearray(rest)
        return bytes(line)

    def _death(self, command: str) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(HEARTBEAT_SECONDS)
        status = self._process.returncode
        if status is None:
            how = "closed its connection"
        elif status < 0:
            with contextlib.suppress(ValueError):
                return f"{self._sha} {_place(command)}: killed by {signal.Signals(-status).name}"
            how = f"killed by signal {-status}"
        else:
            how = f"exited with status {status}"
        said = self._last_words()
        return f"{self._sha} {_place(command)}: {how}" + (f": {said}" if said else "")

    def _last_words(self) -> str:
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - LAST_WORDS_BYTES))
        text = self._output.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""


UNDER = "under the profiler"
_DURING = {"import": "while importing", "setup": "in setup"}


def _place(command: str) -> str:
    return "while importing or in setup" if command == "load" else UNDER


def child_environment(tree: str, given: Mapping[str, str]) -> dict[str, str]:
    """Ours without what steers Python, then the build's own, then the tree on the path."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "__PYVENV"))}
    environment.update(given)
    environment.update({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"})
    environment.pop("PYTHONPATH", None)
    if tree:
        environment["PYTHONPATH"] = tree
    return environment
