"""A plan as a person meets it: real git, a real configuration, nothing built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from minihistory import MiniRepo, make_wheel, write_project

VALUE = "def value():\n    return {}\n"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen commits: every third changes Python files, the others documentation only."""
    root = tmp_path_factory.mktemp("plan")
    repo = MiniRepo(root / "repo")
    for index in range(16):
        files = {"docs/x.md": f"{index}\n"}
        if index % 3 == 0:
            files["mini/nn/linear.py"] = VALUE.format(index)
        repo.commit(f"Change {index}", files)
    make_wheel(root / "wheels")
    path = write_project(
        root / "project", repo.path, root / "wheels", root / "store", env_dir=str(root / "env")
    )
    conf = json.loads(path.read_text())
    path.write_text(json.dumps({**conf, "repo": str(repo.path)}))
    return path


def plan(config: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; never a traceback."""
    home = config.parent.parent / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "bisectorch", "--config", str(config), "plan", *arguments],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def test_a_plan_says_what_is_certain_and_makes_nothing(config: Path) -> None:
    """The division and the opening; no environment, no build, no session."""
    code, out, err = plan(config, "main~15..main", "-b", "track_value")
    assert code == 0, err
    assert "16 commits with the baseline; after it 0 native, 5 Python only, 10 irrelevant" in out
    assert "1 native state; 0 of 16 commits built" in out
    assert "runs take 2.0 s (a first guess) and spread by 1 % (a first guess)" in out
    assert "certain: both ends and the starting grid" in out
    assert "simulated" not in out
    assert not (config.parent.parent / "env").exists()
    assert not (config.parent / "sessions").exists()


def test_a_simulated_plan_in_json(config: Path) -> None:
    """Every scenario with its builds, runs and seconds, and the step within the budget."""
    arguments = ("--simulate", "--trials", "2", "--sigma", "2%", "--budget", "3h")
    code, out, err = plan(config, "main~15..main", *arguments, "--format", "json")
    assert code == 0, err
    told = json.loads(out)
    assert told["bisectorch_plan"] == 1
    assert (told["commits"], told["native_states"], told["sigma"]) == (16, 1, 0.02)
    assert [each["ratios"] for each in told["scenarios"]] == [
        [],
        [0.06],
        [0.2],
        [0.2, 0.1, -0.1],
    ]
    for each in told["scenarios"]:
        assert each["trials"] == 2
        assert 2 <= each["builds"]["mean"] <= 16
        assert each["natives"]["mean"] == 1
        assert each["seconds"]["mean"] >= told["certain"]["seconds"]
    assert told["budget"]["smallest_step"] == 0.01
    assert "simulating round 2" in err
    assert plan(config, "main~15..main", *arguments, "--format", "json")[1] == out


def test_a_budget_that_nothing_fits(config: Path) -> None:
    """It is said, with what to do."""
    code, out, _ = plan(config, "main~15..main", "--budget", "10s", "--trials", "1")
    assert code == 0
    assert "no smallest step fits a budget of 10 s: take a shorter range" in out


def test_priors_count_in_a_plan(config: Path, tmp_path: Path) -> None:
    """Where only one commit is likely, finding a step costs fewer builds."""
    shas = subprocess.run(
        ["git", "rev-list", "--first-parent", "main"],
        cwd=config.parent.parent / "repo",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    (tmp_path / "priors").write_text("".join(f"{sha} 1e-6\n" for sha in shas if sha != shas[3]))
    arguments = ("main~15..main", "--simulate", "--trials", "2", "--format", "json")
    _, plain, _ = plan(config, *arguments)
    code, weighed, err = plan(config, *arguments, "--prior", str(tmp_path / "priors"))
    assert code == 0, err
    builds = [json.loads(each)["scenarios"][2]["builds"]["mean"] for each in (plain, weighed)]
    assert builds[1] < builds[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("main..main~3",), "reversed"),
        (("nowhere..main",), "no commit is named 'nowhere'"),
        ((), "say which commits"),
        (("main~3..main", "--sigma", "3"), "not a spread of runs; write 1% or 0.01"),
        (("main~3..main", "--trials", "0"), "not a number of trials; write 20"),
        (("main~3..main", "-b", "("), "-b is no regular expression"),
        (("main~3..main", "--prior", "no-such-thing"), "neither a file nor a command"),
    ],
)
def test_faults_are_one_clear_line(config: Path, arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, and what to write instead."""
    code, out, err = plan(config, *arguments)
    assert (code, out) == (2, "")
    assert says in err
