"""Nothing that was reported is lost, whatever fails: every fault at the writes of a session."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from bisectorch.report.record import load
from minihistory import MiniRepo, make_wheel, write_project

TESTS = Path(__file__).resolve().parents[1]
MODES = ("kill before", "kill half", "kill after", "full", "full once", "error", "dead",
         "read-only", "terminate", "backwards")  # fmt: skip
"""As shim.c numbers them, from 1."""
LEVELS = [100, 100, 100, 150, 150, None, 150, 120, 120]
"""What mini.value() is along the line; None cannot be imported."""
CULPRITS = (3, 7)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a disk fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = TESTS / "faults" / "shim.c"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return library


def sweep(shim: Path, *arguments: str) -> dict[str, object]:
    """Run the sweep and return what it says."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "FAULT_SHIM": str(shim),
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "faults")]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, TESTS / "faults" / "sweep.py", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    said: dict[str, object] = json.loads(done.stdout)
    return said


def test_no_fault_loses_or_doubles_or_misleads(shim: Path) -> None:
    """Sixteen kinds of fault, each at every sixteenth write, each elsewhere: 320 in all."""
    said = sweep(shim, "--every", "16")
    assert said["wrong"] == []
    faults = said["faults"]
    assert isinstance(faults, dict)
    assert len(faults) == 16
    assert sum(faults.values()) >= 300


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_fault_at_any_write(shim: Path) -> None:
    """The same at every write, some five thousand faults."""
    said = sweep(shim, "--every", "1")
    assert said["wrong"] == []


@dataclass
class Project:
    """An asv project with a store, sessions and results of its own beneath ``root``."""

    root: Path
    config: Path
    shas: list[str]
    spec: str

    def command(self, *arguments: str) -> list[str]:
        """The command line of one call."""
        config = ("--config", str(self.config))
        return [sys.executable, "-m", "bisectorch", *arguments, *config]

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """One call, under way."""
        return subprocess.Popen(
            self.command(*arguments),
            env={**os.environ, "HOME": str(self.root.parent), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """One call to its end; never a traceback."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        return process.returncode, out, err

    def bisect(self) -> list[str]:
        """The arguments that begin a session."""
        return ["bisect", self.spec, "-b", "track_value", "--format", "json"]

    def log(self) -> Path | None:
        """The log of the session, once its header is there."""
        logs = [p for p in (self.root / "sessions").glob("*.jsonl") if b"\n" in p.read_bytes()]
        return logs[0] if logs else None

    def observed(self) -> int:
        """How many observations the log holds."""
        path = self.log()
        return path.read_bytes().count(b'{"observation"') if path else 0

    def check(self, report: str) -> None:
        """The truth, and a log in which nothing is counted twice."""
        found = json.loads(report)["workloads"][0]["culprits"]
        assert {c["commit"] for c in found} == {self.shas[i] for i in CULPRITS}
        path = self.log()
        assert path is not None
        runs = [
            (event.sha, run.block)
            for event in load(path).events
            for run in getattr(event, "runs", ())
        ]
        assert len(runs) == len(set(runs))
        for result in (self.root / "results").rglob("*.json"):
            json.loads(result.read_bytes())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose environment and base wheel are there, and no session yet."""
    base = tmp_path_factory.mktemp("faults")
    repo = MiniRepo(base / "repo")
    shas = []
    for index, level in enumerate(LEVELS):
        text = "def value(:\n" if level is None else f"def value():\n    return {level}\n"
        shas.append(repo.commit(f"Change {index}", {"mini/nn/linear.py": text, "n.md": f"{index}"}))
    make_wheel(base / "wheels")
    root = base / "template"
    store, env = root / "store", str(base / "env")
    config = write_project(root, repo.path, base / "wheels", store, env_dir=env)
    conf = json.loads(config.read_text())
    conf["repo"] = str(repo.path)
    conf["bisectorch"]["store"] = "store"
    config.write_text(json.dumps(conf))
    project = Project(root, config, shas, f"{shas[0]}..main")
    code, _, err = project.run("bisect", f"{shas[0]}..{shas[1]}", "-b", "track_value", "-n")
    assert code == 1, err
    shutil.rmtree(root / "results", ignore_errors=True)
    return project


@pytest.fixture
def project(template: Project) -> Project:
    """A copy of the template."""
    return copy_of(template, "copy")


def copy_of(template: Project, name: str) -> Project:
    """The same project elsewhere."""
    root = template.root.parent / name
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(template.root, root, symlinks=True)
    return Project(root, root / "asv.conf.json", template.shas, template.spec)


def await_observations(project: Project, process: subprocess.Popen[str], count: int) -> None:
    """Wait until the session has observed so much."""
    until = time.monotonic() + 120
    while project.observed() < count and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert project.observed() >= count
    assert process.poll() is None, "the session ended before it could be disturbed"


def test_a_scheduler_stops_it_and_it_goes_on(project: Project) -> None:
    """SIGTERM: no worker is left, asv has its results, and resume ends with the truth."""
    process = project.start(*project.bisect())
    await_observations(project, process, 4)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "Traceback" not in err
    assert "bisectorch resume" in err
    assert list((project.root / "results").rglob("*-bisectorch-*.json"))
    mine = [p for p in Path("/proc").glob("[0-9]*/cmdline") if _names(p, project.root)]
    assert not mine
    code, out, err = project.run("resume", "--format", "json")
    assert code == 0, err
    project.check(out)


def _names(path: Path, root: Path) -> bool:
    try:
        return os.fsencode(root) in path.read_bytes()
    except OSError:
        return False


def test_git_gc_in_the_middle_changes_nothing(project: Project) -> None:
    """Loose objects become a pack under a session that is stopped for it."""
    repo = json.loads(project.config.read_text())["repo"]
    process = project.start(*project.bisect())
    await_observations(project, process, 2)
    process.send_signal(signal.SIGSTOP)
    try:
        subprocess.run(["git", "gc", "--quiet", "--prune=now"], cwd=repo, check=True)
        assert not list(Path(repo, ".git", "objects").glob("[0-9a-f][0-9a-f]"))
    finally:
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    project.check(out)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_real_processes_at_writes_of_a_real_session(template: Project, shim: Path) -> None:
    """The whole command, store and asv's results included: killed, full, dying, read-only..."""
    usual = copy_of(template, "usual")
    counted = usual.root.parent / "count"
    faulty = {"LD_PRELOAD": str(shim), "FAULT_ROOT": str(usual.root), "FAULT_COUNT": str(counted)}
    code, out, err = usual.run(*usual.bisect(), **faulty)
    assert code == 0, err
    usual.check(out)
    changes = int(counted.read_text())
    assert changes > 200
    points = 40
    for index in range(points):
        broken = copy_of(template, "broken")
        mode = index % len(MODES) + 1
        at = changes * index // points
        faulty.update(FAULT_ROOT=str(broken.root), FAULT_MODE=str(mode), FAULT_AT=str(at))
        code, _, err = broken.run(*broken.bisect(), **faulty)
        what = f"{MODES[mode - 1]} at {at}: {err}"
        seen = broken.observed()
        again = ["resume", "--format", "json"] if broken.log() else broken.bisect()
        code, out, err = broken.run(*again)
        assert code == 0, what + err
        assert broken.observed() >= seen, what
        broken.check(out)
