"""The WHEEL route: a package index's wheel with its dependencies, as one self-contained tree."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bisectorch.build.interpreter import Interpreter
from bisectorch.errors import EnvironmentFailure, UsageError

FORMAT = 1
"""Part of every wheel's key: raise it when the same requirement would be laid out differently."""


@dataclass(frozen=True)
class BaseWheel:
    """The wheel that a history without native files of its own lies on.

    Attributes:
        requirement: what pip installs, pinned, for example ``torch==2.13.0``.
        companions: further requirements that go into the same tree.
        index_url: the package index, None for pip's own choice.
        pip_args: handed to ``pip install`` as they are.

    Raises:
        UsageError: a requirement that pip would not understand.
    """

    requirement: str
    companions: tuple[str, ...] = ()
    index_url: str | None = None
    pip_args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for text in (self.requirement, *self.companions):
            try:
                Requirement(text)
            except InvalidRequirement as error:
                raise UsageError(
                    f"base wheel {text!r} is not a requirement; write it like torch==2.13.0"
                ) from error

    def key(self, interpreter: Interpreter) -> str:
        """The store's key of the installed tree."""
        parts = (
            "wheel",
            FORMAT,
            self.requirement,
            self.companions,
            self.index_url,
            self.pip_args,
            interpreter.identity,
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def install(wheel: BaseWheel, tree: Path, interpreter: Interpreter, log: Path) -> None:
    """Install the wheel and all it needs into the empty directory ``tree``, compiled once.

    Args:
        wheel: what to install.
        tree: an empty directory.
        interpreter: its own pip does it.
        log: everything pip says is kept there.

    Raises:
        EnvironmentFailure: pip failed, with its telling line; or it installed another version.
    """
    command = [
        *(os.fspath(interpreter.path), "-I", "-m", "pip", "install", "--target", os.fspath(tree)),
        *("--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
        *(("--index-url", wheel.index_url) if wheel.index_url else ()),
        *wheel.pip_args,
        wheel.requirement,
        *wheel.companions,
    ]
    with log.open("wb") as output:
        status = _run(command, output.fileno())
    if status:
        said = _telling(log.read_text("utf-8", "replace"))
        raise EnvironmentFailure(
            f"pip could not install {wheel.requirement} for Python {interpreter.version}: {said} "
            f"(all it said: {log})"
        )
    _verify(wheel, tree)
    with log.open("ab") as output:
        # The status says only that some file is not for this interpreter; packages hold such.
        _run(
            [
                os.fspath(interpreter.path),
                "-I",
                "-m",
                "compileall",
                "-q",
                "-j",
                "0",
                os.fspath(tree),
            ],
            output.fileno(),
        )


def _run(command: list[str], output: int) -> int:
    # A pip of a virtual environment must neither see another path nor install for the user.
    environment = {**os.environ, "PIP_USER": "false", "PYTHONNOUSERSITE": "1"}
    environment.pop("PYTHONPATH", None)
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            check=False,
        ).returncode
    except OSError as error:
        raise EnvironmentFailure(f"cannot run {command[0]}: {error.strerror}") from error


def _verify(wheel: BaseWheel, tree: Path) -> None:
    found: Mapping[str, str] = {
        canonicalize_name(each.metadata["Name"]): each.version
        for each in metadata.distributions(path=[os.fspath(tree)])
        if each.metadata["Name"]
    }
    for text in (wheel.requirement, *wheel.companions):
        wanted = Requirement(text)
        version = found.get(canonicalize_name(wanted.name))
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            raise EnvironmentFailure(
                f"pip was asked for {text} and installed {version or 'nothing'}: "
                "is another version forced by a constraint or by an old pip?"
            )


def _telling(output: str) -> str:
    """The line of pip's output that says what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for pattern in (
        r"No space left on device",
        r"No matching distribution",
        r"^ERROR: .*conflicting dependencies",
        r"ConnectionError|Temporary failure|Network is unreachable|Max retries|timed out",
        r"^(ERROR|error): ",
        r"No module named pip",
    ):
        for line in reversed(lines):
            if re.search(pattern, line):
                return line.removeprefix("ERROR: ")[:300]
    return lines[-1][:300] if lines else "it said nothing"
