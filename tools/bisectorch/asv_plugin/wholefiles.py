"""asv's own files whole or not at all: it writes in place, so that a kill leaves half of one."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asv import util


@contextlib.contextmanager
def whole_files() -> Iterator[None]:
    """While this lasts, what asv writes as JSON takes the place of the old file in one step."""
    real = util.write_json

    def write(path: str, *arguments: Any, **options: Any) -> None:
        # Not ending in .json, so that asv passes over what a kill leaves.
        half = Path(f"{path}.{secrets.token_hex(4)}.half")
        try:
            real(os.fspath(half), *arguments, **options)
            half.replace(path)
        except BaseException:
            half.unlink(missing_ok=True)
            raise

    util.write_json = write
    try:
        yield
    finally:
        util.write_json = real
