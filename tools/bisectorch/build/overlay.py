"""The overlay: one commit's Python files laid over a native build, as links and few real files.

Only the directories on the way to a laid or removed file are real; everything beside them is a
symbolic link into the base, which is never written. Compiled files (``__pycache__``) go along:
those of untouched modules are linked, those of laid modules are compiled afresh.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.model import TreeFile

FORMAT = 1
"""Part of every overlay's key: raise it when the same files would be laid differently."""

_LINK_MODE = "120000"

# Python 3.6 syntax: it runs under the target interpreter. A file that does not compile is left
# alone, because whether that matters is for the import to say.
_COMPILE = """
import os, py_compile, sys
for path in sys.stdin.buffer.read().split(b"\\0"):
    if path:
        try:
            py_compile.compile(os.fsdecode(path), doraise=True)
        except (py_compile.PyCompileError, SyntaxError, ValueError, RecursionError, MemoryError):
            pass
"""


@dataclass
class _Directory:
    """What becomes of one directory: names laid as files, names removed, deeper changes."""

    laid: dict[str, TreeFile] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    inner: dict[str, _Directory] = field(default_factory=dict)

    def find(self, parts: Sequence[str]) -> _Directory:
        """The directory reached by ``parts``, made on the way."""
        here = self
        for part in parts:
            here = here.inner.setdefault(part, _Directory())
        return here


def lay(
    base: Path,
    tree: Path,
    files: Sequence[TreeFile],
    contents: Mapping[str, bytes],
    *,
    python: Path | str,
    date_seconds: int,
    removed: Collection[str] = (),
) -> None:
    """Fill the empty directory ``tree`` with ``base`` under the commit's ``files``.

    Args:
        base: the native build; its own links are linked to, never followed for writing.
        tree: an empty directory.
        files: what the commit lays, paths relative to ``tree``.
        contents: the bytes of every blob among ``files``.
        python: the interpreter whose compiled files are made.
        date_seconds: the modification time of every laid file, so that a tree is reproducible.
        removed: paths that the base holds only because the commit it was built from had them.

    Raises:
        Unbuildable: a path that would leave the tree.
        EnvironmentFailure: the interpreter cannot be run.
    """
    root = _Directory()
    for file in files:
        *parts, name = _safe_parts(file.path)
        root.find(parts).laid[name] = file
    for path in set(removed) - {file.path for file in files}:
        *parts, name = _safe_parts(path)
        root.find(parts).removed.add(name)
    sources: list[Path] = []
    _lay_directory(base, tree, root, contents, min(max(date_seconds, 0), 2**32 - 1), sources)
    _compile(sources, python)


def _safe_parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise Unbuildable(f"the commit holds a path that leaves its tree: {path!r}")
    return parts


def _lay_directory(
    base: Path,
    tree: Path,
    plan: _Directory,
    contents: Mapping[str, bytes],
    date_seconds: int,
    sources: list[Path],
) -> None:
    modules = {name for name in (*plan.laid, *plan.removed) if name.endswith(".py")}
    # Relative, so that a store can be moved as a whole.
    away = os.path.relpath(base, tree)
    for entry in _entries(base):
        if entry.name in plan.laid or entry.name in plan.removed:
            continue
        if entry.name == "__pycache__" and modules:
            _link_compiled(Path(entry.path), tree / entry.name, modules)
        elif entry.name not in plan.inner or not entry.is_dir():
            (tree / entry.name).symlink_to(f"{away}/{entry.name}")
    for name, inner in plan.inner.items():
        here = tree / name
        if here.is_symlink():
            # The base has a file where the commit has a directory.
            here.unlink()
        here.mkdir()
        _lay_directory(base / name, here, inner, contents, date_seconds, sources)
        if not any(entry.name != "__pycache__" for entry in _entries(here)):
            _drop(here)
    for name, file in plan.laid.items():
        _write(tree / name, file, contents[file.blob], date_seconds)
        if name.endswith(".py") and file.mode != _LINK_MODE:
            sources.append(tree / name)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    if not directory.is_dir():
        return []
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _link_compiled(base: Path, here: Path, modules: Collection[str]) -> None:
    here.mkdir()
    away = os.path.relpath(base, here)
    for entry in _entries(base):
        if _source_name(entry.name) not in modules:
            (here / entry.name).symlink_to(f"{away}/{entry.name}")


def _source_name(compiled: str) -> str:
    """``linear.cpython-311.pyc`` or ``linear.cpython-311.opt-1.pyc`` to ``linear.py``."""
    parts = compiled.split(".")
    optimised = len(parts) > 3 and parts[-2].startswith("opt-")
    return ".".join(parts[: -3 if optimised else -2]) + ".py"


def _write(path: Path, file: TreeFile, data: bytes, date_seconds: int) -> None:
    if file.mode == _LINK_MODE:
        path.symlink_to(os.fsdecode(data))
        return
    path.write_bytes(data)
    if file.mode == "100755":
        path.chmod(0o755)
    os.utime(path, (date_seconds, date_seconds))


def _drop(directory: Path) -> None:
    """Remove a directory that holds nothing but links in ``__pycache__``."""
    cache = directory / "__pycache__"
    if cache.is_symlink():
        cache.unlink()
    elif cache.is_dir():
        for entry in _entries(cache):
            Path(entry.path).unlink()
        cache.rmdir()
    directory.rmdir()


def _compile(sources: Sequence[Path], python: Path | str) -> None:
    if not sources:
        return
    try:
        done = subprocess.run(
            [os.fspath(python), "-I", "-S", "-c", _COMPILE],
            input=b"\0".join(os.fsencode(source) for source in sources),
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise EnvironmentFailure(f"cannot run {python}: {error.strerror}") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise EnvironmentFailure(f"{python} cannot compile Python files: {lines[-1]}")
