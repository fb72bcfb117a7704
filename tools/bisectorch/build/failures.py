"""What could not be built, remembered across sessions so that nobody pays for it twice."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path


class Failures:
    """One small file for each native fingerprint that did not build.

    Args:
        directory: in the store.
        forget: take none of those that are there for granted, but try again.
    """

    def __init__(self, directory: Path, *, forget: bool = False) -> None:
        self._directory = directory
        # By what they are, not by when they were written: a clock may have jumped since.
        self._forgotten = frozenset(map(_identity, directory.glob("*.json")) if forget else ())

    def reason(self, key: str, limits: Mapping[str, float]) -> str | None:
        """Why ``key`` did not build, or None where that is not known.

        A build that was stopped by its limits is tried again when one of them was raised.
        """
        try:
            if _identity(self._file(key)) in self._forgotten:
                return None
            known = json.loads(self._file(key).read_bytes())
            raised = known["stopped"] and any(
                limits[name] > known["limits"].get(name, 0.0) for name in limits
            )
            return None if raised else str(known["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def add(self, key: str, reason: str, limits: Mapping[str, float], *, stopped: bool) -> None:
        """Remember one; a disk that refuses costs the next session a build."""
        content = {"at": time.time(), "reason": reason, "limits": limits, "stopped": stopped}
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            half = self._directory / f"{key}.{os.getpid()}.half"
            half.write_text(json.dumps(content), "utf-8")
            half.replace(self._file(key))

    def _file(self, key: str) -> Path:
        return self._directory / f"{key}.json"


def _identity(path: Path) -> tuple[str, int, int]:
    """What tells this file from one that takes its place; OSError when there is none."""
    about = path.stat()
    return path.name, about.st_ino, about.st_mtime_ns
