"""One shared torch for the tests that need a real one, installed once a machine and interpreter."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import filelock
import platformdirs
import pytest

REQUIREMENTS = ("torch==2.13.0", "numpy")


@pytest.fixture(scope="session")
def torch_tree() -> Path:
    """A directory holding torch and what it needs, as ``pip install --target`` leaves it."""
    return _installation() / "tree"


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter of its own environment, in which torch and numpy can be imported."""
    return str(_interpreter(_installation()))


def _interpreter(home: Path) -> Path:
    return home / "venv" / "bin" / "python"


def _installation() -> Path:
    """The cached environment and tree, made when they are missing; skips without a wheel."""
    name = f"{REQUIREMENTS[0].replace('==', '-')}-{sys.implementation.cache_tag}"
    home = Path(platformdirs.user_cache_dir("bisectorch")) / "test-torch" / name
    home.mkdir(parents=True, exist_ok=True)
    stamp = home / "complete"
    with filelock.FileLock(home / "lock"):
        if not stamp.exists():
            _install(home)
            stamp.touch()
    return home


def _install(home: Path) -> None:
    venv.create(home / "venv", clear=True, with_pip=True)
    python = _interpreter(home)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--upgrade"]
    done = subprocess.run(
        [*pip, "--target", str(home / "tree"), *REQUIREMENTS], capture_output=True, text=True
    )
    if "No matching distribution found" in done.stderr:
        pytest.skip(f"no wheel of {REQUIREMENTS[0]} for Python {sys.version.split()[0]}")
    assert done.returncode == 0, f"pip could not install torch: {done.stderr[-2000:]}"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = home / "venv" / "lib" / version / "site-packages"
    (site / "torch.pth").write_text(f"{home / 'tree'}\n", encoding="utf-8")
