"""The store: immutable trees by content key, trusted only once their stamp is written.

Layout, all beneath one root::

    version               the layout's number
    trees/<kk>/<key>/     stamp.json, the tree itself in tree/, a native build's manifest.json
    tmp/<kk>/<key>/       one being made; whoever holds the key's lock owns it. As deep as in
                          trees/, so that relative links between trees outlive the renaming
    locks/<key>.lock      one lock a key, across processes and threads
    logs/<key>.log        what the tools said while making it
    failures/<key>.json   why it could not be made
    builders/<name>/      a source builder: its environment and its kept checkout
    learned.jsonl         what builds cost
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import filelock

from bisectorch.errors import EnvironmentFailure

VERSION = 1

_REFUSALS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "it is on a read-only file system: choose another place",
    errno.EACCES: "it may not be written: change its permissions",
    errno.EPERM: "it may not be written: change its permissions",
    errno.ENOTDIR: "part of that path is not a directory: choose another place",
}


class Store:
    """Immutable trees under one root; safe for several processes and threads at once.

    Args:
        root: made when it is first needed.

    Raises:
        EnvironmentFailure: a newer version of the tracker wrote it.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).absolute()
        self._swept = False
        version_file = self.root / "version"
        with contextlib.suppress(OSError):
            text = version_file.read_text("ascii", "replace").strip()
            if text.isdigit() and int(text) > VERSION:
                raise EnvironmentFailure(
                    f"the store {self.root} was written by a newer version of bisectorch "
                    f"(layout {text}, this one knows {VERSION}): upgrade, or set BISECTORCH_STORE "
                    "to another directory"
                )

    def get(self, key: str) -> Path | None:
        """The tree of ``key``, or None when there is none that can be trusted."""
        return self._entry(key) / "tree" if self.about(key) is not None else None

    def about(self, key: str) -> Mapping[str, object] | None:
        """What the stamp of ``key`` says, or None without a valid stamp."""
        try:
            stamp = json.loads((self._entry(key) / "stamp.json").read_bytes())
        except (OSError, ValueError):
            return None
        good = isinstance(stamp, dict) and stamp.get("key") == key
        return stamp if good and stamp.get("version") == VERSION else None

    def beside(self, key: str, name: str) -> Path:
        """Where a maker that wrote ``name`` beside its tree finds it again."""
        return self._entry(key) / name

    def log_path(self, key: str) -> Path:
        """Where the maker of ``key`` may keep what its tools said; the directory exists."""
        with self._clear_refusals():
            (self.root / "logs").mkdir(parents=True, exist_ok=True)
        return self.root / "logs" / f"{key}.log"

    def make(self, key: str, maker: Callable[[Path], None], about: Mapping[str, object]) -> Path:
        """The tree of ``key``, made by ``maker`` in an empty directory unless it is there.

        ``maker`` must leave nothing that depends on where it ran: the directory is renamed when
        it is complete. A maker that raises leaves nothing behind, one that is killed nothing
        that is trusted; a second caller of the same key waits for the first.

        Args:
            key: hexadecimal digits that determine the content.
            maker: fills the directory it is given.
            about: what the stamp says besides (``kind``, ``what``...), JSON values.

        Raises:
            EnvironmentFailure: the disk refuses; one line that says what to do.
        """
        with self._clear_refusals():
            self._prepare()
            with self._lock(key):
                tree = self.get(key)
                if tree is None:
                    self._make(key, maker, about)
                    tree = self._entry(key) / "tree"
                return tree

    def _make(self, key: str, maker: Callable[[Path], None], about: Mapping[str, object]) -> None:
        started = time.time()
        work = self.root / "tmp" / key[:2] / key
        _remove(work)
        try:
            (work / "tree").mkdir(parents=True)
            maker(work / "tree")
            stamp = {
                **about,
                "version": VERSION,
                "key": key,
                "created": int(started),
                "seconds": round(time.time() - started, 3),
            }
            with (work / "stamp.json").open("w", encoding="utf-8") as file:
                json.dump(stamp, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            entry = self._entry(key)
            # Without a valid stamp, or get() would have found it: never trusted, so not missed.
            _remove(entry)
            entry.parent.mkdir(parents=True, exist_ok=True)
            work.rename(entry)
        except BaseException:
            with contextlib.suppress(OSError):
                _remove(work)
            raise

    def _entry(self, key: str) -> Path:
        return self.root / "trees" / key[:2] / key

    def _lock(self, key: str, timeout_seconds: float = -1) -> filelock.BaseFileLock:
        path = self.root / "locks" / f"{key}.lock"
        return filelock.FileLock(path, timeout=timeout_seconds)

    def _prepare(self) -> None:
        for name in ("trees", "tmp", "locks", "logs"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        version_file = self.root / "version"
        if not version_file.exists():
            version_file.write_text(f"{VERSION}\n", "ascii")
        if not self._swept:
            self._swept = True
            self._sweep()

    def _sweep(self) -> None:
        """Remove what killed makers left in tmp/: a lock nobody holds tells that they are gone."""
        for work in (self.root / "tmp").glob("*/*"):
            with contextlib.suppress(filelock.Timeout, OSError), self._lock(work.name, 0):
                _remove(work)

    @contextlib.contextmanager
    def _clear_refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            refusal = _REFUSALS.get(error.errno or 0)
            if refusal is None:
                raise
            raise EnvironmentFailure(
                f"the store {self.root} cannot be written, {refusal}, "
                "or set BISECTORCH_STORE to another directory"
            ) from error


def _remove(path: Path) -> None:
    """Remove a directory we own; links in it are removed, never followed."""
    if path.exists():
        shutil.rmtree(path)
