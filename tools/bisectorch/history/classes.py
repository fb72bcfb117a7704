"""Path classes: what a changed file can do to a build, told by globs over its path."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bisectorch.model import PathClass

_STRENGTH = {PathClass.IRRELEVANT: 0, PathClass.PYTHON: 1, PathClass.NATIVE: 2}


def glob_to_regex(glob: str) -> str:
    """Translate one glob to a regular expression for a whole path with ``/`` separators.

    ``*`` and ``?`` stay within one directory; ``**/`` is any number of directories, none
    included; a last ``/**`` is everything beneath; ``[abc]`` and ``[!abc]`` are one character.
    """
    pattern = ""
    position = 0
    while position < len(glob):
        rest = glob[position:]
        at_start = position == 0 or glob[position - 1] == "/"
        if at_start and rest.startswith("**/"):
            pattern += "(?:[^/]+/)*"
            position += 3
        elif at_start and rest == "**":
            pattern += ".+"
            position += 2
        elif rest[0] == "*":
            pattern += "[^/]*"
            position += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            pattern += "[^/]"
            position += 1
        elif (bracket := re.match(r"\[(!?)(\]?[^\]/]*)\]", rest)) and bracket[2]:
            members = re.sub(r"([\\^\[\]&~|])", r"\\\1", bracket[2])
            pattern += f"(?!/)[{'^' if bracket[1] else ''}{members}]"
            position += bracket.end()
        else:
            pattern += re.escape(rest[0])
            position += 1
    return pattern


def _alternative(glob: str) -> str:
    return f"(?:{glob_to_regex(glob.removeprefix('!'))})"


class _Globs:
    """An ordered list of globs; the last one that matches decides, ``!glob`` takes back."""

    def __init__(self, globs: Sequence[str]) -> None:
        # One alternation for each run of equal sign; the last run is asked first.
        self._runs = [
            (sign, re.compile("|".join(map(_alternative, run)), re.DOTALL))
            for sign, run in itertools.groupby(globs, key=lambda glob: not glob.startswith("!"))
        ][::-1]

    def match(self, path: str) -> bool:
        for sign, pattern in self._runs:
            if pattern.fullmatch(path):
                return sign
        return False


DEFAULT_PYTHON_ONLY = (
    "torch/**/*.py",
    "torch/**/*.pyi",
    "functorch/**/*.py",
    # Inputs of code generation and of the compiled libraries.
    "!torch/lib/**",
    "!torch/csrc/**",
    "!torch/_C/**",
    "!torch/**/gen_*.py",
)
"""Files of PyTorch that are installed as they are and go into nothing compiled."""

DEFAULT_IRRELEVANT = (
    "docs/**",
    "test/**",
    "tests/**",
    "benchmarks/**",
    "scripts/**",
    "docker/**",
    "android/**",
    "ios/**",
    ".github/**",
    ".ci/**",
    ".circleci/**",
    ".jenkins/**",
    ".devcontainer/**",
    ".vscode/**",
    "**/*.md",
    "**/*.rst",
    "**/.gitignore",
    ".gitattributes",
    ".travis.yml",
    ".lintrunner.toml",
    ".flake8",
    ".clang-format",
    ".clang-tidy",
    "mypy*.ini",
    "CITATION*",
    "CODEOWNERS",
    "LICENSE*",
    "NOTICE*",
    # Code of devices that a CPU build does not compile.
    "**/*.cu",
    "**/*.cuh",
    "torch/lib/THC/**",
    "torch/lib/THCUNN/**",
    "torch/lib/THCS/**",
    "aten/src/THC/**",
    "aten/src/THCUNN/**",
    "aten/src/THCS/**",
    "aten/src/ATen/native/cuda/**",
    "aten/src/ATen/native/cudnn/**",
    "aten/src/ATen/native/hip/**",
    "aten/src/ATen/native/miopen/**",
    "aten/src/ATen/native/mps/**",
)
"""Files of PyTorch that no CPU build holds: documents, tests, services, other devices."""

PURE_PYTHON_ONLY = ("**/*.py", "**/*.pyi", "!setup.py", "!**/setup.py")
"""Files of a pure-Python project that are installed as they are; what installs them is native."""

PURE_IRRELEVANT = (
    "doc/**",
    "docs/**",
    "test/**",
    "tests/**",
    "benchmarks/**",
    "asv_bench/**",
    "asv.conf.json*",
    "examples/**",
    "conftest.py",
    "noxfile.py",
    ".github/**",
    ".ci/**",
    ".circleci/**",
    "**/*.md",
    "**/*.rst",
    "**/.gitignore",
    ".gitattributes",
    ".pre-commit-config.yaml",
    ".readthedocs.y*ml",
    "tox.ini",
    "CITATION*",
    "LICENSE*",
)
"""Files of a pure-Python project that no installation holds."""

PRESETS = {
    "pytorch": (DEFAULT_PYTHON_ONLY, DEFAULT_IRRELEVANT),
    "python": (PURE_PYTHON_ONLY, PURE_IRRELEVANT),
}
"""Globs for a kind of project: python_only and irrelevant."""


@dataclass(frozen=True)
class PathClasses:
    """The globs that divide a project's files.

    A path is irrelevant when ``irrelevant`` matches, else Python when ``python_only`` matches,
    else native: what nobody vouched for is taken to reach the compiled artefacts. Within a list
    the last matching glob decides and a leading ``!`` takes back. The defaults are PyTorch's.
    """

    python_only: tuple[str, ...] = DEFAULT_PYTHON_ONLY
    irrelevant: tuple[str, ...] = DEFAULT_IRRELEVANT
    _python: _Globs = field(init=False, repr=False, compare=False)
    _irrelevant: _Globs = field(init=False, repr=False, compare=False)
    _known: dict[str, PathClass] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_python", _Globs(self.python_only))
        object.__setattr__(self, "_irrelevant", _Globs(self.irrelevant))
        object.__setattr__(self, "_known", {})

    def classify(self, path: str) -> PathClass:
        """The class of one path."""
        known = self._known.get(path)
        if known is None:
            if self._irrelevant.match(path):
                known = PathClass.IRRELEVANT
            elif self._python.match(path):
                known = PathClass.PYTHON
            else:
                known = PathClass.NATIVE
            self._known[path] = known
        return known

    def is_python(self, path: str) -> bool:
        """Whether the path is installed as it is and compiled into nothing."""
        return self.classify(path) is PathClass.PYTHON

    def strongest(self, paths: Iterable[str]) -> PathClass:
        """The class of a commit: native over Python over irrelevant; no path is irrelevant."""
        classes = {self.classify(path) for path in paths}
        return max(classes, key=_STRENGTH.__getitem__, default=PathClass.IRRELEVANT)
