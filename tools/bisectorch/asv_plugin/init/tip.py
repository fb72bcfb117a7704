"""What the newest commit's files tell of a project: packages, compiled files, requirements."""

from __future__ import annotations

import configparser
import sys
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from bisectorch.history.classes import PURE_IRRELEVANT, PURE_PYTHON_ONLY, PathClasses
from bisectorch.model import PathClass

COMPILED = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".cu", ".f", ".f90", ".go", ".h", ".hpp", ".pxd", ".pyx", ".rs"}
    | {".c.in", ".c.src", ".pxd.in", ".pyx.in"}
)
BUILD_FILES = frozenset({"meson.build", "CMakeLists.txt", "Cargo.toml"})
NO_PACKAGES = frozenset(
    {"asv", "asv_bench", "benchmark", "benchmarks", "ci", "doc", "docs", "example", "examples"}
    | {"scripts", "test", "tests", "tools"}
)


class Tip:
    """A project as its newest commit holds it.

    Args:
        paths: every tracked file.
        read: the content of one of them.
        benchmarks: the directory of the benchmarks inside the repository, or empty.
    """

    def __init__(
        self, paths: Sequence[str], read: Callable[[str], bytes], benchmarks: str = ""
    ) -> None:
        self.benchmarks = benchmarks
        self._paths = frozenset(paths)
        self._read = read
        self._classes = PathClasses(PURE_PYTHON_ONLY, self.irrelevant)

    @property
    def irrelevant(self) -> tuple[str, ...]:
        """What no installation holds: the usual places, and the benchmarks."""
        if not self.benchmarks or f"{self.benchmarks}/**" in PURE_IRRELEVANT:
            return PURE_IRRELEVANT
        return (*PURE_IRRELEVANT, f"{self.benchmarks}/**")

    @property
    def source_root(self) -> str:
        """The directory that packages lie in: ``src``, or empty for the repository's root."""
        return "src" if any(path.startswith("src/") for path in self._packaged()) else ""

    @property
    def packages(self) -> list[str]:
        """The top-level packages, as paths from the repository's root."""
        depth = 2 if self.source_root else 1
        found = {"/".join(PurePosixPath(path).parts[:depth]) for path in self._packaged()}
        return sorted(found)

    @property
    def compiled(self) -> list[str]:
        """Files that a compiler or a generator of code reads."""
        return sorted(
            path
            for path in self._paths
            if self._classes.classify(path) is PathClass.NATIVE
            and (
                "".join(PurePosixPath(path).suffixes[-2:]) in COMPILED
                or PurePosixPath(path).suffix in COMPILED
                or PurePosixPath(path).name in BUILD_FILES
            )
        )

    @property
    def build_requirements(self) -> list[str]:
        """What pyproject.toml says that a build needs."""
        return _texts(self._pyproject().get("build-system", {}).get("requires"))

    @property
    def requirements(self) -> list[str] | None:
        """What the project needs when it runs; None where that is not said in a file of data."""
        project = self._pyproject().get("project", {})
        if "dependencies" in project or (project and "dependencies" not in self._dynamic(project)):
            return _texts(project.get("dependencies"))
        if "setup.cfg" in self._paths:
            said = configparser.ConfigParser(interpolation=None)
            try:
                said.read_string(self._text("setup.cfg"))
            except configparser.Error:
                return None
            lines = said.get("options", "install_requires", fallback="").splitlines()
            listed = [line.strip() for line in lines if line.strip()]
            if listed and not any(line.startswith(("file:", "#")) for line in listed):
                return listed
        return None

    @staticmethod
    def _dynamic(project: dict[str, Any]) -> list[str]:
        return _texts(project.get("dynamic"))

    def _packaged(self) -> set[str]:
        """The ``__init__.py`` of each top-level package."""
        found = set()
        for path in self._paths:
            parts = PurePosixPath(path).parts
            inner = parts[1:] if parts[0] == "src" else parts
            is_package = len(inner) == 2 and inner[1] == "__init__.py"
            if is_package and inner[0] not in NO_PACKAGES and inner[0] != self.benchmarks:
                found.add(path)
        return found

    def _pyproject(self) -> dict[str, Any]:
        if "pyproject.toml" not in self._paths:
            return {}
        try:
            return tomllib.loads(self._text("pyproject.toml"))
        except tomllib.TOMLDecodeError:
            return {}

    def _text(self, path: str) -> str:
        return self._read(path).decode("utf-8", errors="replace")


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
