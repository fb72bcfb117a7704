"""A working tree as a commit: what it holds, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from bisectorch.errors import UsageError
from bisectorch.history import GitHistory, PathClasses, capture
from bisectorch.history.checkouts import checkout, top_of
from bisectorch.model import PathClass
from minihistory import MiniRepo

CLASSES = PathClasses(python_only=("mini/**/*.py",), irrelevant=("docs/**",))


@pytest.fixture
def repo(tmp_path: Path) -> MiniRepo:
    """One commit with a file of each class."""
    made = MiniRepo(tmp_path / "repo")
    made.commit("Start", {"mini/a.py": "1\n", "core.c": "1\n", "docs/a.md": "1\n"})
    return made


def test_nothing_changed_is_head(repo: MiniRepo) -> None:
    """No commit is made."""
    found = capture(repo.path, CLASSES)
    assert (found.sha, found.changed) == (found.head, ())


def test_it_holds_what_the_files_hold_now(repo: MiniRepo) -> None:
    """Changed, deleted, staged and new files; with a fingerprint and a class of its own."""
    (repo.path / "mini/a.py").write_text("2\n")
    (repo.path / "docs/a.md").unlink()
    (repo.path / "mini/new.py").write_text("new\n")
    (repo.path / "staged.c").write_text("int x;\n")
    repo.git("add", "staged.c")
    (repo.path / "stray.log").write_text("left out\n")
    before = repo.git("status", "--porcelain")
    found = capture(repo.path, CLASSES)
    assert found.changed == ("docs/a.md", "mini/a.py", "mini/new.py", "staged.c")
    assert found.left_out == ("stray.log",)
    assert repo.git("status", "--porcelain") == before
    assert repo.git("show", f"{found.sha}:mini/new.py") == "new"
    history = GitHistory(repo.path, CLASSES)
    head, tree = history.commit("HEAD"), history.commit(found.sha)
    assert tree.parents == (head.sha,)
    assert tree.path_class is PathClass.NATIVE
    assert tree.fingerprint != head.fingerprint


def test_python_files_alone_keep_the_native_fingerprint(repo: MiniRepo) -> None:
    """So that it is an overlay on HEAD's build."""
    (repo.path / "mini/a.py").write_text("2\n")
    history = GitHistory(repo.path, CLASSES)
    tree = history.commit(capture(repo.path, CLASSES).sha)
    assert tree.fingerprint == history.commit("HEAD").fingerprint


def test_the_same_files_have_the_same_name(repo: MiniRepo) -> None:
    """Now and later, staged or not, from any directory of the tree."""
    (repo.path / "mini/a.py").write_text("2\n")
    first = capture(repo.path, CLASSES)
    repo.git("add", "mini/a.py")
    assert capture(repo.path / "mini", CLASSES).sha == first.sha
    (repo.path / "mini/a.py").write_text("3\n")
    assert capture(repo.path, CLASSES).sha != first.sha


def test_ignored_files_are_not_part_of_it(repo: MiniRepo) -> None:
    """Nor told as left out."""
    repo.commit("Ignore", {".gitignore": "*.pyc\nmini/gen.py\n"})
    (repo.path / "mini/gen.py").write_text("generated\n")
    (repo.path / "x.pyc").write_text("")
    found = capture(repo.path, CLASSES)
    assert (found.sha, found.left_out) == (found.head, ())


def test_an_unresolved_merge_is_refused(repo: MiniRepo) -> None:
    """Its files hold both sides."""
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("Two", {"mini/a.py": "2\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("Three", {"mini/a.py": "3\n"})
    with pytest.raises(AssertionError):
        repo.git("merge", "-q", "side")
    conflict = (repo.path / "mini/a.py").read_text()
    assert "<<<<<<<" in conflict
    with pytest.raises(UsageError, match="unresolved merge"):
        capture(repo.path, CLASSES)
    assert (repo.path / "mini/a.py").read_text() == conflict


def test_a_bare_repository_has_no_working_tree(repo: MiniRepo, tmp_path: Path) -> None:
    """asv's mirrors are bare."""
    repo.git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "bare"))
    with pytest.raises(UsageError, match="has no working tree: name two commits"):
        capture(tmp_path / "bare", CLASSES)


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    """There is no HEAD to stand on."""
    with pytest.raises(UsageError, match="has no commit yet"):
        capture(MiniRepo(tmp_path / "empty").path, CLASSES)


def test_a_work_tree_beside_the_users_is_made_once(repo: MiniRepo) -> None:
    """And again when somebody removed it."""
    first = repo.git("rev-parse", "HEAD")
    repo.commit("Two", {"mini/a.py": "2\n"})
    top = top_of(repo.path / "mini")
    path = checkout(top, first)
    assert (path / "mini/a.py").read_text() == "1\n"
    (path / "built").touch()
    assert checkout(top, first) == path
    assert (path / "built").exists()
    repo.git("worktree", "remove", "--force", str(path))
    assert (checkout(top, first) / "mini/a.py").read_text() == "1\n"
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.rmdir()
    assert (checkout(top, first) / "mini/a.py").read_text() == "1\n"
    assert repo.git("status", "--porcelain") == ""
