"""Finds the interpreter of a version: on the PATH, among pyenv's and uv's, or the running one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSION = re.compile(r"\d+(?:\.\d+){0,2}")


def find_python(version: str) -> Path | None:
    """An interpreter that runs and is of ``version`` (``3``, ``3.11`` or ``3.11.7``), or None.

    Every candidate is asked, because a name on the PATH may be a version manager's stand-in
    that only says that nothing is installed behind it.
    """
    for candidate in _candidates(version):
        if _is_of_version(candidate, version):
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    for folder, prefix in ((pyenv, ""), (uv, "cpython-")):
        # As numbers: 3.6.15 is newer than 3.6.9.
        found = sorted(folder.glob(f"{prefix}{version}*"), key=_numbers, reverse=True)
        yield from (each / "bin" / "python3" for each in found)
    yield Path(sys.executable)


def _numbers(path: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", path.name)]


def _is_of_version(python: Path, version: str) -> bool:
    ask = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        done = subprocess.run(
            [os.fspath(python), "-I", "-S", "-c", ask],
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return f"{done.stdout.strip()}.".startswith(f"{version}.")
