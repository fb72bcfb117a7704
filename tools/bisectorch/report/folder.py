"""A published folder: only what differs is written, and what is not wanted any more goes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from bisectorch.errors import EnvironmentFailure


class Folder:
    """The site's folder during one publish."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: set[str] = set()
        self.written = 0

    def write(self, name: str, content: bytes) -> None:
        """Make this file hold these bytes; EnvironmentFailure when the disk refuses."""
        self._names.add(name)
        path = self.root / name
        try:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                if path.stat().st_size == len(content) and path.read_bytes() == content:
                    return
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise EnvironmentFailure(f"cannot write {path}: {error.strerror or error}") from error
        self.written += 1

    def keep(self, names: Iterable[str]) -> None:
        """These files stay as they are."""
        self._names.update(names)

    @property
    def names(self) -> frozenset[str]:
        """Every file that was written or kept."""
        return frozenset(self._names)

    def remove_others(self) -> None:
        """Take away every file that was neither written nor kept, and folders left empty."""
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.rmdir()  # refused while anything is in it
            elif str(path.relative_to(self.root)) not in self._names:
                path.unlink()
