"""One shared torch for the tests that need a real one, installed once a machine and interpreter."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import filelock
import platformdirs
import pytest

REQUIREMENTS = ("torch==2.13.0", "numpy")


class NoWheel(Exception):
    """This interpreter has no wheel of the torch that the tests want."""


@dataclass(frozen=True)
class Installation:
    """An interpreter that can import torch, and the tree it imports it from."""

    home: Path

    @property
    def tree(self) -> Path:
        """Torch and what it needs, as ``pip install --target`` leaves it."""
        return self.home / "tree"

    @property
    def python(self) -> str:
        """The interpreter of an environment of its own."""
        return str(self.home / "venv" / "bin" / "python")


def installation() -> Installation:
    """The cached environment and tree, made when they are missing; NoWheel where there is none."""
    name = f"{REQUIREMENTS[0].replace('==', '-')}-{sys.implementation.cache_tag}"
    home = Path(platformdirs.user_cache_dir("bisectorch")) / "test-torch" / name
    home.mkdir(parents=True, exist_ok=True)
    made = Installation(home)
    stamp = home / "complete"
    with filelock.FileLock(home / "lock"):
        if not stamp.exists():
            _install(made)
            stamp.touch()
    return made


def _install(wanted: Installation) -> None:
    venv.create(wanted.home / "venv", clear=True, with_pip=True)
    pip = [wanted.python, "-m", "pip", "install", "--quiet", "--upgrade"]
    done = subprocess.run(
        [*pip, "--target", str(wanted.tree), *REQUIREMENTS], capture_output=True, text=True
    )
    if "No matching distribution found" in done.stderr:
        raise NoWheel(f"no wheel of {REQUIREMENTS[0]} for Python {sys.version.split()[0]}")
    if done.returncode:
        raise RuntimeError(f"pip could not install torch: {done.stderr[-2000:]}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = wanted.home / "venv" / "lib" / version / "site-packages"
    (site / "torch.pth").write_text(f"{wanted.tree}\n", encoding="utf-8")


@pytest.fixture(scope="session")
def torch_installation() -> Installation:
    """The torch that all tests of this machine share; skips where there is no wheel."""
    try:
        return installation()
    except NoWheel as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def torch_tree(torch_installation: Installation) -> Path:
    """A directory holding torch and what it needs."""
    return torch_installation.tree


@pytest.fixture(scope="session")
def torch_python(torch_installation: Installation) -> str:
    """An interpreter in which torch and numpy can be imported."""
    return torch_installation.python
