"""Which packages a project finds, read from its setup files without running them. Pure.

setuptools installs a package when its dotted name matches ``include`` and not ``exclude``, and
every directory on the way has an ``__init__.py``. What cannot be read as literal text is not
guessed: the answer is then None.
"""

from __future__ import annotations

import ast
import configparser
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

SETUP_FILES = ("setup.py", "setup.cfg", "pyproject.toml")
_FIND = "find_packages"


@dataclass(frozen=True)
class PackageRule:
    """The patterns that decide which packages are installed."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def installs(self, directory: str, inits: Collection[str]) -> bool:
        """Whether the package in ``directory`` (slashes, relative to the root) is installed.

        ``inits`` holds every directory that has an ``__init__.py``.
        """
        package = PurePosixPath(directory)
        if not all(str(each) in inits for each in (package, *package.parents) if each.name):
            return False
        name = directory.replace("/", ".")
        return _matches(name, self.include) and not _matches(name, self.exclude)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def read_rule(texts: Mapping[str, bytes], root: str) -> PackageRule | None:
    """The rule that the setup files state, or None where they state none that can be read.

    Args:
        texts: the contents of those of SETUP_FILES that there are, by name.
        root: the directory that packages lie in; a rule for another one is none.
    """
    if b"tool.setuptools.packages" in texts.get("pyproject.toml", b""):
        return None
    rules = [_from_setup_py(texts.get("setup.py", b"")), _from_setup_cfg(texts.get("setup.cfg"))]
    stated = [rule for rule in rules if rule is not None]
    if len(stated) != 1:
        return None
    [(where, rule)] = stated
    return rule if where.strip("./") == root else None


def _from_setup_py(text: bytes) -> tuple[str, PackageRule] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_find(node.func)]
    if len(calls) != 1 or text.count(b"find_namespace"):
        return None
    names = ("where", "exclude", "include")
    try:
        given: dict[str | None, object] = {
            name: ast.literal_eval(value) for name, value in zip(names, calls[0].args, strict=False)
        }
        given.update({each.arg: ast.literal_eval(each.value) for each in calls[0].keywords})
    except ValueError:
        return None
    return _stated(given)


def _is_find(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name == _FIND


def _from_setup_cfg(text: bytes | None) -> tuple[str, PackageRule] | None:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string((text or b"").decode("utf-8", "replace"))
    except configparser.Error:
        return None
    if parser.get("options", "packages", fallback="").strip() != "find:":
        return None
    section = "options.packages.find"
    given: dict[str | None, object] = {}
    if parser.has_section(section):
        for name, value in parser.items(section):
            listed = [each.strip() for each in value.replace("\n", ",").split(",")]
            given[name] = value.strip() if name == "where" else [each for each in listed if each]
    return _stated(given)


def _stated(given: Mapping[str | None, object]) -> tuple[str, PackageRule] | None:
    if not given.keys() <= {"where", "exclude", "include"}:
        return None
    where = given.get("where", ".")
    patterns = [given.get("include", ("*",)), given.get("exclude", ())]
    if not isinstance(where, str) or not all(isinstance(each, list | tuple) for each in patterns):
        return None
    include, exclude = (tuple(map(str, each)) for each in patterns)  # type: ignore[call-overload]
    return where, PackageRule(include, exclude)
