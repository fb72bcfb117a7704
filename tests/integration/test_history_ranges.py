from __future__ import annotations

import io
from datetime import datetime, timezone
from pathlib import Path

import pytest
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.history import GitHistory, PathClasses
from bisectorch.model import PathClass
from minihistory import MiniRepo

CLASSES = PathClasses(python_only=("lib/**/*.py",), irrelevant=("docs/**", "*.md"))
SUBJECTS = ["zero", "one", "two", "three", "four"]


@pytest.fixture
def repo(tmp_path: Path) -> MiniRepo:
    """Five commits in a row: documents, Python, native, documents, Python."""
    repo = MiniRepo(tmp_path / "repo")
    paths = ["docs/x.md", "lib/a.py", "core.c", "docs/x.md", "lib/a.py"]
    for subject, path in zip(SUBJECTS, paths, strict=True):
        repo.commit(subject, {path: f"{subject}\n"})
    return repo


def subjects(repo: MiniRepo, spec: str) -> list[str]:
    """The commits of a range by their subjects."""
    found = GitHistory(repo.path, CLASSES, "main").range(spec)
    assert found.spec == spec
    return [commit.subject for commit in found.line]


def moment(repo: MiniRepo, name: str, seconds: int = 0) -> str:
    """When a commit was made, or so many seconds later, as a date that git reads."""
    made = int(repo.git("show", "-s", "--format=%ct", name)) + seconds
    return datetime.fromtimestamp(made, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_all_begins_with_the_first_commit(repo: MiniRepo) -> None:
    """Which then is the baseline."""
    assert subjects(repo, "ALL") == SUBJECTS


def test_a_date_is_the_newest_commit_by_then(repo: MiniRepo) -> None:
    """Of the commits themselves, not of what a clone's reflog remembers."""
    spec = f"main@{{{moment(repo, 'main~3', 5)}}}..main@{{{moment(repo, 'main~1')}}}"
    assert subjects(repo, spec) == SUBJECTS[1:4]
    assert subjects(repo, f"@{{{moment(repo, 'main~2')}}}..") == SUBJECTS[2:]


def test_since_starts_at_the_last_commit_before(repo: MiniRepo) -> None:
    """So that the first commit of the time asked about has its baseline."""
    since = moment(repo, "main~2", -1)
    assert subjects(repo, f"--since={since}") == SUBJECTS[1:]
    assert subjects(repo, f"--since={since} --until={moment(repo, 'main~1')} main") == SUBJECTS[1:4]
    assert subjects(repo, "--since=1980-01-01") == SUBJECTS


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("--since=blah", "'blah' is not a date; write 2017-05-01"),
        ("main@{blah}..main", "'blah' is not a date"),
        ("main@{1980-01-01}..main", "nothing was committed to main by 1980-01-01"),
        ("--since=2038-01-01", "holds one commit"),
        ("--until=2018-01-01", "has no beginning: add --since=DATE"),
        ("--since=2017-01-01 --since=2018-01-01", "says 'since' more than once"),
        ("--since=2017-01-01 --author=me", "'--author=me' is not understood in a range"),
        ("--since=2017-01-01 'main", "is not a range"),
        ("HASHFILE:/no/such/file", "cannot be read: No such file"),
    ],
)
def test_what_is_no_range_is_told(repo: MiniRepo, spec: str, says: str) -> None:
    """In one line that says what to write."""
    with pytest.raises(UsageError, match=says) as caught:
        subjects(repo, spec)
    assert "\n" not in str(caught.value)


def test_a_file_of_commits_is_a_range(repo: MiniRepo, tmp_path: Path) -> None:
    """In their order of time, whatever the file's; what lies between counts with the later."""
    file = tmp_path / "hashes"
    names = ["main", "main~3", "main~1"]
    file.write_text("\n".join(repo.git("rev-parse", name) for name in names) + "\n\n")
    history = GitHistory(repo.path, CLASSES)
    found = history.range(f"HASHFILE:{file}").line
    assert [commit.subject for commit in found] == ["one", "three", "four"]
    assert found[1].paths == ("core.c", "docs/x.md")
    assert found[1].path_class is PathClass.NATIVE
    assert found[1].fingerprint == history.commit("main~1").fingerprint


def test_standard_input_may_name_them(repo: MiniRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in asv."""
    monkeypatch.setattr("sys.stdin", io.StringIO("main~4\nmain\n"))
    assert subjects(repo, "HASHFILE:-") == ["zero", "four"]


def test_commits_that_are_on_no_one_line_are_told(repo: MiniRepo, tmp_path: Path) -> None:
    """By the name of one that is beside it."""
    repo.git("checkout", "-q", "-b", "side", "main~2")
    side = repo.commit("side", {"lib/s.py": "s\n"})
    (tmp_path / "hashes").write_text(f"{side}\nmain\n")
    with pytest.raises(UsageError, match="not on the first-parent line"):
        subjects(repo, f"HASHFILE:{tmp_path / 'hashes'}")
    (tmp_path / "hashes").write_text("main\n")
    with pytest.raises(UsageError, match="must name two commits or more"):
        subjects(repo, f"HASHFILE:{tmp_path / 'hashes'}")


def test_a_range_over_a_rewritten_history_is_told(repo: MiniRepo) -> None:
    """Where the two part is named, as what to write instead."""
    before = repo.git("rev-parse", "main")
    repo.git("commit", "-q", "--amend", "-m", "four, rewritten")
    repo.commit("five", {"lib/a.py": "five\n"})
    with pytest.raises(UsageError, match=r"not an ancestor of TO: they part at \w{10}, write"):
        subjects(repo, f"{before}..main")


def test_a_tag_named_like_an_option_is_no_option(repo: MiniRepo) -> None:
    """It is refused with the name under which it can be given."""
    sha = repo.git("rev-parse", "main~2")
    repo.git("update-ref", "refs/tags/--output=x", sha)
    with pytest.raises(UsageError, match=r"a tag of that name is refs/tags/--output=x"):
        subjects(repo, "--output=x..main")
    assert subjects(repo, "refs/tags/--output=x..main") == SUBJECTS[2:]


def test_a_clone_without_history_is_told(repo: MiniRepo, tmp_path: Path) -> None:
    """A shallow clone lacks the parents that a range needs; whatever the form, it is said."""
    url = f"file://{repo.path}"
    repo.git("clone", "-q", "--depth", "2", url, str(tmp_path / "shallow"))
    history = GitHistory(tmp_path / "shallow", CLASSES, "main")
    with pytest.raises(UsageError, match="this clone is shallow, try: git fetch --unshallow"):
        history.range("main~4..main")
    with pytest.raises(UsageError, match="this clone is shallow"):
        history.range(f"--since={moment(repo, 'main~3')}")
    with pytest.raises(UsageError, match="this clone is shallow"):
        history.range("ALL")


def test_an_object_that_is_corrupt_is_told(repo: MiniRepo) -> None:
    """git's own telling line, not an empty range."""
    blob = repo.git("rev-parse", "main~2^{tree}")
    path = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"nonsense")
    with pytest.raises(EnvironmentFailure, match=r"git in .*: (fatal|error): "):
        subjects(repo, "ALL")
