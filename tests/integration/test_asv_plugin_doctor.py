from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from minihistory import MiniRepo
from nativehistory import NativeHistory, ops, start, write_native_project

ROOT = Path(__file__).resolve().parents[2]


def doctor(config: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Exit code and all that it says; never a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "bisectorch", "doctor", *arguments, "--config", str(config)],
        env={**os.environ, "BISECTORCH_STORE": "", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A project with four commits: native, Python only, irrelevant, native."""
    story = NativeHistory(MiniRepo(tmp_path / "repo"))
    story.add("start", 100, start())
    story.add("python", 101, ops(1))
    story.add("docs", 101, {"docs/x.md": "x\n"})
    story.add("native", 101, {"csrc/unit0.c": "int unit0(void) { return 1; }\n"})
    return write_native_project(tmp_path / "project", story, tmp_path / "store")


def change(config: Path, **values: object) -> None:
    """Change the configuration."""
    config.write_text(json.dumps({**json.loads(config.read_text()), **values}))


def test_a_project_that_is_ready_lacks_nothing(config: Path) -> None:
    """And its range is divided, at the price of what builds are expected to take."""
    code, said = doctor(config, "ALL", "--offline")
    assert code == 0, said
    assert "MISSING" not in said
    assert "4 commits with the baseline; after it 1 native, 1 Python only, 1 irrelevant" in said
    assert "2 native states" in said
    assert "at a first guess, 600 s each" in said


def test_what_builds_took_is_what_they_are_expected_to(config: Path, tmp_path: Path) -> None:
    """Across sessions, from the store."""
    (tmp_path / "store").mkdir()
    lines = [["source step", 50.0], ["source step", 70.0], ["source step", 60.0]]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "damaged\n"
    (tmp_path / "store" / "learned.jsonl").write_text(text)
    assert "as builds took so far, 60 s each" in doctor(config, "ALL")[1]


def shallow(config: Path) -> None:
    """A clone without its history."""
    repo = json.loads(config.read_text())["repo"]
    clone = str(config.parent / "clone")
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{repo}", clone], check=True)
    change(config, repo=clone)


def newer_store(config: Path) -> None:
    """A store that a later version wrote."""
    store = config.parent.parent / "store"
    store.mkdir()
    (store / "version").write_text("99\n")


def bad_benchmark(config: Path) -> None:
    """Benchmarks in the syntax of no Python."""
    (config.parent / "benchmarks" / "bad.py").write_text("def time_it(:\n")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (shallow, "is a shallow clone: git fetch --unshallow"),
        (newer_store, "was written by a newer version of bisectorch"),
        (bad_benchmark, "is not valid syntax for Python"),
        (lambda config: change(config, pythons=["9.7"]), "no Python 9.7 on the PATH, in pyenv"),
        (lambda config: change(config, pythons=["x"]), "'x', which is no version"),
        (lambda config: change(config, environment_type="virtualenv"), "asv.conf.json needs"),
        (lambda config: change(config, repo="nowhere"), "nowhere is not a git repository"),
        (lambda config: change(config, benchmark_dir="nowhere"), "no benchmark in"),
        (
            lambda config: change(config, bisectorch={"wheels": {"folders": ["/no/such"]}}),
            "folders of wheels that do not exist: /no/such",
        ),
        (lambda config: change(config, bisectorch={"x": 1}), "bisectorch has no key 'x'"),
    ],
)
def test_what_is_missing_is_named(config: Path, spoil: Callable[[Path], None], says: str) -> None:
    """With what to do, in one line; the other checks go on."""
    spoil(config)
    code, said = doctor(config, "--offline")
    assert code == 4, said
    [line] = [line for line in said.splitlines() if line.startswith("MISSING")]
    assert says in line


def test_a_machine_without_compiler_is_told(config: Path) -> None:
    """Where native builds will be needed."""
    code, said = doctor(config, "--offline", CC="/no/cc")
    assert code == 4
    assert "MISSING  no compiler /no/cc: install gcc and g++" in said


def test_a_repository_that_does_not_answer_is_told(config: Path, tmp_path: Path) -> None:
    """Only where the network may be asked."""
    change(config, repo=f"file://{tmp_path}/nowhere")
    code, said = doctor(config)
    assert code == 4
    assert "does not answer, or has no branch main" in said
    code, said = doctor(config, "--offline")
    assert code == 0
    assert "is not here yet: the first command mirrors it" in said


def test_this_projects_own_configuration_is_ready() -> None:
    """The top-level asv.conf.json, for a user who has only this repository."""
    code, said = doctor(ROOT / "asv.conf.json", "--offline")
    assert code == 0, said
    assert "route SOURCE: asv's build_command" in said


def test_the_floor_is_measured_when_asked(config: Path) -> None:
    """By real processes; and what disturbs this machine is told in any case."""
    code, said = doctor(config, "--offline", "--floor", "1s")
    assert code == 0, said
    assert "floor: two equal builds differ by" in said
    assert "floor: the smallest step that shows is" in said
    assert " measures" in said or "is the only one that may be used" in said
    assert "instructions (--metric instructions):" in said
    code, said = doctor(config, "--offline", "--floor", "soon")
    assert code == 2
    assert "'soon' is not a time" in said
