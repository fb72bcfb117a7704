"""Which files an overlay lays and removes to be exactly what the commit would install. Pure.

A native build remembers its *manifest*: the Python files that its own commit tracked, and where
each one was installed. Another commit of the same native fingerprint differs in Python files
alone, so what installs them (``setup.py`` and the like, which are native) is the same, and where
a file goes can be told from where its neighbours went. Where it cannot be told, the answer is
that: then the commit is built, because an overlay is exact or it is not made.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from bisectorch.build.packages import PackageRule
from bisectorch.model import TreeFile


@dataclass(frozen=True)
class Manifest:
    """What one native build installed of its own commit.

    Attributes:
        sha: the commit it is a build of.
        root: the directory of the repository that packages lie in, ``""`` or like ``src``.
        files: the Python files that the commit tracks, by path.
        installed: for each path that was installed, whether its bytes are the commit's own.
        packages: which packages are found; None where they are listed, or nobody knows.
    """

    sha: str
    root: str
    files: Mapping[str, TreeFile]
    installed: Mapping[str, bool]
    packages: PackageRule | None
    _shown: Mapping[tuple[str, str], tuple[bool, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shown: dict[tuple[str, str], list[bool]] = defaultdict(list)
        for path in self.files:
            shown[_kind(path)].append(path in self.installed)
        object.__setattr__(self, "_shown", {kind: tuple(each) for kind, each in shown.items()})

    def shown(self, path: str) -> tuple[bool, ...]:
        """For each file of the same directory and suffix, whether it was installed."""
        return self._shown.get(_kind(path), ())

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        content = {
            "sha": self.sha,
            "root": self.root,
            "packages": None if self.packages is None else asdict(self.packages),
            "files": [
                [file.path, file.mode, file.blob, self.installed.get(file.path)]
                for file in self.files.values()
            ],
        }
        path.write_text(json.dumps(content), "utf-8", "surrogatepass")

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """What ``write`` kept."""
        content = json.loads(path.read_text("utf-8", "surrogatepass"))
        files = [TreeFile(*each[:3]) for each in content["files"]]
        rule = content["packages"] and {key: tuple(v) for key, v in content["packages"].items()}
        return cls(
            sha=content["sha"],
            root=content["root"],
            files={file.path: file for file in files},
            installed={each[0]: each[3] for each in content["files"] if each[3] is not None},
            packages=None if rule is None else PackageRule(**rule),
        )


@dataclass(frozen=True)
class Difference:
    """What to do to a native build: files to lay at their installed paths, and paths to remove."""

    laid: tuple[TreeFile, ...]
    removed: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """The native build is this very commit's already."""
        return not self.laid and not self.removed


def where_installed(path: str, root: str) -> str | None:
    """The path inside an installed tree, None for what lies outside ``root``."""
    if not root:
        return path
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else None


def difference(manifest: Manifest, files: Sequence[TreeFile]) -> Difference | None:
    """What turns the manifest's build into the build of a commit with these Python files.

    None where that cannot be told from the manifest.
    """
    now = {file.path: file for file in files}
    laid: list[TreeFile] = []
    removed: list[str] = []
    moved = _changed_packages(manifest, now)
    judge = _Judge(manifest, now)
    for path in sorted(manifest.files.keys() | now.keys()):
        before, after = manifest.files.get(path), now.get(path)
        where = where_installed(path, manifest.root)
        if where is None or (before == after and not _is_under(path, moved)):
            continue
        was = path in manifest.installed
        known = before is not None and not _is_under(path, moved)
        will = False if after is None else was if known else judge.will_install(path)
        if will is None:
            return None
        if will and after is not None and after != before:
            if was and not manifest.installed[path]:
                # The build rewrites this file, so its bytes are not ours to tell.
                return None
            laid.append(TreeFile(where, after.mode, after.blob))
        elif will and not was and after is not None:
            laid.append(TreeFile(where, after.mode, after.blob))
        elif was and not will:
            removed.append(where)
    return Difference(tuple(laid), tuple(removed))


def _changed_packages(manifest: Manifest, now: Mapping[str, TreeFile]) -> Collection[str]:
    """Directories that became packages or ceased to be: their other files follow."""
    if manifest.packages is None:
        return ()
    changed = manifest.files.keys() ^ now.keys()
    return {
        f"{PurePosixPath(path).parent}/"
        for path in changed
        if PurePosixPath(path).name == "__init__.py"
    }


def _is_under(path: str, directories: Collection[str]) -> bool:
    return any(path.startswith(directory) for directory in directories)


class _Judge:
    """Whether files that the manifest does not know would be installed; None: unknown."""

    def __init__(self, manifest: Manifest, now: Mapping[str, TreeFile]) -> None:
        self._manifest = manifest
        self._inits = _inits(now, manifest.root)
        self._explained: dict[str, bool] = {}

    def will_install(self, path: str) -> bool | None:
        rule = self._manifest.packages
        if rule is not None and path.endswith(".py"):
            return self._will_be_found(path, rule)
        shown = set(self._manifest.shown(path))
        return shown.pop() if len(shown) == 1 else None

    def _will_be_found(self, path: str, rule: PackageRule) -> bool | None:
        inside = where_installed(path, self._manifest.root)
        if inside is None or "/" not in inside:
            # A module beside the packages is listed by name.
            return None
        top = inside.split("/")[0]
        if top not in self._explained:
            self._explained[top] = _explains(rule, self._manifest, top)
        if not self._explained[top]:
            return None
        return rule.installs(str(PurePosixPath(inside).parent), self._inits)


def _explains(rule: PackageRule, manifest: Manifest, top: str) -> bool:
    """Whether the rule tells of every module of a package that is known what became of it."""
    inits = _inits(manifest.files, manifest.root)
    known = [
        (path, inside)
        for path in manifest.files
        if path.endswith(".py")
        and (inside := where_installed(path, manifest.root)) is not None
        and inside.startswith(f"{top}/")
    ]
    return bool(known) and all(
        rule.installs(str(PurePosixPath(inside).parent), inits) is (path in manifest.installed)
        for path, inside in known
    )


def _inits(files: Iterable[str], root: str) -> set[str]:
    return {
        str(PurePosixPath(inside).parent)
        for path in files
        if path.endswith("/__init__.py") and (inside := where_installed(path, root)) is not None
    }


def _kind(path: str) -> tuple[str, str]:
    pure = PurePosixPath(path)
    return str(pure.parent), pure.suffix
