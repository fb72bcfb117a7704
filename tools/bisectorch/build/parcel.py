"""A tree of the store as one file, so that it can travel to another store."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from bisectorch.build import census
from bisectorch.build.store import Store
from bisectorch.errors import EnvironmentFailure

_STAMP, _MANIFEST, _TREE = "stamp.json", "manifest.json", "tree"
_COMPUTED = ("files", "bytes", "digest", "version", "key", "created", "seconds")
"""What the store itself writes into a stamp."""


def pack(store: Store, key: str, file: IO[bytes]) -> None:
    """Write the tree of ``key``, with its stamp and manifest; EnvironmentFailure without one."""
    tree = store.get(key)
    if tree is None:
        raise EnvironmentFailure(f"the store {store.root} holds no build {key[:12]}")
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in (_STAMP, _MANIFEST):
            if store.beside(key, name).exists():
                archive.add(store.beside(key, name), name)
        archive.add(tree, _TREE)


def take(store: Store, key: str, path: Path) -> Path:
    """Put a packed tree into the store, and return it.

    EnvironmentFailure when it is another one, holds a name that leads out of its tree, or is not
    what it was when it was packed.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            stamp = json.load(_open(archive, _STAMP))
            if stamp.get("key") != key:
                raise _wrong(key, f"it is {str(stamp.get('key'))[:12]}")

            def make(tree: Path) -> None:
                for member in archive:
                    _unpack(archive, member, tree, key)
                if census.take(tree).digest != stamp.get("digest"):
                    raise _wrong(key, "it is not what it was when it was packed")

            about = {name: value for name, value in stamp.items() if name not in _COMPUTED}
            return store.make(key, make, about)
    except (tarfile.TarError, ValueError, KeyError, EOFError) as error:
        raise _wrong(key, str(error)) from error


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, tree: Path, key: str) -> None:
    top, *rest = PurePosixPath(member.name).parts or ("",)
    if member.name in (_STAMP, _MANIFEST):
        if member.name == _MANIFEST:
            (tree.parent / _MANIFEST).write_bytes(_open(archive, _MANIFEST).read())
        return
    if top != _TREE or ".." in rest:
        raise _wrong(key, f"{member.name!r} leads out of its tree")
    target = tree.joinpath(*rest)
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.issym():
        _refuse_escape(member, rest, key)
        target.symlink_to(member.linkname)
    elif member.isfile() or member.islnk():
        # Never through a link that an earlier member left.
        if any(tree.joinpath(*rest[:depth]).is_symlink() for depth in range(1, len(rest) + 1)):
            raise _wrong(key, f"{member.name!r} leads out of its tree")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(_open(archive, member), file, 1 << 20)
        target.chmod(member.mode & 0o755)
        # Compiled Python files know their source by its time.
        os.utime(target, (member.mtime, member.mtime))
    else:
        raise _wrong(key, f"{member.name!r} is no file")


def _refuse_escape(member: tarfile.TarInfo, rest: list[str], key: str) -> None:
    depth = len(rest) - 1
    for part in PurePosixPath(member.linkname).parts:
        depth += -1 if part == ".." else 1
        if part == "/" or depth < 0:
            raise _wrong(key, f"the link {member.name!r} leads out of its tree")


def _open(archive: tarfile.TarFile, what: str | tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(what)
    if file is None:
        raise KeyError(f"{what} is no file")
    return file


def _wrong(key: str, why: str) -> EnvironmentFailure:
    return EnvironmentFailure(f"the packed build {key[:12]} is not taken: {why}; build it again")
