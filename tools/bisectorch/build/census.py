"""What a tree consists of, told cheaply enough to be told every time."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Census:
    """A tree's own files: how many, their bytes, and a digest over names, sizes and links."""

    files: int
    bytes: int
    digest: str


def take(tree: Path) -> Census:
    """Count a tree; what its links lead to is not its own."""
    files = total = 0
    digest = hashlib.sha256()
    for name, entry in _walk(tree, ""):
        if entry.is_symlink():
            about = f"-> {Path(entry.path).readlink()}"
        else:
            size = entry.stat(follow_symlinks=False).st_size
            total += size
            about = str(size)
        files += 1
        digest.update(f"{name}\0{about}\0".encode("utf-8", "surrogateescape"))
    return Census(files, total, digest.hexdigest())


def _walk(directory: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(directory) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


def dangling(tree: Path) -> Iterator[str]:
    """Links of the tree that lead nowhere."""
    for name, entry in _walk(tree, ""):
        if entry.is_symlink() and not Path(entry.path).exists():
            yield name


def wrong_by_record(tree: Path) -> Iterator[str]:
    """Files whose content is not what their wheel's own RECORD says."""
    for record in tree.glob("*.dist-info/RECORD"):
        if record.is_symlink() or record.parent.is_symlink():
            continue
        with record.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                path = tree / row[0] if row else tree
                if len(row) < 2 or not row[1].startswith("sha256=") or not path.is_file():
                    continue
                found = base64.urlsafe_b64encode(_sha256(path)).rstrip(b"=").decode()
                if found != row[1].removeprefix("sha256="):
                    yield row[0]


def _sha256(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()
