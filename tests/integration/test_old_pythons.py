from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asv.config import Config
from bisectorch.asv_plugin.environment import Bisectorch
from bisectorch.asv_plugin.interpreters import find_python
from bisectorch.asv_plugin.settings import SourceSettings
from bisectorch.build import Places

ROOT = Path(__file__).resolve().parents[2]
OLD = find_python("3.6")


@pytest.mark.skipif(OLD is None, reason="no Python 3.6 is installed")
def test_what_runs_in_the_child_is_valid_for_python_3_6() -> None:
    """The benchmarks, their workloads and the worker, compiled by a real one."""
    files = [*sorted((ROOT / "benchmarks").rglob("*.py"))]
    files += sorted((ROOT / "tools" / "bisectorch" / "tables" / "children").glob("*.py"))
    measure = ROOT / "tools" / "bisectorch" / "measure"
    files += [measure / "worker.py", measure / "inspector.py", measure / "clocks.py"]
    code = "import sys\nfor p in sys.argv[1:]: compile(open(p, 'rb').read(), p, 'exec')"
    command = [str(OLD), "-I", "-c", code, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def environment(tmp_path: Path, requirements: list[str]) -> Any:
    """An environment that is not made."""
    conf = Config()
    conf.env_dir, conf.project = str(tmp_path), "mini"
    conf.bisectorch = {"requirements": requirements}
    found = find_python("3")
    assert found
    return Bisectorch(conf, "3", {}, {})


def test_other_requirements_are_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours have no axis in asv's matrix, but what was made for others is not used."""
    monkeypatch.chdir(tmp_path)
    names = {
        str(requirements): environment(tmp_path, requirements).dir_name
        for requirements in ([], ["numpy"], ["numpy", "sympy"])
    }
    assert len(set(names.values())) == 3
    assert environment(tmp_path, []).name == environment(tmp_path, ["numpy"]).name


def test_requirements_are_installed_and_built_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip gets them as they are written, markers included, here and where builds are made."""
    monkeypatch.chdir(tmp_path)
    listed = ["numpy==1.19.5; python_version < '3.7'", "pyyaml"]
    made = environment(tmp_path, listed)
    asked: list[list[str]] = []
    monkeypatch.setattr(made, "_pip", lambda args, **_: asked.append(list(args)))
    made._install_requirements()
    assert ["install", *listed] in asked
    conf = SimpleNamespace(build_command=None)
    recipe = made._recipe(conf, tmp_path, SourceSettings())
    assert recipe.requirements == ("setuptools", "wheel", *listed)
    assert made._recipe(conf, tmp_path, None) is None


def test_asvs_commands_are_read_as_asv_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables, statuses and directories before a command; asv's names in it."""
    monkeypatch.chdir(tmp_path)
    places = Places(Path("/b"), Path("/w"), Path("/e"), "a" * 40)
    commands = ["X=1 return-code=any in-dir={env_dir} make {build_dir} {build_cache_dir} {commit}"]
    [step] = environment(tmp_path, [])._steps(commands, places)
    assert step.command == ("make", "/b", "/w", "a" * 40)
    assert (step.codes, step.cwd) == (None, Path("/e"))
    assert step.environment["X"] == "1"
    assert step.environment["ASV_BUILD_DIR"] == "/b"
