"""The parts of the pages, each made anew only when what it is made from changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bisectorch.report.folder import Folder

File = tuple[str, bytes]
"""A file's path below the pages' folder, and its bytes."""

Made = Mapping[str, tuple[str, Sequence[str]]]
"""What the last publish made: each part's mark and its files."""


class Parts:
    """Writes parts into a folder; ``made`` is what the next publish needs to know.

    Attributes:
        fresh: the parts that were made anew.
    """

    def __init__(self, folder: Folder, prefix: str, known: Made) -> None:
        self._folder = folder
        self._prefix = prefix
        self._known = known
        self.made: dict[str, tuple[str, Sequence[str]]] = {}
        self.fresh: list[str] = []

    def part(self, key: str, mark: str, make: Callable[[], Iterable[File]]) -> None:
        """Write this part, unless it was made of the same before and still lies there."""
        known = self._known.get(key)
        if known is not None and known[0] == mark and self._is_there(known[1]):
            self._folder.keep(self._prefix + name for name in known[1])
            self.made[key] = (mark, known[1])
            return
        names = []
        for name, content in make():
            self._folder.write(self._prefix + name, content)
            names.append(name)
        self.made[key] = (mark, names)
        self.fresh.append(key)

    def _is_there(self, names: Sequence[str]) -> bool:
        root = self._folder.root / self._prefix
        return all((root / name).is_file() for name in names)

    def read(self, name: str) -> bytes:
        """A file of the pages, as it lies there now."""
        return (self._folder.root / self._prefix / name).read_bytes()
