from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bisectorch.asv_plugin.interpreters import find_python
from minihistory import MiniRepo, make_wheel, write_project

VALUE = "def value():\n    return {}\n"
EXPECTED = {
    "start": 100,
    "linear": 200,
    "docs": 200,
    "broken": None,
    "native": None,
    "not native": 300,
    "back": 200,
}
"""What tracked.track_value is at each commit, oldest first; the wheel alone says 100."""


def _interpreters() -> dict[str, str]:
    """Where the user's version managers keep interpreters, whatever HOME is."""
    return {
        "PYENV_ROOT": os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv"),
        "UV_PYTHON_INSTALL_DIR": os.environ.get("UV_PYTHON_INSTALL_DIR")
        or str(Path.home() / ".local" / "share" / "uv" / "python"),
    }


@dataclass
class Project:
    """An asv project over the mini history, with an environment that is made once."""

    root: Path
    repo: MiniRepo
    shas: dict[str, str]

    def configure(self, name: str, **overrides: object) -> Path:
        """A configuration with results of its own; environments and builds are shared."""
        overrides = {"env_dir": str(self.root / "env"), **overrides}
        folder, wheels, store = (self.root / each for each in (name, "wheels", "store"))
        config = write_project(folder, self.repo.path, wheels, store, **overrides)
        machine = {"machine": "m", "os": "", "arch": "", "cpu": ""}
        (folder / ".asv-machine.json").write_text(json.dumps({"version": 1, "m": machine}))
        return config

    def start(self, config: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start plain asv."""
        return subprocess.Popen(
            [sys.executable, "-m", "asv", *arguments, "--config", config],
            cwd=self.root,
            env={
                **os.environ,
                "HOME": str(config.parent),
                **_interpreters(),
                "BISECTORCH_STORE": "",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def asv(self, config: Path, *arguments: str) -> tuple[int, str]:
        """Run plain asv; its exit code and all it printed, which is never a traceback."""
        process = self.start(config, *arguments)
        output, _ = process.communicate()
        assert "Traceback" not in output, output
        return process.returncode, output

    def results(
        self, config: Path, benchmark: str = "track_value"
    ) -> dict[tuple[str, str], object]:
        """What asv stored: (commit's name, environment variable's value) to value."""
        names = {sha: name for name, sha in self.shas.items()}
        found = {}
        for path in (config.parent / "results" / "m").glob("*-*.json"):
            stored = json.loads(path.read_text())
            value = stored["results"][f"tracked.{benchmark}"][0]
            threads = stored["env_vars"]["MINI_THREADS"]
            found[names[stored["commit_hash"]], threads] = value[0] if value else None
        return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The history whose values EXPECTED holds."""
    root = tmp_path_factory.mktemp("asv")
    repo = MiniRepo(root / "repo")
    steps: dict[str, dict[str, str | bytes | None]] = {
        "before": {"README.md": "x\n"},
        "start": {"README.md": "y\n"},
        "linear": {"mini/nn/linear.py": VALUE.format(200)},
        "docs": {"docs/x.md": "x\n"},
        "broken": {"mini/nn/linear.py": "def value(:\n"},
        "native": {"mini/core.c": "int x;\n"},
        "not native": {"mini/core.c": None, "mini/nn/linear.py": VALUE.format(300)},
        "back": {"mini/nn/linear.py": VALUE.format(200)},
    }
    shas = {name: repo.commit(name, files) for name, files in steps.items()}
    make_wheel(root / "wheels")
    return Project(root, repo, shas)


def test_asv_run_measures_each_commit_as_itself(project: Project) -> None:
    """Broken and unbuildable commits are noted, and the others go on."""
    config = project.configure("all")
    code, output = project.asv(config, "run", "main~7..main", "-m", "m")
    assert project.results(config) == {(name, "1"): value for name, value in EXPECTED.items()}
    assert code == 2, "asv's own code for failures"
    assert "native files changed and no source route is configured" in output
    threads = project.results(config, "track_threads")
    assert {threads[name, "1"] for name, value in EXPECTED.items() if value} == {1}
    raw = project.results(config, "timeraw_import")
    assert {name for (name, _), value in raw.items() if value} == {
        name for name, value in EXPECTED.items() if value
    }, "a benchmark's own subprocess sees the tree as well"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_each_launch_method_sees_the_selected_tree(project: Project, method: str) -> None:
    """The path survives asv's own handling of PYTHONPATH."""
    config = project.configure(method)
    arguments = ("-m", "m", "-b", "track_value", "--launch-method", method)
    assert project.asv(config, "run", "main~2..main", *arguments)[0] == 0
    assert project.results(config) == {("not native", "1"): 300, ("back", "1"): 200}


def test_commits_selected_in_worker_processes_are_the_ones_that_run(project: Project) -> None:
    """With -j asv installs in another process than the one that runs."""
    config = project.configure("jobs", matrix={"env_nobuild": {"MINI_THREADS": ["1", "2"]}})
    arguments = ("-m", "m", "-b", "track_value", "-j", "2")
    assert project.asv(config, "run", "main~2..main", *arguments)[0] == 0
    assert project.results(config) == {
        (name, threads): EXPECTED[name] for name in ("not native", "back") for threads in "12"
    }


def test_rounds_can_be_interleaved(project: Project) -> None:
    """Going back and forth between commits measures each of them every time."""
    config = project.configure("rounds")
    (config.parent / "benchmarks" / "tracked.py").write_text(
        "import mini\n\n\ndef time_nothing():\n    assert mini.value() == VALUE\n\n\n"
        "time_nothing.rounds = 3\ntime_nothing.number = time_nothing.repeat = 1\n"
        "time_nothing.warmup_time = 0\n\n\n"
        "VALUE = mini.value()\n"
    )
    arguments = ("-m", "m", "--interleave-rounds", "--record-samples")
    assert project.asv(config, "run", "main~2..main", *arguments)[0] == 0
    for path in (config.parent / "results" / "m").glob("*-*.json"):
        stored = json.loads(path.read_text())
        columns = dict(
            zip(stored["result_columns"], stored["results"]["tracked.time_nothing"], strict=False)
        )
        assert len(columns["samples"][0]) == 3


def test_two_sessions_share_an_environment(project: Project) -> None:
    """Each runs the commits that it selected itself."""
    configs = {name: project.configure(f"both-{name}") for name in ("not native", "back")}
    arguments = ("-m", "m", "-b", "track_value")
    processes = [
        project.start(config, "run", f"{project.shas[name]}^!", *arguments)
        for name, config in configs.items()
    ]
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0, output
    for name, config in configs.items():
        assert project.results(config) == {(name, "1"): EXPECTED[name]}


def test_the_environment_holds_requirements_only(project: Project) -> None:
    """Neither the project nor tools to build it, and no selection of a process that ended."""
    [environment] = (path for path in (project.root / "env").iterdir() if path.is_dir())
    [packages] = environment.glob("lib/python*/site-packages")
    names = {path.name for path in packages.iterdir()}
    assert "asv_runner" in names
    assert not names & {"mini", "build", "hatchling"}
    project.asv(project.configure("again"), "setup")
    assert not list(environment.glob("selected-*"))


def test_a_python_that_is_not_there_is_told(project: Project) -> None:
    """asv says what to do and does not run anything."""
    config = project.configure("python", pythons=["9.7"])
    code, output = project.asv(config, "run", "main~1..main", "-m", "m")
    assert code == 1
    assert "no Python 9.7 found on the PATH, in pyenv or in uv: install it, or" in output


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"stores": "x"}, "bisectorch has no key 'stores'"),
        (
            {"base_wheel": {"requirement": "mini==9", "pip_args": ["--no-index"]}},
            "No matching distribution found for mini==9",
        ),
    ],
)
def test_what_stands_in_the_way_is_told_by_asv_too(
    project: Project, section: dict[str, object], says: str
) -> None:
    """One line, and exit code 1, which is asv's own for a fault of the user."""
    classes = {"irrelevant": ["docs/**", "*.md"], "python_only": ["mini/**/*.py"]}
    section = {"store": str(project.root / "other-store"), "classes": classes, **section}
    config = project.configure("way", bisectorch=section)
    code, output = project.asv(config, "run", "main~1..main", "-m", "m")
    assert code == 1
    assert says in output


def test_a_python_without_venv_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions split it off; the half-made environment is removed."""
    python = project.root / "bin" / "python9.7"
    python.parent.mkdir()
    python.write_text(
        '#!/bin/sh\ncase "$*" in *venv*) echo "ensurepip is not available"; exit 1;; esac\n'
        "echo 9.7.1\n"
    )
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{python.parent}:{os.environ['PATH']}")
    config = project.configure("venv", pythons=["9.7"])
    code, output = project.asv(config, "run", "main~1..main", "-m", "m")
    assert code == 1
    assert "cannot make a virtual environment: install its venv and ensurepip modules" in output


@pytest.mark.slow
@pytest.mark.skipif(find_python("3.6") is None, reason="no Python 3.6 is installed")
def test_python_3_6_still_runs_it(project: Project) -> None:
    """Its own venv, pip, runner and wheel, found where a version manager keeps them."""
    config = project.configure("old", pythons=["3.6"])
    code, output = project.asv(config, "run", "main~7..main", "-m", "m")
    assert code == 2, output
    assert project.results(config) == {(name, "1"): value for name, value in EXPECTED.items()}
