"""A wheel file as an installed tree, and what is written inside it."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from bisectorch.errors import EnvironmentFailure

_INTO_ROOT = ("purelib", "platlib")


def unpack(wheel: Path, tree: Path) -> None:
    """Install the wheel's files into the empty directory ``tree``, as pip's ``--target`` does.

    Scripts go to ``bin``; headers and data, which nothing imports, keep their ``.data`` folder.
    EnvironmentFailure when the file is no wheel or a name in it leads out of the tree.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                target = tree / _place(member.filename)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
                if member.external_attr >> 16 & 0o111:
                    target.chmod(0o755)
    except (zipfile.BadZipFile, EOFError) as error:
        raise EnvironmentFailure(f"{wheel} is not a wheel: {error}") from error


def _place(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise EnvironmentFailure(f"the wheel holds a file that leaves its tree: {name!r}")
    head, *rest = path.parts
    if head.endswith(".data") and len(rest) > 1:
        if rest[0] in _INTO_ROOT:
            return str(PurePosixPath(*rest[1:]))
        if rest[0] == "scripts":
            return str(PurePosixPath("bin", *rest[1:]))
    return name


@dataclass(frozen=True)
class WheelName:
    """What a wheel's file name says: project, version, and the tags it serves."""

    name: str
    version: str
    tags: frozenset[str]


def read_name(file_name: str) -> WheelName | None:
    """What a wheel's file name says, or None where it is none."""
    try:
        name, version, _build, tags = parse_wheel_filename(file_name)
    except (InvalidWheelFilename, ValueError):
        return None
    return WheelName(str(name), str(version), frozenset(map(str, tags)))
