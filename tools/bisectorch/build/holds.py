"""What running sessions hold of the store: said in files that their locks keep honest.

Every session has one file, locked as long as it lives, with the keys it stands on. A file whose
lock can be had belongs to a session that ended, however it ended, and holds nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import filelock


class Holds:
    """The holds of one session, and what all sessions hold.

    Args:
        directory: in the store; made when something is first held.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._thread_lock = threading.Lock()
        self._file: Path | None = None
        self._descriptor = -1
        self._owner = -1
        self._keys: set[str] = set()

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[None]:
        """While nobody else begins to hold anything, or takes anything away."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self._directory / "lock"):
            yield

    def hold(self, key: str) -> None:
        """Hold one more key; call it inside ``exclusively``."""
        with self._thread_lock:
            if key in self._keys:
                return
            if self._file is None:
                self._begin()
            os.write(self._descriptor, f"{key}\n".encode("ascii"))
            self._keys.add(key)

    def holds(self, key: str) -> bool:
        """Whether this session holds the key."""
        return key in self._keys

    def release(self) -> None:
        """Hold nothing any more."""
        with self._thread_lock:
            self._keys.clear()
            if self._file is not None:
                os.ftruncate(self._descriptor, 0)

    def held(self) -> frozenset[str]:
        """The keys that any living session holds; files of ended ones are removed."""
        keys: set[str] = set(self._keys)
        for path in self._directory.glob("*.keys"):
            if path == self._file:
                continue
            with contextlib.suppress(OSError), path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    keys.update(file.read().decode("ascii", "replace").split())
                else:
                    path.unlink()
        return frozenset(keys)

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._file = self._directory / f"{os.getpid()}-{secrets.token_hex(4)}.keys"
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self._file, flags, 0o666)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __del__(self) -> None:
        # A forked child has a copy of this object, and no say in what its parent holds.
        if self._file is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
                self._file.unlink()
