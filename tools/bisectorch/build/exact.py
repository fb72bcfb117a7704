"""The WHEEL route for commits: prebuilt wheels of exactly one commit, proven by what they record.

A wheel is a commit's when a version file inside it records that commit's full object name.
Candidates come from local folders, from a table (nightly builds, say), and from the releases of
a package index by the repository's tags. What a candidate claims decides whether it is quoted;
what it records decides whether it is used.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging import tags
from packaging.utils import canonicalize_name

from bisectorch.build import plan
from bisectorch.build.interpreter import Interpreter
from bisectorch.build.unpack import read_name
from bisectorch.build.wheel import download
from bisectorch.errors import EnvironmentFailure, Unbuildable, UsageError

FORMAT = 1
_VERSION_FILE = re.compile(r"[^/]+/(?:_?version|_?git_version|_version_info)\.py")
_GIT_VERSION = re.compile(
    rb"\b(?:__)?git_?(?:version|hash|sha|commit)(?:__)?\b[^=\n]*=\s*['\"]([0-9a-f]{40})['\"]"
)
_MOST_BYTES = 1 << 16


class NotExact(Unbuildable):
    """The wheel that was offered for a commit is another one's."""


@dataclass(frozen=True)
class WheelSources:
    """Where wheels of single commits may come from.

    Attributes:
        project: the distribution's name.
        folders: local directories of wheel files.
        table: a path or URL of JSON, ``{"wheels": [{"commit", "url", "sha256"}]}``.
        releases: whether the package index is asked for the releases that tags name.
        tag: what a release's tag looks like, ``{version}`` in it.
        index_url: the package index, None for pip's own choice.
        pip_args: handed to pip as they are.
        companions: further requirements that go into the same tree.
    """

    project: str
    folders: tuple[Path, ...] = ()
    table: str | None = None
    releases: bool = True
    tag: str = "v{version}"
    index_url: str | None = None
    pip_args: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()

    def version_of(self, tag: str) -> str | None:
        """The final release that a tag names, or None."""
        pattern = re.escape(self.tag).replace(r"\{version\}", r"(\d+(?:\.\d+)+)")
        match = re.fullmatch(pattern, tag)
        return match[1] if match else None


@dataclass(frozen=True)
class Offer:
    """One wheel that claims to be a commit's.

    Attributes:
        commit: the full object name.
        name: the wheel's file name, or the requirement that pip would download.
        kind: the kind of work in ``plan``.
        obtain: brings the file into a directory and returns its path.
    """

    commit: str
    name: str
    kind: str
    obtain: Callable[[Path], Path] = field(compare=False)

    def key(self, sources: WheelSources, interpreter: Interpreter) -> str:
        """The store's key of the installed tree."""
        options = (sources.index_url, sources.pip_args, sources.companions)
        parts = ("exact", FORMAT, self.commit, self.name, options, interpreter.identity)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class ExactWheels:
    """The wheels that single commits have.

    Args:
        sources: where to look.
        tags_of: for a commit, the names of its tags.
        interpreter: what they must run on.
    """

    def __init__(
        self,
        sources: WheelSources,
        tags_of: Callable[[], Mapping[str, tuple[str, ...]]],
        interpreter: Interpreter,
    ) -> None:
        self.sources = sources
        self._tags_of = tags_of
        self._interpreter = interpreter

    def offers(self, sha: str) -> list[Offer]:
        """The wheels that claim to be the commit's, the cheapest first; nothing is downloaded."""
        found = [self._local[sha]] if sha in self._local else []
        found += [self._tabled[sha]] if sha in self._tabled else []
        if self.sources.releases:
            versions = map(self.sources.version_of, self._tags.get(sha, ()))
            found += [self._release(sha, version) for version in versions if version]
        return found

    @functools.cached_property
    def _tags(self) -> Mapping[str, tuple[str, ...]]:
        return self._tags_of()

    @functools.cached_property
    def _fitting(self) -> frozenset[str]:
        major, minor = (int(part) for part in self._interpreter.version.split(".")[:2])
        python = f"cp{major}{minor}"
        known = [*tags.cpython_tags((major, minor)), *tags.compatible_tags((major, minor), python)]
        return frozenset(map(str, known))

    def _fits(self, file_name: str) -> bool:
        """A wheel of the project, for this interpreter and platform."""
        name = read_name(file_name)
        return (
            name is not None
            and name.name == canonicalize_name(self.sources.project)
            and not self._fitting.isdisjoint(name.tags)
        )

    @functools.cached_property
    def _local(self) -> Mapping[str, Offer]:
        found: dict[str, Offer] = {}
        for folder in self.sources.folders:
            if not folder.is_dir():
                raise UsageError(f"the folder of wheels {folder} does not exist")
            for path in sorted(folder.glob("*.whl")):
                sha = recorded_commit(path) if self._fits(path.name) else None
                if sha:
                    obtain = functools.partial(_as_it_is, path)
                    found.setdefault(sha, Offer(sha, path.name, plan.UNPACK, obtain))
        return found

    @functools.cached_property
    def _tabled(self) -> Mapping[str, Offer]:
        table = self.sources.table
        if table is None:
            return {}
        try:
            raw = _open(table)
            entries = [
                (str(each["commit"]), str(each["url"]), str(each.get("sha256", "")))
                for each in json.loads(raw)["wheels"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"the table of wheels {table} is not understood: write "
                '{"wheels": [{"commit": "...", "url": "...", "sha256": "..."}]}'
            ) from error
        found = {}
        for commit, url, checksum in entries:
            name = urllib.parse.unquote(url.rpartition("/")[2])
            if self._fits(name):
                obtain = functools.partial(_fetch, url, checksum, name)
                found[commit] = Offer(commit, name, plan.DOWNLOAD, obtain)
        return found

    def _release(self, sha: str, version: str) -> Offer:
        requirement = f"{self.sources.project}=={version}"
        obtain = functools.partial(download, requirement, self.sources, self._interpreter)
        return Offer(sha, requirement, plan.DOWNLOAD, obtain)


def recorded_commit(wheel: Path) -> str | None:
    """The commit that a version file inside the wheel records, or None."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if _VERSION_FILE.fullmatch(member.filename) and member.file_size < _MOST_BYTES:
                    match = _GIT_VERSION.search(archive.read(member))
                    if match:
                        return match[1].decode("ascii")
    except (zipfile.BadZipFile, OSError):
        return None
    return None


def checksum_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _as_it_is(path: Path, _directory: Path) -> Path:
    return path


def _open(place: str) -> bytes:
    if "://" not in place:
        try:
            return Path(place).read_bytes()
        except OSError as error:
            raise UsageError(
                f"the table of wheels {place} cannot be read: {error.strerror}"
            ) from error
    try:
        with urllib.request.urlopen(place, timeout=60) as response:
            return bytes(response.read())
    except (urllib.error.URLError, OSError) as error:
        raise EnvironmentFailure(f"the table of wheels {place} does not answer: {error}") from error


def _fetch(url: str, checksum: str, name: str, directory: Path) -> Path:
    target = directory / name
    try:
        with urllib.request.urlopen(url, timeout=60) as response, target.open("wb") as file:
            shutil.copyfileobj(response, file, 1 << 20)
    except (urllib.error.URLError, ValueError, OSError) as error:
        raise EnvironmentFailure(f"the wheel {url} cannot be fetched: {error}") from error
    found = checksum_of(target)
    if checksum and found != checksum.lower():
        target.unlink()
        raise EnvironmentFailure(
            f"the wheel {url} is not the one that the table means: its SHA-256 is {found}"
        )
    return target
