"""What is built for others: the wheel and the source distribution, and an installation of it."""

from __future__ import annotations

import argparse
import ast
import configparser
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import entry_points, packages_distributions, requires
from pathlib import Path

import pytest
import shtab
from asv.environment import Environment
from bisectorch.asv_plugin.cli import make_parser
from packaging.requirements import Requirement
from plainproject import call

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools" / "bisectorch"
NOT_IMPORTED = {"tomli"}
"""Needed by an older Python than the one that may run this."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, the wheel made from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def wheel(folder: Path) -> Path:
    """The only one there."""
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_all_that_runs(built: Path) -> None:
    """Every module, the benchmarks, templates and data, types, the man page, the entry points."""
    names = zipfile.ZipFile(wheel(built)).namelist()
    held = {name for name in names if name.startswith("bisectorch/")}
    tracked = subprocess.run(
        ["git", "ls-files", "tools/bisectorch", "benchmarks"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    wanted = {
        path.removeprefix("tools/") if path.startswith("tools/") else f"bisectorch/{path}"
        for path in tracked
    }
    assert held == wanted
    assert "bisectorch/py.typed" in held
    assert any(name.endswith("data/share/man/man1/bisectorch.1") for name in names)
    (said,) = (name for name in names if name.endswith("entry_points.txt"))
    entries = configparser.ConfigParser()
    entries.read_string(zipfile.ZipFile(wheel(built)).read(said).decode())
    backend = entries["asv.environment_backends"]["bisectorch"]
    assert backend == "bisectorch.asv_plugin.environment:Bisectorch"


def test_the_source_distribution_holds_what_makes_all_of_it(built: Path) -> None:
    """Pages, tests and templates for CI too."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"docs/conf.py", "docs/man/bisectorch.1", "tests/pages.py", "Makefile"} <= names
    assert {"action.yml", "ci/gitlab.yml", ".pre-commit-hooks.yaml", "LICENSE"} <= names


def test_asv_finds_the_environment_by_its_name() -> None:
    """As it is planned: the entry point is the class whose tool_name it is named after."""
    (found,) = entry_points(group="asv.environment_backends", name="bisectorch")
    backend = found.load()
    assert issubclass(backend, Environment)
    assert backend.tool_name == found.name


def test_nothing_is_required_that_is_not_used() -> None:
    """Every requirement of the plain installation is imported by a module that is installed."""
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    provided = {
        distribution.lower().replace("_", "-")
        for name in imported
        for distribution in packages_distributions().get(name, ())
    }
    wanted = {
        requirement.name.lower()
        for requirement in map(Requirement, requires("bisectorch") or ())
        if "extra" not in str(requirement.marker)
    }
    assert len(wanted) > 8
    assert wanted - NOT_IMPORTED <= provided


def test_version_names_what_an_answer_rests_on(tmp_path: Path) -> None:
    """Ours, asv's, Python's, git's; and torch's where this interpreter has one."""
    command = [sys.executable, "-m", "bisectorch", "--version"]
    code, said, _ = call(command, tmp_path, {})
    assert code == 0
    names = ["bisectorch", "asv", "Python", "git", "torch"]
    assert [line.split()[0] for line in said.splitlines()] == names
    assert all(re.search(r"\d+\.\d+", line) for line in said.splitlines()[:4])
    assert call(command, tmp_path, {"PATH": str(tmp_path)})[1].splitlines()[3] == "git not found"


def test_a_shell_can_complete_our_commands(tmp_path: Path) -> None:
    """bash takes the script, and completes a command and an option with it."""
    script = shtab.complete(make_parser(), "bash")
    asked = (
        f"{script}\nCOMP_WORDS=(bisectorch bis); COMP_CWORD=1; _shtab_bisectorch\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    code, said, told = call(["bash", "-c", asked], tmp_path, {})
    assert code == 0, told
    assert said.split() == ["bisect"]


def test_the_man_page_is_of_this_parser() -> None:
    """Every command and every option stands in it: `make man` was run since the last change."""
    text = (ROOT / "docs" / "man" / "bisectorch.1").read_text(encoding="utf-8").replace("\\-", "-")
    parser = make_parser()
    (commands,) = (each for each in parser._actions if isinstance(each.choices, dict))
    for name, command in commands.choices.items():
        section = text.partition(f"\\fBbisectorch {name}\\fR\n")[2].partition("\n.SS ")[0]
        assert section, name
        shown = (each for each in command._actions if each.help != argparse.SUPPRESS)
        options = {option for action in shown for option in action.option_strings} - {"--help"}
        assert all(option in section for option in options), f"{name} has {sorted(options)}"


@pytest.mark.slow
def test_a_clean_installation_does_the_demo(built: Path, tmp_path: Path) -> None:
    """From the wheel alone; needs a network and eight minutes."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    program = tmp_path / "venv" / "bin"
    pip = [str(program / "python"), "-m", "pip", "install", "--quiet", str(wheel(built))]
    subprocess.run(pip, check=True)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    code, said, told = call([str(program / "bisectorch"), "demo"], folder, {})
    assert code == 0, said + told
    truth = json.loads((folder / ".demo" / "expected.json").read_text())["workloads"]
    report = json.loads((folder / ".demo" / "report.json").read_text())
    for workload in report["workloads"]:
        named = {culprit["commit"] for culprit in workload["culprits"]}
        assert named == {step["commit"] for step in truth[workload["benchmark"]]}
    assert (folder / ".demo" / "html" / "culprits" / "index.html").is_file()
