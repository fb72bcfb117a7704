"""A real history of a real C extension: native commits, Python-only ones, and all that goes wrong.

Its package ``quick`` has one number, ``quick.cost()``: what C says (``csrc/cost.h``) plus what
Python says (``quick/ops.py``). That is the metric of the tests, so that nothing is timed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bisectorch.history import PathClasses
from minihistory import MiniRepo

SETUP = """\
import subprocess
from setuptools import Extension, find_packages, setup

head = subprocess.check_output(["git", "rev-parse", "HEAD"]).decode().strip()
with open("quick/version.py", "w") as file:
    file.write("__version__ = '1.0'\\ngit_version = %r\\n" % head)
sources = ["csrc/" + name for name in open("csrc/sources.txt").read().split()]
setup(
    name="quick",
    version="1.0",
    packages=find_packages(exclude=["*.tests", "*.tests.*"]),
    package_data={"quick": ["data/*.txt"]},
    ext_modules=[
        Extension(
            "quick._core",
            sources=sources,
            include_dirs=["csrc", "third_party/tally"],
            extra_compile_args=["-O1", "-g0"],
        )
    ],
)
"""
CORE = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "cost.h"
#include "tally.h"

static PyObject *cost(PyObject *self, PyObject *unused) { return PyLong_FromLong(COST + TALLY); }
static PyMethodDef methods[] = {{"cost", cost, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", "", -1, methods};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
"""
OPS = "from quick import _core\n\n\ndef cost():\n    return _core.cost() + {}\n"
CLASSES = {
    "python_only": ["quick/**/*.py", "quick/data/*.txt"],
    "irrelevant": ["docs/**", "*.md"],
}
BUILD_COMMAND = ["python setup.py -q bdist_wheel -d {build_cache_dir}"]

Files = Mapping[str, "str | bytes | None"]


def ops(cost: int) -> dict[str, str]:
    """The Python file that adds this much."""
    return {"quick/ops.py": OPS.format(cost)}


def header(cost: int) -> dict[str, str]:
    """The C file that says this much."""
    return {"csrc/cost.h": f"#define COST {cost}\n"}


def start(units: int = 1) -> dict[str, str]:
    """The first commit, with so many C files beside the module's own."""
    names = [f"unit{index}.c" for index in range(units)]
    return {
        "setup.py": SETUP,
        ".gitignore": "build/\n*.egg-info/\nquick/version.py\n",
        "csrc/core.c": CORE,
        "csrc/sources.txt": "\n".join(["core.c", *names]) + "\n",
        **{f"csrc/{name}": f"int unit{index}(void) {{ return {index}; }}\n"
           for index, name in enumerate(names)},
        "quick/__init__.py": "from quick.ops import cost\n",
        "quick/data/table.txt": "1\n",
        **header(100),
        **ops(0),
    }  # fmt: skip


@dataclass
class NativeHistory:
    """The repository and its commits by label, oldest first.

    Attributes:
        repo: where it lies.
        shas: label to object name.
        costs: label to what ``quick.cost()`` is; None where it does not build, import or run.
    """

    repo: MiniRepo
    shas: dict[str, str] = field(default_factory=dict)
    costs: dict[str, int | None] = field(default_factory=dict)

    def add(self, label: str, cost: int | None, files: Files | None = None) -> str:
        """One commit more."""
        self.shas[label] = self.repo.commit(label, files)
        self.costs[label] = cost
        return self.shas[label]

    @property
    def range(self) -> str:
        """All of it."""
        return f"{next(iter(self.shas.values()))}..main"


UNBUILDABLE = ("broken", "broken still", "broken on and on")
CULPRITS = {"costly in Python": 1, "costly in C": 1, "mended": 1, "side costly": 1, "cheaper": -1}
"""The truth: label to the sign of what it does; ``mended`` follows commits that do not build."""


