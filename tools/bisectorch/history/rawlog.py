"""Reads the stream of ``git log --raw -z`` with our format: pure, one commit at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from bisectorch.errors import EnvironmentFailure

_MARK = b"commit"
FORMAT = "tformat:" + "%x00".join(["", _MARK.decode(), "%H", "%P", "%an", "%ct", "%s", ""])
"""What to hand to ``--format``."""

ABSENT = "000000"
"""The mode of the side on which a file does not exist."""


@dataclass(frozen=True)
class Change:
    """One changed file: its modes and blobs before and after."""

    path: str
    old_mode: str
    old_blob: str
    mode: str
    blob: str


@dataclass(frozen=True)
class Entry:
    """One commit of the log with its changes against its first parent."""

    sha: str
    parents: tuple[str, ...]
    author: str
    date_seconds: int
    subject: str
    changes: tuple[Change, ...]


def read_log(stream: IO[bytes]) -> Iterator[Entry]:
    """Yield the entries as they arrive; EnvironmentFailure when it is not what we asked for."""
    tokens = _tokens(stream)
    header: tuple[str, tuple[str, ...], str, int, str] | None = None
    changes: list[Change] = []
    try:
        for raw in tokens:
            token = raw.lstrip(b"\n")
            if token == _MARK:
                if header:
                    yield Entry(*header, tuple(changes))
                header, changes = _header(tokens), []
            elif token.startswith(b":"):
                modes = token[1:].decode("ascii").split()
                old_mode, mode, old_blob, blob, _status = modes
                path = next(tokens).decode("utf-8", "surrogateescape")
                changes.append(Change(path, old_mode, old_blob, mode, blob))
            elif token:
                raise ValueError(token[:80])
    except (ValueError, StopIteration, RuntimeError) as error:
        raise EnvironmentFailure(f"git log was cut short or is not understood: {error}") from error
    if header:
        yield Entry(*header, tuple(changes))


def _header(tokens: Iterator[bytes]) -> tuple[str, tuple[str, ...], str, int, str]:
    sha, parents, author, date, subject = (next(tokens) for _ in range(5))
    return (
        sha.decode("ascii"),
        tuple(parents.decode("ascii").split()),
        _text(author),
        int(date),
        _text(subject),
    )


def _text(raw: bytes) -> str:
    """Text for people: whatever bytes a commit holds, it can be printed and stored."""
    return raw.decode("utf-8", "replace")


def _tokens(stream: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read(1 << 16):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
    if rest.strip(b"\n"):
        raise ValueError("no end of record")
