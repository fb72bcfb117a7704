"""Content that must be on the disk before something says that it is there."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def sync_file_system(path: Path) -> None:
    """Return once everything written to the file system of ``path`` is on its disk; OSError.

    One call for a tree of ten thousand files: to sync each of them would take a minute.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fspath(path))
    finally:
        os.close(descriptor)
