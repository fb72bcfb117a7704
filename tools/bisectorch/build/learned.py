"""What builds cost so far, kept across sessions: the ground that quotes stand on."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path

REMEMBERED = 25
"""The latest so many of each kind count; machines and histories change."""


class Learned:
    """Seconds by kind of work; one line a build in a file that any number of sessions append to.

    Args:
        path: the file; a line of it that is damaged is passed over.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seconds: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        with contextlib.suppress(OSError):
            for line in path.read_text("utf-8", "replace").splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    kind, seconds = json.loads(line)
                    self._seconds[str(kind)].append(float(seconds))

    def add(self, kind: str, seconds: float) -> None:
        """One more; a disk that refuses costs the next session its memory and nothing else."""
        with self._lock:
            self._seconds[kind].append(seconds)
        line = json.dumps([kind, round(seconds, 3)]) + "\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)

    def seconds(self) -> Mapping[str, Sequence[float]]:
        """All that counts, by kind."""
        with self._lock:
            return {kind: tuple(values) for kind, values in self._seconds.items()}