def make_history(root: Path) -> NativeHistory:
    """The whole story, in a repository ``repo`` beneath ``root`` with a submodule beside it."""
    tally = MiniRepo(root / "tally")
    tally.commit("tally", {"tally.h": "#define TALLY 0\n"})
    repo = MiniRepo(root / "repo")
    local = ("-c", "protocol.file.allow=always", "submodule", "--quiet")
    repo.git(*local, "add", os.fspath(tally.path), "third_party/tally")
    story = NativeHistory(repo)
    story.add("start", 100, start())
    story.add("documented", 100, {"docs/x.md": "x\n"})
    story.add("helper", 100, {"quick/extra.py": "X = 1\n"})
    story.add("costly in Python", 140, ops(40))
    story.add("more C", 140, {"csrc/unit0.c": "int unit0(void) { return 7; }\n"})
    story.add("renamed", 140, {"quick/extra.py": None, "quick/tools.py": "X = 1\n"})
    story.add("costly in C", 200, header(160))
    story.add("deleted", 200, {"quick/tools.py": None})
    story.add("broken", None, {"csrc/unit0.c": "int unit0(void) { return 8 }\n"})
    story.add("broken still", None, {"quick/extra.py": "X = 2\n"})
    story.add("broken on and on", None, {"csrc/unit0.c": "int unit0(void) { return; nine }\n"})
    story.add("mended", 260, {"csrc/unit0.c": "int unit0(void) { return 9; }\n", **ops(100)})
    story.add("data", 260, {"quick/data/table.txt": "2\n"})
    story.add("C as before", 260, {"csrc/unit0.c": "int unit0(void) { return 7; }\n"})
    (repo.path / "third_party" / "tally" / "tally.h").write_text("#define TALLY 0 /* same */\n")
    tally.commit("same", {"tally.h": "#define TALLY 0 /* same */\n"})
    head = tally.git("rev-parse", "HEAD")
    repo.git("update-index", "--cacheinfo", f"160000,{head},third_party/tally")
    repo.git(*local, "update", "--force")
    story.add("submodule", 260)
    repo.git("checkout", "-q", "-b", "side")
    story.add("side quiet", 260, {"quick/side.py": "S = 1\n"})
    story.add("side costly", 340, ops(180))
    story.add("side native", 340, {"csrc/unit0.c": "int unit0(void) { return 11; }\n"})
    repo.git("checkout", "-q", "main")
    story.add("main goes on", 260, {"quick/main.py": "M = 1\n"})
    story.shas["merge"] = repo.merge("side", "merge")
    story.costs["merge"] = 340
    story.add("fails", None, {"quick/ops.py": "def cost():\n    raise RuntimeError('not today')\n"})
    story.add("works", 340, ops(180))
    story.add("new package", 340, {"quick/nn/__init__.py": "", "quick/nn/linear.py": "L = 1\n"})
    story.add("tests", 340, {"quick/tests/__init__.py": "", "quick/tests/test_x.py": "T = 1\n"})
    story.add("unimportable", None, {"quick/ops.py": "def cost(:\n"})
    story.add("importable", 340, ops(180))
    story.add("cheaper", 260, header(80))
    return story


def path_classes() -> PathClasses:
    """The history's classes."""
    return PathClasses(tuple(CLASSES["python_only"]), tuple(CLASSES["irrelevant"]))


def write_native_project(
    folder: Path, story: NativeHistory, store: Path, python: str = "", **overrides: object
) -> Path:
    """Write an asv project over the history: configuration, and benchmarks of its one number."""
    benchmarks = folder / "benchmarks"
    benchmarks.mkdir(parents=True, exist_ok=True)
    (benchmarks / "__init__.py").write_text("")
    (benchmarks / "costs.py").write_text(
        "import quick\n\n\ndef track_cost():\n    return quick.cost()\n"
    )
    configuration = {
        "version": 1,
        "project": "quick",
        "repo": str(story.repo.path),
        "branches": ["main"],
        "environment_type": "bisectorch",
        "plugins": [".bisectorch.asv_plugin"],
        "pythons": [python or f"{sys.version_info[0]}.{sys.version_info[1]}"],
        "build_command": BUILD_COMMAND,
        "bisectorch": {"store": str(store), "classes": CLASSES},
        **overrides,
    }
    path = folder / "asv.conf.json"
    path.write_text(json.dumps(configuration, indent=1))
    return path
