"""Priors from a file or a command, and what they do to the weights of a search."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.asv_plugin.priors import read_priors, with_priors
from bisectorch.errors import UsageError
from bisectorch.knowledge import LEAST_WEIGHT, WEIGHTS, weights_of
from bisectorch.model import Commit, CommitRange, PathClass, Trace

SHAS = [f"{index:x}{'abcdef0123' * 4}"[:40] for index in range(1, 6)]


@pytest.fixture
def commits() -> CommitRange:
    """Five commits, native ones."""
    return CommitRange("a..b", tuple(Commit(sha, (), "A", 0, "Change") for sha in SHAS))


def test_a_file_gives_weights_to_those_it_names(tmp_path: Path, commits: CommitRange) -> None:
    """Abbreviated, in capitals, with comments and blank lines; the others keep 1."""
    file = tmp_path / "priors"
    file.write_text(f"# mine\n\n{SHAS[1][:7]} 0.5 # half\n{SHAS[3].upper()}\t1e-3\n")
    line = with_priors(commits, str(file)).line
    assert [commit.prior for commit in line] == [1.0, 0.5, 1.0, 1e-3, 1.0]
    assert with_priors(commits, None) is commits


def test_a_command_is_given_the_shas_and_no_shell(tmp_path: Path, commits: CommitRange) -> None:
    """It reads the full shas, one a line; what a shell would act on is handed on as it is."""
    script = tmp_path / "my prior.py"
    script.write_text(
        "import sys\n"
        "assert sys.argv[1:] == ['$HOME', ';']\n"
        "for n, sha in enumerate(sys.stdin.read().split(), 1): print(sha, n / 10)\n"
    )
    source = shlex.join([sys.executable, str(script), "$HOME", ";"])
    priors = [commit.prior for commit in with_priors(commits, source).line]
    assert priors == [0.1, 0.2, 0.3, 0.4, 0.5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1abcdef 0", "line 1: the weight must be above 0 and at most 1, not '0'"),
        ("\n1abcdef 1.5", "line 2: the weight"),
        ("1abcdef nan", "line 1: the weight"),
        ("1abcdef much", "line 1: the weight"),
        ("1abcde 0.5", "7 digits"),
        ("1abcdef", "write SHA WEIGHT"),
        ("1abcdef 0.1 0.2", "write SHA WEIGHT"),
        ("1abcdef 0.1\n9999999 0.2", "line 2: 9999999 is no commit of the range"),
        ("1abcdef 0.1\n1abcdef01 0.2", "line 2: 1abcdef01 was given another weight"),
        ("9999999 0.2", "names no commit of the range"),
        ("# nothing", "names no commit of the range"),
    ],
)
def test_faults_are_told_in_one_line(text: str, says: str) -> None:
    """Each names the source, the line and what to write."""
    with pytest.raises(UsageError) as caught:
        read_priors(text, SHAS, "mine")
    assert says in str(caught.value)
    assert str(caught.value).startswith("--prior mine")
    assert "\n" not in str(caught.value)


def test_an_ambiguous_sha_is_refused() -> None:
    """Two commits that begin alike need more digits."""
    twins = ["a" * 39 + "b", "a" * 39 + "c"]
    with pytest.raises(UsageError, match="ambiguous; give more digits"):
        read_priors(f"{'a' * 12} 0.5", twins, "mine")
    assert read_priors(f"{twins[1]} 0.5", twins, "mine") == {twins[1]: 0.5}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("no-such-file-or-command", "is neither a file nor a command: No such file"),
        (f"{sys.executable} -c 'import sys; sys.exit(\"no idea\")'", "exit code 1: no idea"),
        ("'unclosed", "is no command"),
        (" ", "needs a file or a command"),
    ],
)
def test_a_source_that_fails_is_told(commits: CommitRange, source: str, says: str) -> None:
    """One line, with what the command said last."""
    with pytest.raises(UsageError) as caught:
        with_priors(commits, source)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_priors_multiply_what_the_files_tell(commits: CommitRange) -> None:
    """By class, by trace, and never below the least weight."""
    native, python, idle, doubted, plain = commits.line
    line = (
        replace(native, prior=0.5),
        replace(python, path_class=PathClass.PYTHON, paths=("a.py",), prior=0.5),
        replace(idle, path_class=PathClass.IRRELEVANT, prior=0.5),
        replace(doubted, path_class=PathClass.IRRELEVANT, prior=1e-8),
        plain,
    )
    trace = Trace("w", SHAS[0], executed=(), prepared=("a.py",), imported=(), present=())
    irrelevant = WEIGHTS[PathClass.IRRELEVANT]
    assert weights_of(line) == (0.5, 0.5, 0.5 * irrelevant, LEAST_WEIGHT, 1.0)
    assert weights_of(line, [trace])[1] == pytest.approx(0.5 * 0.3)
