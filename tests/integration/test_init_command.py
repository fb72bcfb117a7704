"""``bisectorch init`` on projects that never heard of us: one made here, and published ones."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bisectorch.asv_plugin.init.edit import put
from minihistory import MiniRepo
from plainproject import CONFIGURATION, call, make_project, run


@pytest.fixture
def project(tmp_path: Path) -> MiniRepo:
    """A project for asv, with a step in its history."""
    return make_project(tmp_path / "wordy")


def test_a_project_of_asv_becomes_one_of_ours(project: MiniRepo) -> None:
    """The plugin lines and nothing else change, and then its history can be bisected."""
    code, said, _ = run(project.path, "init", "--yes")
    assert code == 0
    assert '+    "environment_type": "bisectorch",' in said
    changed = (project.path / "asv.conf.json").read_text()
    kept = [line for line in CONFIGURATION.splitlines() if "environment_type" not in line]
    assert [line for line in changed.splitlines() if line in kept] == kept
    assert run(project.path, "init")[:2] == (
        0,
        "asv.conf.json uses Bisectorch already: nothing to do\n",
    )
    assert "MISSING" not in run(project.path, "doctor", "--offline")[1]
    code, out, err = run(project.path, "bisect", "v1..main", "-b", "steps", "--format", "json")
    assert code == 0, err
    (culprit,) = json.loads(out)["workloads"][0]["culprits"]
    assert culprit["subject"] == "slow down"
    assert (project.path / ".asv" / "sessions").is_dir()


def test_nothing_is_written_unasked(project: MiniRepo) -> None:
    """Neither without a terminal nor after a no, only after a yes."""
    assert run(project.path, "init")[0] == 2
    assert ask(project.path, "n")[0] == 2
    assert (project.path / "asv.conf.json").read_text() == CONFIGURATION
    code, said = ask(project.path, "y")
    assert code == 0, said
    assert "Write this to asv.conf.json? [y/N]" in said
    assert '"bisectorch"' in (project.path / "asv.conf.json").read_text()


def ask(folder: Path, answer: str) -> tuple[int, str]:
    """``init`` at a terminal, and what it says."""
    terminal, stdin = pty.openpty()
    os.write(terminal, f"{answer}\n".encode())
    command = [sys.executable, "-m", "bisectorch", "init"]
    code, said, told = call(command, folder, {}, stdin)
    os.close(terminal)
    os.close(stdin)
    return code, said + told


@pytest.mark.parametrize(
    ("text", "telling"),
    [
        (None, "bisectorch quickstart"),
        ("{", "cannot be read"),
        ("[]", "is no object"),
        ('{"version": 1}', "No repo specified"),
        ('{"version": 1, "repo": "gone"}', "does not exist"),
        ('{"version": 1, "repo": ".", "dvcs": "hg"}', "git histories only"),
        ('{"version": 1, "repo": ".", "branches": ["gone"]}', "gone"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, text: str | None, telling: str) -> None:
    """In one line that says why."""
    repo = MiniRepo(tmp_path / "project")
    repo.commit("start", {} if text is None else {"asv.conf.json": text})
    code, said, told = run(repo.path, "init", "--yes")
    assert code == 2, said
    assert telling in told
    assert told.count("\n") == 1


def test_a_configuration_elsewhere_is_pointed_to(tmp_path: Path) -> None:
    """With the command that does it."""
    repo = MiniRepo(tmp_path / "project")
    repo.commit("start", {"asv_bench/asv.conf.json": '{"version": 1, "repo": "..",}'})
    assert "try bisectorch init --config asv_bench/asv.conf.json" in run(repo.path, "init")[2]
    code, _, err = run(repo.path, "init", "--yes", "--config", "asv_bench/asv.conf.json")
    assert code == 0, err


def test_before_it_other_commands_point_to_it(project: MiniRepo) -> None:
    """A configuration for others is no fault to show a traceback for."""
    (project.path / "asv.conf.json").write_text('{"version": 1, "project": "x", "repo": "."}')
    code, _, told = run(project.path, "bisect", "v1..main", "-b", "steps")
    assert code == 2
    assert "`bisectorch init` adds ours" in told


@dataclass(frozen=True)
class Published:
    """A published project with a suite for asv in its source distribution.

    ``function`` of ``file`` is made three times slower, which ``benchmark`` must show;
    ``settings`` are those of its configuration that are not of our day.
    """

    name: str
    version: str
    config: str
    file: str
    function: str
    benchmark: str
    settings: Mapping[str, object] = field(default_factory=dict)


PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PUBLISHED = [
    Published(
        "lmfit",
        "1.3.4",
        "asv_benchmarking/asv.conf.json",
        "lmfit/minimizer.py",
        "minimize",
        r"MinimizeSuite\.time_minimize$",
        {"repo": "..", "branches": ["main"], "pythons": [PYTHON], "matrix": {}},
    ),
    Published(
        "PyWavelets",
        "1.9.0",
        "benchmarks/asv.conf.json",
        "pywt/_dwt.py",
        "dwt",
        r"DwtTimeSuite\.time_dwt\(16, 'haar', 'zero'\)",
        {
            "matrix": {},
            "build_command": [
                "python -m pip wheel --no-deps --no-build-isolation "
                "-w {build_cache_dir} {build_dir}"
            ],
        },
    ),
    Published(
        "xarray",
        "2026.9.0",
        "asv_bench/asv.conf.json",
        "xarray/structure/combine.py",
        "combine_by_coords",
        r"Combine1d\.time_combine_by_coords",
        {"pythons": [PYTHON], "matrix": {"cftime": [""], "flox": [""]}},
    ),
]
SLOWER = """

_once = {0}


def {0}(*arguments, **options):
    _once(*arguments, **options)
    _once(*arguments, **options)
    return _once(*arguments, **options)
"""


@pytest.mark.slow
@pytest.mark.parametrize("each", PUBLISHED, ids=lambda each: each.name)
def test_published_projects(each: Published, tmp_path: Path) -> None:
    """Needs a network: the suite that is published runs, and a step laid in it is named."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        each.name,
    ]
    wanted = f"{each.name}=={each.version}"
    subprocess.run([*pip, "-d", str(tmp_path / "sdist"), wanted], check=True)
    (archive,) = (tmp_path / "sdist").iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "project", filter="data")
    (folder,) = (tmp_path / "project").iterdir()
    repo = MiniRepo(folder)
    config = folder / each.config
    text = config.read_text()
    for key, value in each.settings.items():
        text = put(text, key, value)
    config.write_text(text)
    repo.commit("published")
    repo.git("tag", f"v{each.version}")
    repo.commit("write", {"README-more.md": "more\n"})
    slow = (folder / each.file).read_text() + SLOWER.format(each.function)
    repo.commit("slow down", {each.file: slow})
    repo.commit("write more", {"README-more.md": "more and more\n"})
    code, said, told = run(folder, "init", "--yes", "--config", each.config)
    assert code == 0, said + told
    arguments = ["bisect", "HEAD~3..HEAD", "-b", each.benchmark, "--config", each.config]
    code, said, told = run(folder, *arguments, "--format", "json", "--no-explain")
    assert code == 0, said + told
    for workload in json.loads(said)["workloads"]:
        (culprit,) = workload["culprits"]
        assert culprit["subject"] == "slow down"
        assert 2.5 < culprit["ratio"] < 3.5
