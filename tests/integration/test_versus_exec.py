"""``versus --exec`` in a real git repository, and inside a real ``git bisect run``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from minihistory import MiniRepo

VERSUS = (sys.executable, "-m", "bisectorch", "versus")
PRINT = ("--exec", "cat number", "--unit", "points")


@pytest.fixture
def repo(tmp_path: Path) -> MiniRepo:
    """A number that grows at the fifth of eight commits; the third cannot be run."""
    made = MiniRepo(tmp_path / "repo")
    for index, number in enumerate([100, 100, None, 100, 120, 120, 120, 120]):
        made.commit(
            f"Change {index}",
            {"number": "oops\n" if number is None else f"{number}\n", "other": f"{index}\n"},
        )
    return made


def call(repo: MiniRepo, *words: str, folder: str = ".") -> tuple[int, str, str]:
    """Exit code and both outputs of one command in the repository."""
    done = subprocess.run(
        words,
        cwd=repo.path / folder,
        env={**os.environ, "COLUMNS": "120", "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("sides", "code", "said"),
    [
        (("main~7", "main"), 1, "1 worse"),
        (("main", "main~7"), 0, "1 better"),
        (("main~7", "main~6"), 0, "1 same"),
        (("main", "main~7", "--invert"), 1, "1 better"),
        (("main~7",), 1, "working tree"),
        (("--baseline", "100"), 1, "baseline"),
        (("main~6", "--baseline", "100"), 0, "1 same"),
        (("--baseline", "119"), 0, "1 same"),
    ],
)
def test_a_printed_number_is_compared(
    repo: MiniRepo, sides: tuple[str, ...], code: int, said: str
) -> None:
    """Two commits, the working tree, or a number of another day; larger is bad."""
    found, out, err = call(repo, *VERSUS, *sides, *PRINT)
    assert found == code, err
    assert said in out


def test_the_time_of_a_command_is_compared(repo: MiniRepo) -> None:
    """Slower in the working tree, which is not committed; from a subdirectory."""
    folder = repo.path / "tools"
    folder.mkdir()
    repo.commit("Add", {"tools/bench.sh": "sleep 0.02\n"})
    (folder / "bench.sh").write_text("sleep 0.2\n")
    code, out, err = call(repo, *VERSUS, "main", "--exec", "sh bench.sh", folder="tools")
    assert code == 1, err
    assert "different" in out


def test_a_build_comes_first_and_once_a_commit(repo: MiniRepo) -> None:
    """In the working tree every time."""
    count = repo.path.parent / "count"
    build = f"cp number built && pwd >> {count}"
    words = (*VERSUS, "main~7", "--build", build, "--exec", "cat built", "--unit", "points")
    for _ in range(2):
        code, _, err = call(repo, *words)
        assert code == 1, err
    built = count.read_text().split()
    assert built.count(str(repo.path)) == 2
    assert len(built) == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("main~7", "main~5", *PRINT), 125, "its last line holds no number"),
        (("main~7", "main", "--exec", "false"), 128, "the old side cannot be run"),
        (("main~7", "--build", "exit 4", "--exec", "true"), 128, "the old side cannot be run"),
        (("nowhere", *PRINT), 128, "no commit is named 'nowhere'"),
        (("main", "main", *PRINT), 128, "both sides are"),
        (("--exec", "true"), 128, "say what to compare with"),
        (("main~1", "main", "--baseline", "3", *PRINT), 128, "--baseline stands for OLD"),
        (("main~1", "--exec", "true", "--smallest-step", "3"), 128, "is not a step"),
    ],
)
def test_what_cannot_be_said_is_never_called_bad(
    repo: MiniRepo, words: tuple[str, ...], code: int, said: str
) -> None:
    """125 skips the commit; 128 stops the bisection."""
    found, _, err = call(repo, *VERSUS, *words)
    assert found == code, err
    assert said in err


def test_outside_of_git_nothing_can_be_compared(tmp_path: Path) -> None:
    """One clear line."""
    done = subprocess.run(
        [*VERSUS, "main", *PRINT],
        cwd=tmp_path,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128
    assert "is in no git working tree" in done.stderr


def test_git_bisect_run_finds_the_commit(repo: MiniRepo) -> None:
    """Through one that cannot be run, and leaves the user's repository as it was."""
    assert call(repo, "git", "bisect", "start", "main", "main~7")[0] == 0
    code, out, err = call(repo, "git", "bisect", "run", *VERSUS, "main~7", ".", *PRINT)
    assert code == 0, err
    assert "is the first bad commit" in out
    assert "Change 4" in out
    assert call(repo, "git", "bisect", "reset")[0] == 0
    assert repo.git("status", "--porcelain") == ""
