"""What a check comes to: one line, and what to do; and the tools that checks share."""

from __future__ import annotations

import enum
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


class State(enum.Enum):
    """What a check came to."""

    OK = "ok"
    NOTE = "note"
    MISSING = "MISSING"


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's."""

    state: State
    text: str


Check = Iterator[Finding]


def ok(text: str) -> Finding:
    """Nothing to do."""
    return Finding(State.OK, text)


def note(text: str) -> Finding:
    """Works without, but the user will want to know."""
    return Finding(State.NOTE, text)


def missing(text: str) -> Finding:
    """Stands in the way."""
    return Finding(State.MISSING, text)


def gib(count: float) -> str:
    """Bytes for people."""
    return f"{count / (1 << 30):.1f} GiB"


def run(command: list[str], timeout: float = 60) -> int:
    """The status of a command that says nothing; -1 when it cannot be started or ends late."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode


def output(command: list[str]) -> str:
    """What a command says; empty when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
