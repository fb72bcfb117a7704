"""What a loss of power leaves of the changes that a journal tells of (see shim.c).

Content is durable once its file was synced, a name once its directory was. Of all else a disk may
have kept anything: each ``Loss`` is one such outcome.
"""

from __future__ import annotations

import contextlib
import enum
import shutil
from dataclasses import dataclass, field
from pathlib import Path


class Loss(enum.Enum):
    """What became of content that had not been synced."""

    NAMES = "nothing of it was written, nor were names that had not been synced"
    TAIL = "nothing of it was written"
    ZEROS = "its room was made, and is full of zeros"
    HALF = "half of it was written"
    END = "its end was written, its beginning was not"


@dataclass
class Disk:
    """What is durable after the changes of a journal."""

    synced: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    names: list[tuple[str, str, str]] = field(default_factory=list)

    def read(self, journal: str) -> None:
        """Follow the changes."""
        for line in journal.splitlines():
            what, path, other, size = line.split("\t")
            getattr(self, f"_{what}")(path, other, int(size))

    def lose(self, loss: Loss) -> None:
        """Take away what was not durable."""
        for path, size in self.written.items():
            kept = self.synced.get(path, 0)
            if size > kept and Path(path).is_file():
                _lose_content(path, kept, size, loss)
        if loss is not Loss.NAMES:
            return
        for what, path, other in reversed(self.names):
            with contextlib.suppress(OSError):
                if what == "rename":
                    Path(path).rename(other)
                elif what == "mkdir":
                    shutil.rmtree(path)
                else:
                    Path(path).unlink()

    def _write(self, path: str, _other: str, size: int) -> None:
        self.written[path] = size

    def _cut(self, path: str, _other: str, size: int) -> None:
        self.written[path] = size
        self.synced[path] = min(size, self.synced.get(path, 0))

    def _create(self, path: str, _other: str, _size: int) -> None:
        self.written[path] = self.synced[path] = 0
        self.names.append(("create", path, ""))

    def _mkdir(self, path: str, _other: str, _size: int) -> None:
        self.names.append(("mkdir", path, ""))

    def _gone(self, path: str, _other: str, _size: int) -> None:
        self.written.pop(path, None)
        self.names = [name for name in self.names if name[1] != path]

    def _rename(self, path: str, other: str, _size: int) -> None:
        def moved(name: str) -> str:
            inside = name == other or name.startswith(f"{other}/")
            return path + name[len(other) :] if inside else name

        self.synced = {moved(name): size for name, size in self.synced.items()}
        self.written = {moved(name): size for name, size in self.written.items()}
        # What came into being within goes with it, or not at all.
        self.names = [name for name in self.names if moved(name[1]) == name[1]]
        self.names.append(("rename", path, other))

    def _fsync(self, path: str, other: str, size: int) -> None:
        if other == "f":
            self.synced[path] = size
        else:
            self.names = [name for name in self.names if str(Path(name[1]).parent) != path]

    def _syncfs(self, _path: str, _other: str, _size: int) -> None:
        self.synced.update(self.written)
        self.names.clear()


def _lose_content(path: str, kept: int, size: int, loss: Loss) -> None:
    with Path(path).open("r+b") as file:
        if loss in (Loss.TAIL, Loss.NAMES):
            file.truncate(kept)
        elif loss is Loss.HALF:
            file.truncate(kept + (size - kept) // 2)
        else:
            until = size if loss is Loss.ZEROS else kept + (size - kept) // 2
            file.seek(kept)
            file.write(b"\0" * (until - kept))
