"""What sessions amount to, kept from one publish to the next: a log that ended never changes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bisectorch.model import Findings
from bisectorch.report.told import Moment


class _Told(msgspec.Struct, array_like=True):
    findings: Findings
    course: tuple[Moment, ...]


class _Kept(msgspec.Struct):
    stamp: str = ""
    sessions: dict[str, bytes] = msgspec.field(default_factory=dict)


class KeptFindings:
    """Findings by their log's digest, those of this program alone."""

    def __init__(self, path: Path, stamp: str) -> None:
        self._path = path
        try:
            kept = msgspec.msgpack.decode(path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            kept = _Kept()
        self._old = kept.sessions if kept.stamp == stamp else {}
        self._now = _Kept(stamp)

    def get(self, mark: str) -> tuple[Findings, tuple[Moment, ...]] | None:
        """What this log amounted to; None if that is not known."""
        packed = self._old.get(mark)
        if packed is None:
            return None
        try:
            told = msgspec.msgpack.decode(packed, type=_Told)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        self._now.sessions[mark] = packed
        return told.findings, told.course

    def put(self, mark: str, findings: Findings, course: tuple[Moment, ...]) -> None:
        """Remember what this log amounts to, unless it holds text that no file can."""
        try:
            self._now.sessions[mark] = msgspec.msgpack.encode(_Told(findings, course))
        except (msgspec.EncodeError, UnicodeEncodeError):
            return

    def save(self) -> None:
        """Keep what this publish told of."""
        if self._now.sessions.keys() != self._old.keys():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch = self._path.with_suffix(".new")
            scratch.write_bytes(msgspec.msgpack.encode(self._now))
            scratch.replace(self._path)
