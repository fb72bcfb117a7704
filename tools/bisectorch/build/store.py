"""The store: immutable trees by content key, trusted only once their stamp is written.

Layout, all beneath one root::

    version               the layout's number
    trees/<kk>/<key>/     stamp.json, the tree itself in tree/, a native build's manifest.json
    tmp/<kk>/<key>.<host>-<pid>-<token>/
                          one being made, by that process. As deep as in trees/, so that
                          relative links between trees outlive the renaming
    locks/<key>.lock      one lock a key, across processes and threads
    logs/<key>.log        what the tools said while making it
    failures/<key>.json   why it could not be made
    builders/<name>/      a source builder: its environment and its kept checkout
    learned.jsonl         what builds cost
    holds/                what running sessions stand on; their locks
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import secrets
import shutil
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock

from bisectorch.build import census
from bisectorch.build.durable import sync_file_system
from bisectorch.build.holds import Holds
from bisectorch.errors import EnvironmentFailure

VERSION = 1
ABANDONED_SECONDS = 7 * 86400.0
"""So long after the last sign of life, what a process of another host was making is given up."""

_REFUSALS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "it is on a read-only file system: choose another place",
    errno.EACCES: "it may not be written: change its permissions",
    errno.EPERM: "it may not be written: change its permissions",
    errno.EIO: "its disk reports an input/output error: mend it",
    errno.ESTALE: "its network file system lost it: mount it again",
    errno.ENOTDIR: "part of that path is not a directory: choose another place",
}


@dataclass(frozen=True)
class Entry:
    """One tree of the store: its key, what its stamp says, and when it was last used."""

    key: str
    about: Mapping[str, object]
    used_seconds: float

    @property
    def bytes(self) -> int:
        """What its own files hold; links are free."""
        size = self.about.get("bytes", 0)
        return size if isinstance(size, int) else 0


class Store:
    """Immutable trees under one root; safe for several processes and threads at once.

    What ``get`` and ``make`` returned is held until ``release`` or the end of this object, and not
    evicted by anybody meanwhile.

    Args:
        root: made when it is first needed.
        most_bytes: how large its trees may grow before the least recently used are evicted, None
            for any size.

    Raises:
        EnvironmentFailure: a newer version of the tracker wrote it.
    """

    def __init__(self, root: Path | str, most_bytes: int | None = None) -> None:
        self.root = Path(root).absolute()
        self.most_bytes = most_bytes
        self._holds = Holds(self.root / "holds")
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
        """The tree of ``key``, from now on held, or None when there is none to be trusted."""
        if self.about(key) is None:
            return None
        if not self._holds.holds(key):
            try:
                with self._clear_refusals(), self._holds.exclusively():
                    if self.about(key) is None:
                        return None
                    self._holds.hold(key)
            except EnvironmentFailure:
                # What cannot be written can still be read, and nobody can evict from it.
                if os.access(self.root, os.W_OK):
                    raise
        # Its time of use, by which the store is kept within its size.
        with contextlib.suppress(OSError):
            os.utime(self._entry(key) / "stamp.json")
        return self._entry(key) / "tree"

    def release(self) -> None:
        """Stand on nothing any more; trees already handed out may then be evicted."""
        self._holds.release()

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
        that is trusted; a second caller of the same key waits for the first (where locks bind
        nobody both make it, and the first one's is kept).

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
                if tree is not None:
                    return tree
                with self._holds.exclusively():
                    self._holds.hold(key)
                self._make(key, maker, about)
        self._keep_within_size(about)
        return self._entry(key) / "tree"

    def _make(self, key: str, maker: Callable[[Path], None], about: Mapping[str, object]) -> None:
        started = time.time()
        work = self.root / "tmp" / key[:2] / f"{key}.{_this_process()}-{secrets.token_hex(4)}"
        try:
            (work / "tree").mkdir(parents=True)
            maker(work / "tree")
            counted = census.take(work / "tree")
            # The stamp must not outlive a loss of power that the tree does not.
            sync_file_system(work)
            stamp = {
                **about,
                **asdict(counted),
                "version": VERSION,
                "key": key,
                "created": int(started),
                "seconds": round(time.time() - started, 3),
            }
            with (work / "stamp.json").open("w", encoding="utf-8") as file:
                json.dump(stamp, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            if self.about(key) is None:
                self._put(work, key)
            else:
                _remove(work)
        except BaseException:
            with contextlib.suppress(OSError):
                _remove(work)
            raise

    def _put(self, work: Path, key: str) -> None:
        """In its place in one step."""
        away: list[Path] = []
        # Without a valid stamp: never trusted, so not missed.
        self._take_away(key, away)
        for path in away:
            _remove(path)
        entry = self._entry(key)
        entry.parent.mkdir(parents=True, exist_ok=True)
        try:
            work.rename(entry)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or self.about(key) is None:
                raise
            _remove(work)

    @contextlib.contextmanager
    def builder_lock(self, home: Path) -> Iterator[None]:
        """While no build runs in a builder; BlockingIOError when one does."""
        lock = filelock.FileLock(home / "lock", timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise BlockingIOError(f"a build is running in {home}") from error
        try:
            yield
        finally:
            lock.release()

    def entries(self) -> Iterator[Entry]:
        """Everything that is there, trusted or not, in no order."""
        for path in (self.root / "trees").glob("*/*"):
            about = self.about(path.name)
            used = 0.0
            with contextlib.suppress(OSError):
                used = (path / "stamp.json").stat().st_mtime
            yield Entry(path.name, about or {}, used)

    def faults(self, key: str) -> Iterator[str]:
        """What is wrong with a tree, one line each; nothing when it is as it was made."""
        about = self.about(key)
        if about is None:
            yield "it has no valid stamp"
            return
        tree = self._entry(key) / "tree"
        if not tree.is_dir():
            yield "its tree is gone"
            return
        counted = census.take(tree)
        if "digest" in about and counted.digest != about["digest"]:
            yield f"its files changed: {about['files']} were made, {counted.files} are there"
        for name in itertools.islice(census.dangling(tree), 1):
            yield f"its link {name} leads nowhere"
        for name in itertools.islice(census.wrong_by_record(tree), 1):
            yield f"the content of {name} is not what its wheel recorded"

    def held(self) -> frozenset[str]:
        """The keys that running sessions stand on, this one included."""
        return self._holds.held()

    def remove(self, keys: Collection[str]) -> list[str]:
        """Remove trees and what is laid over them, but nothing that is held; returns the keys."""
        removed: list[str] = []
        away: list[Path] = []
        with self._clear_refusals(), self._holds.exclusively():
            held = self._holds.held()
            above: dict[str, list[str]] = defaultdict(list)
            for entry in self.entries():
                above[str(entry.about.get("base"))].append(entry.key)
            for key in keys:
                together = [key, *above[key]]
                if not held.isdisjoint(together):
                    continue
                # The overlays first: a base that goes first would leave them to be trusted.
                for each in reversed(together):
                    self._take_away(each, away)
                removed += together
        for path in away:
            _remove(path)
        return removed

    def prune(self, most_bytes: int) -> list[str]:
        """Evict the least recently used until the rest fits; returns the keys that are gone."""
        entries = sorted(self.entries(), key=lambda entry: entry.used_seconds)
        total = sum(entry.bytes for entry in entries)
        sizes = {entry.key: entry.bytes for entry in entries}
        gone: list[str] = []
        for entry in entries:
            if total <= most_bytes:
                break
            if entry.key not in gone:
                removed = self.remove([entry.key])
                gone += removed
                total -= sum(sizes.get(key, 0) for key in removed)
        return gone

    def _keep_within_size(self, about: Mapping[str, object]) -> None:
        # Overlays are links: counting them all for each of them would cost more than they do.
        if self.most_bytes is not None and about.get("kind") != "overlay":
            self.prune(self.most_bytes)

    def _take_away(self, key: str, away: list[Path]) -> None:
        """Out of sight in one step; only then piece by piece, by us or by somebody's sweep."""
        entry = self._entry(key)
        work = self.root / "tmp" / key[:2] / f"{key}.gone-{secrets.token_hex(4)}"
        if entry.exists():
            work.parent.mkdir(parents=True, exist_ok=True)
            entry.rename(work)
            away.append(work)

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
        """Remove what killed makers left in tmp/."""
        for work in (self.root / "tmp").glob("*/*"):
            key, _, maker = work.name.partition(".")
            if _lives(maker, work):
                continue
            # Somebody may live whose number we cannot see, in a container: the lock tells.
            with contextlib.suppress(filelock.Timeout, OSError), self._lock(key, 0):
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


def _this_process() -> str:
    return f"{socket.gethostname().replace('.', '_')}-{os.getpid()}"


def _lives(maker: str, work: Path) -> bool:
    """Whether the process that made this in tmp/ may still be at it."""
    host, _, rest = maker.rpartition("-")[0].rpartition("-")
    if not (host and rest.isdigit()):
        return False
    if f"{host}-{rest}" == _this_process():
        return True
    if host == _this_process().rpartition("-")[0]:
        return Path("/proc", rest).exists()
    with contextlib.suppress(OSError):
        return time.time() - work.stat().st_mtime < ABANDONED_SECONDS
    return True


def _remove(path: Path) -> None:
    """Remove a directory we own; links in it are removed, never followed."""
    if path.exists():
        shutil.rmtree(path)
