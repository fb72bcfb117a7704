"""Runs a short session again and again, with one fault at one of its changes to the disk each time.

    LD_PRELOAD=shim.so FAULT_SHIM=shim.so python sweep.py [--every N] [--from MODE]

Every run is a process of its own, forked from this one; after the fault another one goes on with
the session. Writes one JSON object: how many faults, and every one after which something that
had been reported was lost, or counted twice, or the answer was another one, or a build was
trusted that is not whole, or the user would have seen a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import rehearsal
from bisectorch.errors import BisectorchError
from bisectorch.model import Observation
from bisectorch.report.record import load, log_path
from power import Disk, Loss

MODES = (
    "none", "kill before", "kill half", "kill after", "full", "full once", "error", "dead",
    "read-only", "terminate", "backwards", "stop",
)  # fmt: skip
"""As shim.c numbers them."""
TRACEBACK = 70
NO_LOCKS, LOCKS = 0, 1

shim = ctypes.CDLL(os.environ["FAULT_SHIM"])


@dataclass
class Ran:
    """One process of the session, as it ended.

    Attributes:
        code: its exit code; negative for the signal that killed it.
        reported: the observations it reported.
        culprits: what it found, when it came to its end.
        changes: how many changes it made to the disk.
        said: its last words, when it failed.
    """

    code: int = 0
    reported: list[str] = field(default_factory=list)
    culprits: object = None
    changes: int = 0
    said: str = ""


@dataclass
class Process:
    """A session under way in a child."""

    pid: int
    pipe: int
    status: int | None = None

    def stopped(self) -> bool:
        """Wait until it stops (True) or ends."""
        _, self.status = os.waitpid(self.pid, os.WUNTRACED)
        return os.WIFSTOPPED(self.status)

    def end(self) -> Ran:
        """What came of it, when it has ended."""
        with os.fdopen(self.pipe, "r") as told:
            lines = told.read().splitlines()
        if self.status is None or os.WIFSTOPPED(self.status):
            _, self.status = os.waitpid(self.pid, 0)
        ran = Ran(os.waitstatus_to_exitcode(self.status))
        for line in lines:
            kind, value = json.loads(line)
            if kind == "reported":
                ran.reported.append(value)
            else:
                setattr(ran, kind, value)
        return ran


def start(
    root: Path, mode: str, at: int, seed: int, *, journal: int = -1, locks: int = LOCKS
) -> Process:
    """Begin or go on with the session in a child of this process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return Process(pid, read)
    code = TRACEBACK
    os.close(read)

    def tell(kind: str, value: object) -> None:
        os.write(write, json.dumps([kind, value]).encode() + b"\n")

    try:
        signal.signal(signal.SIGTERM, _interrupt)
        shim.fault_arm(MODES.index(mode), ctypes.c_long(at), os.fsencode(root), journal, locks)
        findings = rehearsal.rehearse(root, lambda name: tell("reported", name), seed)
        tell("culprits", rehearsal.culprits(findings))
        code = 0
    except BisectorchError as error:
        code = error.exit_code
        tell("said", str(error))
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        tell("said", traceback.format_exc())
    finally:
        tell("changes", shim.fault_count())
        os._exit(code)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A root of its own for one fault."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        yield folder / "root"
    finally:
        shutil.rmtree(folder)


@dataclass
class Sweep:
    """All faults so far, and what went wrong after them."""

    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def strike(self, mode: str, at: int, loss: Loss | None = None) -> None:
        """One fault at the change of this number, and the session's going on after it."""
        what = f"{loss.name.lower() if loss else mode} at {at}"
        with scratch() as root, tempfile.TemporaryFile() as journal:
            root.mkdir()
            ran = start(root, mode, at, 1, journal=journal.fileno() if loss else -1).end()
            if at >= ran.changes and ran.code >= 0:
                return
            self.faults[loss.name.lower() if loss else mode] += 1
            if ran.code == TRACEBACK:
                self.wrong.append(f"{what}: a traceback: {ran.said}")
            if loss:
                disk = Disk()
                journal.seek(0)
                disk.read(os.fsdecode(journal.read()))
                disk.lose(loss)
            self._go_on(what, root, ran.reported)

    def share(self, at: int) -> None:
        """Stopped without locks while another process goes on with the same session."""
        what = f"shared at {at}"
        with scratch() as root:
            root.mkdir()
            first = start(root, "stop", at, 1, locks=NO_LOCKS)
            if not first.stopped():
                first.end()
                return
            self.faults["shared"] += 1
            second = start(root, "none", -1, 2, locks=NO_LOCKS).end()
            os.kill(first.pid, signal.SIGCONT)
            ran = first.end()
            for each in (ran, second):
                if each.code == TRACEBACK:
                    self.wrong.append(f"{what}: a traceback: {each.said}")
            self._go_on(what, root, ran.reported + second.reported)

    def _go_on(self, what: str, root: Path, reported: list[str]) -> None:
        again = start(root, "none", -1, 3).end()
        if again.code:
            self.wrong.append(f"{what}: could not go on: {again.said}")
            return
        if again.culprits != [list(each) for each in rehearsal.TRUTH]:
            self.wrong.append(f"{what}: found {again.culprits}")
        events = load(log_path(root / "sessions", "rehearsal")).events
        there = Counter(name for event in events if (name := rehearsal.name_of(event)))
        lost = (Counter(reported) + Counter(again.reported)) - there
        if lost:
            self.wrong.append(f"{what}: lost {sorted(lost)[:2]}")
        seen = Counter(
            (event.sha, run.block)
            for event in events
            if isinstance(event, Observation)
            for run in event.runs
        )
        twice = [key for key, count in seen.items() if count > 1]
        if twice:
            self.wrong.append(f"{what}: counted twice: {twice[:2]}")


def main() -> int:
    """Sweep, and write what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="only every so many-th change")
    parser.add_argument("--only", help="only faults of this name")
    every, only = vars(parser.parse_args()).values()
    with scratch() as root:
        root.mkdir()
        usual = start(root, "none", -1, 1).end()
    assert usual.code == 0, usual.said
    assert usual.culprits == [list(each) for each in rehearsal.TRUTH], usual.culprits
    sweep = Sweep()
    kinds: list[tuple[str, Callable[[int], None]]] = [
        *((mode, lambda at, mode=mode: sweep.strike(mode, at)) for mode in MODES[1:-1]),
        *(
            (loss.name.lower(), lambda at, loss=loss: sweep.strike("kill after", at, loss))
            for loss in Loss
        ),
        ("shared", sweep.share),
    ]
    for number, (name, strike) in enumerate(kinds):
        if only in (None, name):
            # Each kind begins elsewhere, so that together they touch every change.
            for at in range(number * every // len(kinds), usual.changes, every):
                strike(at)
    json.dump(
        {"changes": usual.changes, "observations": len(usual.reported), "faults": sweep.faults,
         "wrong": sweep.wrong},
        sys.stdout, indent=1,
    )  # fmt: skip
    return int(bool(sweep.wrong))


if __name__ == "__main__":
    sys.exit(main())
