"""The WHEEL route: a package index's wheel with its dependencies, as one self-contained tree."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from bisectorch.build.interpreter import Interpreter, describe
from bisectorch.errors import EnvironmentFailure, Unbuildable, UsageError

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
    install_all([wheel.requirement, *wheel.companions], tree, interpreter, log, wheel)
    _verify(wheel, tree)


class Index(Protocol):
    """Where pip gets what it installs."""

    @property
    def index_url(self) -> str | None:
        """The package index, None for pip's own choice."""

    @property
    def pip_args(self) -> tuple[str, ...]:
        """Handed to pip as they are."""


class WheelIndex(Index, Protocol):
    """A project's place in a package index."""

    @property
    def project(self) -> str:
        """The distribution's name."""


def install_all(
    wanted: Sequence[str], tree: Path, interpreter: Interpreter, log: Path, index: Index
) -> None:
    """Install requirements or wheel files, and all they need, into the empty directory ``tree``.

    EnvironmentFailure with pip's telling line when it fails; everything it says is in ``log``.
    """
    options = ["install", "--target", os.fspath(tree), "--no-compile"]
    with log.open("wb") as output:
        status = _run(_pip(interpreter, index, options, wanted), output.fileno())
    if status:
        said = _telling(log.read_text("utf-8", "replace"))
        raise EnvironmentFailure(
            f"pip could not install {Path(wanted[0]).name} for Python {interpreter.version}: "
            f"{said} (all it said: {log})"
        )
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


def download(requirement: str, index: Index, interpreter: Interpreter, directory: Path) -> Path:
    """Download one requirement's wheel, nothing it needs; Unbuildable where there is none."""
    options = ["download", "--no-deps", "--only-binary", ":all:", "--dest", os.fspath(directory)]
    log = directory / "pip.log"
    with log.open("wb") as output:
        status = _run(_pip(interpreter, index, options, [requirement]), output.fileno())
    found = list(directory.glob("*.whl"))
    if status or len(found) != 1:
        said = _telling(log.read_text("utf-8", "replace"))
        if "No matching distribution" in said:
            raise Unbuildable(f"{said} (Python {interpreter.version})")
        raise EnvironmentFailure(f"pip could not download {requirement}: {said}")
    return found[0]


def release_versions(sources: WheelIndex, python: Path | str, scratch: Path) -> list[str]:
    """Every release that the index has for this interpreter, as pip lists them."""
    interpreter, log = describe(python), scratch / "pip.log"
    command = _pip(interpreter, sources, ["index", "versions"], [sources.project])
    with log.open("wb") as output:
        status = _run(command, output.fileno())
    said = log.read_text("utf-8", "replace")
    listed = re.search(r"^Available versions: (.*)$", said, re.MULTILINE)
    if status or not listed:
        raise EnvironmentFailure(
            f"pip cannot list the releases of {sources.project}: {_telling(said)}"
        )
    return [version.strip() for version in listed[1].split(",")]


def _pip(
    interpreter: Interpreter, index: Index, options: Sequence[str], wanted: Sequence[str]
) -> list[str]:
    return [
        *(os.fspath(interpreter.path), "-I", "-m", "pip", *options),
        *("--no-input", "--disable-pip-version-check"),
        *(("--progress-bar", "off") if options[0] != "index" else ()),
        *(("--index-url", index.index_url) if index.index_url else ()),
        *index.pip_args,
        *wanted,
    ]


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
