"""What the target interpreter is, as far as compiled files depend on it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bisectorch.errors import EnvironmentFailure

# Python 3.6 syntax: it runs under the target interpreter.
_DESCRIBE = """
import json, platform, sys, sysconfig
print(json.dumps([
    "%d.%d" % sys.version_info[:2],
    platform.python_implementation(),
    sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag,
    sysconfig.get_platform(),
]))
"""


@dataclass(frozen=True)
class Interpreter:
    """One interpreter: where it is, and what a tree made for it depends on.

    Attributes:
        path: the executable.
        version: ``3.11``.
        identity: implementation, version, ABI and platform, as one line of text.
    """

    path: Path
    version: str
    identity: str


def describe(python: Path | str) -> Interpreter:
    """Ask an interpreter what it is; EnvironmentFailure when it cannot be run."""
    try:
        done = subprocess.run(
            [os.fspath(python), "-I", "-S", "-c", _DESCRIBE],
            capture_output=True,
            check=False,
            text=True,
        )
        version, implementation, abi, platform = json.loads(done.stdout)
    except (OSError, ValueError) as error:
        raise EnvironmentFailure(f"cannot run {python}: is it a Python interpreter?") from error
    return Interpreter(Path(python), version, f"{implementation} {version} {abi} {platform}")
