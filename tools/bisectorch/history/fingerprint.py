"""The native fingerprint: an order-free hash of the files that go into compiled artefacts.

The sum, modulo 2**256, of one SHA-256 a file: a commit's fingerprint follows from its parent's
by taking out and putting in only the changed files. A multiset hash by addition (Bellare and
Micciancio 1997, "AdHash"); against chance it is as good as SHA-256, and nobody gains by forging.
"""

from __future__ import annotations

import hashlib

from bisectorch.model import NO_NATIVE_FILES

_MODULUS = 1 << 256


class Fingerprint:
    """A running fingerprint; ``str()`` is its 64 hexadecimal digits."""

    def __init__(self, hexadecimal: str = NO_NATIVE_FILES) -> None:
        self._sum = int(hexadecimal, 16)

    def add(self, path: str, mode: str, blob: str) -> None:
        """Put one file in."""
        self._sum = (self._sum + _entry(path, mode, blob)) % _MODULUS

    def remove(self, path: str, mode: str, blob: str) -> None:
        """Take one file out."""
        self._sum = (self._sum - _entry(path, mode, blob)) % _MODULUS

    def __str__(self) -> str:
        return f"{self._sum:064x}"


def _entry(path: str, mode: str, blob: str) -> int:
    text = f"{mode}\0{blob}\0{path}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")
