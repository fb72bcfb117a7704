from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.history import GitHistory, PathClasses
from bisectorch.history.fingerprint import Fingerprint
from bisectorch.model import NO_NATIVE_FILES, Commit, PathClass
from minihistory import MiniRepo

CLASSES = PathClasses(python_only=("lib/**/*.py",), irrelevant=("docs/**", "*.md"))


@pytest.fixture
def repo(tmp_path: Path) -> MiniRepo:
    """A repository whose path holds a space."""
    return MiniRepo(tmp_path / "a repo")


def history(repo: MiniRepo) -> GitHistory:
    """What is tested."""
    return GitHistory(repo.path, CLASSES)


def from_scratch(history: GitHistory, sha: str) -> str:
    """The native fingerprint of one tree, read whole."""
    fingerprint = Fingerprint()
    for file in history.files(sha):
        if CLASSES.classify(file.path) is PathClass.NATIVE:
            fingerprint.add(file.path, file.mode, file.blob)
    return str(fingerprint)


def forked(repo: MiniRepo) -> dict[str, str]:
    """base - one - two - merge - tip, with side1 - sync - side2 from base into merge."""
    shas = {"base": repo.commit("base", {"lib/a.py": "0\n"})}
    shas["one"] = repo.commit("one", {"core.c": "1\n"})
    repo.git("checkout", "-q", "-b", "side", shas["base"])
    shas["side1"] = repo.commit("side1", {"lib/s.py": "1\n"})
    shas["sync"] = repo.merge("main", "sync")
    shas["side2"] = repo.commit("side2", {"lib/s.py": "2\n", "side.c": "2\n"})
    repo.git("checkout", "-q", "main")
    shas["two"] = repo.commit("two", {"lib/a.py": "2\n"})
    shas["merge"] = repo.merge("side", "merge")
    shas["tip"] = repo.commit("tip", {"README.md": "x\n"})
    return shas


def test_a_range_runs_along_first_parents_oldest_first(repo: MiniRepo) -> None:
    """FROM is the first of the line, and commits of a merged branch are not on it."""
    shas = forked(repo)
    found = history(repo).range("main~4..main")
    assert [c.sha for c in found.line] == [shas[n] for n in ("base", "one", "two", "merge", "tip")]
    assert found.baseline.subject == "base"
    assert found.tip.author == "An Author"
    assert found.tip.date_seconds > found.baseline.date_seconds > 1_500_000_000
    assert found.line[3].parents == (shas["two"], shas["side2"])


def test_paths_and_classes_are_against_the_first_parent(repo: MiniRepo) -> None:
    """A merge changes what its side changed; the strongest class of the paths is its class."""
    forked(repo)
    line = history(repo).range("main~4..main").line
    assert [set(c.paths) for c in line[2:]] == [{"lib/a.py"}, {"lib/s.py", "side.c"}, {"README.md"}]
    assert [c.path_class for c in line] == [
        PathClass.PYTHON,
        PathClass.NATIVE,
        PathClass.PYTHON,
        PathClass.NATIVE,
        PathClass.IRRELEVANT,
    ]


def test_the_running_fingerprint_is_the_one_from_scratch(repo: MiniRepo, tmp_path: Path) -> None:
    """At each commit of a history with every kind of change, a submodule and a merge too."""
    outer = MiniRepo(tmp_path / "outer")
    link = outer.commit("x", {"x": "x"})
    start = repo.commit("docs only", {"docs/x": "0", "lib/a.py": "0"})
    forked(repo)
    repo.commit("change", {"core.c": "2\n"})
    (repo.path / "core.c").chmod(0o755)
    repo.commit("mode")
    repo.git("mv", "core.c", "renamed.c")
    repo.commit("rename")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{link},third_party/x")
    repo.git("commit", "-q", "-m", "submodule")
    other = outer.commit("y", {"x": "y"})
    repo.git("update-index", "--cacheinfo", f"160000,{other},third_party/x")
    repo.git("commit", "-q", "-m", "submodule moves")
    (repo.path / "link.c").symlink_to("renamed.c")
    repo.git("add", "link.c")
    repo.git("commit", "-q", "-m", "link")
    repo.git("rm", "-q", "--cached", "third_party/x")
    repo.git("commit", "-q", "-m", "no submodule")
    repo.commit("none left", {"renamed.c": None, "side.c": None, "link.c": None})

    under_test = history(repo)
    line = under_test.range(f"{start}..main").line
    assert [c.fingerprint for c in line] == [from_scratch(under_test, c.sha) for c in line]
    assert line[0].fingerprint == line[-1].fingerprint == NO_NATIVE_FILES
    assert under_test.commit("main~3").fingerprint == line[-4].fingerprint
    # All but the Python-only, the documentation and the last commit changed something native.
    assert len({c.fingerprint for c in line}) == len(line) - 4


def test_a_revert_returns_to_the_fingerprint(repo: MiniRepo) -> None:
    """Equal native files are an equal fingerprint, wherever in history."""
    repo.commit("one", {"core.c": "1\n"})
    repo.commit("two", {"core.c": "2\n"})
    repo.commit("one again", {"core.c": "1\n"})
    one, two, again = history(repo).range("main~2..main").line
    assert one.fingerprint == again.fingerprint != two.fingerprint


def test_a_side_branch_starts_where_it_forked(repo: MiniRepo) -> None:
    """Its line is contiguous, a merge of the main line into it included."""
    shas = forked(repo)
    under_test = history(repo)
    side = under_test.side_branch(under_test.commit("main~1"))
    assert [c.sha for c in side] == [shas[name] for name in ("base", "side1", "sync", "side2")]
    assert [c.fingerprint for c in side] == [from_scratch(under_test, c.sha) for c in side]


def test_a_commit_with_one_parent_has_no_side_branch(repo: MiniRepo) -> None:
    """Asking for one is a fault of the request."""
    forked(repo)
    under_test = history(repo)
    with pytest.raises(UsageError, match="not a merge"):
        under_test.side_branch(under_test.commit("main"))


def test_an_unrelated_history_merged_in_has_no_line(repo: MiniRepo) -> None:
    """There is no baseline to compare its first commit with."""
    repo.commit("one", {"a": "1"})
    repo.git("checkout", "-q", "--orphan", "island")
    repo.commit("island", {"b": "1"})
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--allow-unrelated-histories", "-m", "m", "island")
    under_test = history(repo)
    assert under_test.side_branch(under_test.commit("main")) == ()


def test_ends_may_be_any_name(repo: MiniRepo) -> None:
    """Tags (annotated ones too), branches, short names, and HEAD where nothing is written."""
    shas = forked(repo)
    repo.git("tag", "light", shas["base"])
    repo.git("tag", "-a", "-m", "x", "v1.0", shas["base"])
    under_test = history(repo)
    for spec in ("light..main", "v1.0..", f"{shas['base'][:8]}..HEAD", "main~4..@"):
        found = under_test.range(spec)
        assert (found.baseline.sha, found.tip.sha) == (shas["base"], shas["tip"]), spec


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("main", "names one commit: write a range, FROM..TO"),
        ("main..main", "holds one commit"),
        ("main..", "holds one commit"),
        ("main..main~2", r"reversed: FROM comes first, write main~2\.\.main"),
        ("nothing..main", "no commit is named 'nothing'"),
        ("main..feedbeef", "no commit is named 'feedbeef'"),
        ("..main~1", r"reversed: FROM comes first, write main~1\.\.HEAD"),
        ("main~1...main", "three dots"),
        ("--output=x..main", "looks like an option"),
        ("main~1..-x", "looks like an option"),
        ("main:lib..main", "no commit is named 'main:lib'"),
        ("^main..main~1", r"no commit is named '\^main'"),
        ("main~3..main~1^2~2", "they part at BASE, write BASE..main"),
        ("main~1^2..main", r"came into TO by a merge .* which FROM holds: ONE\.\.main"),
        ("main~4..main~4", "holds one commit"),
    ],
)
def test_a_range_that_cannot_be_searched_is_one_clear_line(
    repo: MiniRepo, spec: str, says: str
) -> None:
    """Each says what to write instead."""
    shas = forked(repo)
    says = says.replace("BASE", shas["base"][:10]).replace("ONE", shas["one"][:10])
    with pytest.raises(UsageError, match=says) as caught:
        history(repo).range(spec)
    assert "\n" not in str(caught.value)


def test_histories_that_share_nothing_are_told(repo: MiniRepo) -> None:
    """No merge base can be named."""
    repo.commit("one", {"a": "1"})
    repo.git("checkout", "-q", "--orphan", "island")
    repo.commit("island", {"b": "1"})
    with pytest.raises(UsageError, match="share no history"):
        history(repo).range("main..island")


def test_an_ambiguous_short_name_is_told(repo: MiniRepo) -> None:
    """More digits are asked for."""
    who = "committer x <x@example.org>"
    stream = "".join(
        f"commit refs/heads/main\n{who} {1_500_000_000 + n} +0000\ndata 1\nx\n" for n in range(800)
    )
    repo.git("fast-import", "--quiet", data=stream.encode())
    prefixes = Counter(sha[:4] for sha in repo.git("rev-list", "main").split())
    [(twice, count)] = prefixes.most_common(1)
    assert count > 1
    with pytest.raises(UsageError, match="give more digits"):
        history(repo).range(f"{twice}..main")


def test_a_directory_without_git_is_told(tmp_path: Path) -> None:
    """And so is one that does not exist."""
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError, match="is not a git repository"):
            GitHistory(path, CLASSES)


def test_a_shallow_clone_is_told(repo: MiniRepo, tmp_path: Path) -> None:
    """The way to get the rest is named."""
    base = forked(repo)["base"]
    subprocess.run(
        ["git", "clone", "-q", "--depth=2", repo.path.as_uri(), "shallow"], cwd=tmp_path, check=True
    )
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        GitHistory(tmp_path / "shallow", CLASSES).range(f"{base}..HEAD")


def test_a_bare_mirror_serves_as_well(repo: MiniRepo, tmp_path: Path) -> None:
    """This is what asv makes of a remote repository."""
    forked(repo)
    subprocess.run(["git", "clone", "-q", "--mirror", repo.path, "m.git"], cwd=tmp_path, check=True)
    mirror = GitHistory(tmp_path / "m.git", CLASSES)
    assert mirror.range("main~4..main") == history(repo).range("main~4..main")


def test_the_users_configuration_changes_nothing(
    repo: MiniRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a GIT_DIR that points elsewhere."""
    forked(repo)
    repo.commit("renamed", {"lib/ä b.py": "2\n", "lib/a.py": None})
    expected = history(repo).range("main~4..main")
    (tmp_path / "order").write_text("*.md\n")
    settings = {
        "log.showSignature": "true",
        "log.decorate": "full",
        "log.date": "relative",
        "log.follow": "true",
        "log.diffMerges": "combined",
        "log.showRoot": "false",
        "color.ui": "always",
        "core.quotePath": "true",
        "core.abbrev": "4",
        "diff.renames": "copies",
        "diff.noprefix": "true",
        "diff.orderFile": str(tmp_path / "missing"),
        "diff.ignoreSubmodules": "all",
        "diff.external": "false",
        "format.pretty": "oneline",
        "i18n.logOutputEncoding": "latin1",
        "core.pager": "false",
    }
    for name, value in settings.items():
        repo.git("config", name, value)
    elsewhere = MiniRepo(tmp_path / "elsewhere")
    elsewhere.commit("other", {"x": "x"})
    monkeypatch.setenv("GIT_DIR", str(elsewhere.path / ".git"))
    assert history(repo).range("main~4..main") == expected
    assert expected.tip.paths == ("lib/a.py", "lib/ä b.py")


def test_commit_text_of_any_bytes_can_be_read(repo: MiniRepo) -> None:
    """Authors and subjects in broken or foreign encodings are text that can be stored as UTF-8."""
    repo.commit("one", {"a": "1"})
    tree = repo.git("rev-parse", "HEAD^{tree}")
    raw = (
        f"tree {tree}\nparent {repo.git('rev-parse', 'HEAD')}\n".encode()
        + b"author B\xe4rbel \xff\xfe <b@example.org> 1500000000 +0000\n"
        + b"committer x <x@example.org> 1500009999 +0000\n\n"
        + b"broken \xe4\xff :100644 \x01 subject\n\nbody\n"
    )
    sha = repo.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", data=raw)
    repo.git("update-ref", "refs/heads/main", sha)
    tip = history(repo).range("main~1..main").tip
    assert tip.date_seconds == 1500009999
    assert "rbel" in tip.author
    assert "subject" in tip.subject
    (tip.author + tip.subject).encode("utf-8")


def test_a_file_name_of_any_bytes_is_kept_exactly(repo: MiniRepo) -> None:
    """Files can be laid under their own names, while a commit's paths can be stored as UTF-8."""
    repo.commit("one", {"a": "1"})
    name = b"lib/\xff\n.py"
    blob = repo.git("hash-object", "-w", "--stdin", data=b"x = 1\n")
    repo.git(
        "update-index", "-z", "--index-info", data=b"100644 " + blob.encode() + b"\t" + name + b"\0"
    )
    repo.git("commit", "-q", "-m", "odd name")
    under_test = history(repo)
    tip = under_test.range("main~1..main").tip
    [path] = tip.paths
    path.encode("utf-8")
    assert [f.path.encode("utf-8", "surrogateescape") for f in under_test.files(tip.sha)] == [
        b"a",
        name,
    ]
    assert tip.path_class is PathClass.PYTHON


def test_contents_are_the_blobs_bytes(repo: MiniRepo) -> None:
    """Many, large, empty and binary ones, in one go."""
    files = {f"lib/{n}.py": bytes([n % 256]) * (n * 997) for n in range(300)}
    sha = repo.commit("many", files)
    under_test = history(repo)
    listed = {file.path: file.blob for file in under_test.files(sha)}
    contents = dict(under_test.contents(listed.values()))
    assert {path: contents[blob] for path, blob in listed.items()} == files


def test_a_missing_object_is_told(repo: MiniRepo) -> None:
    """By contents as by a range, and never as a traceback of ours."""
    forked(repo)
    under_test = history(repo)
    with pytest.raises(EnvironmentFailure, match="is missing"):
        dict(under_test.contents(["f" * 40]))
    tree = repo.git("rev-parse", "main~2^{tree}")
    (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(EnvironmentFailure, match=r"git in .*: (fatal|error)"):
        under_test.range("main~4..main")


def test_a_machine_without_git_is_told(repo: MiniRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    forked(repo)
    under_test = history(repo)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentFailure, match="git was not found"):
        under_test.range("main~4..main")


def test_a_long_line_of_merges_keeps_its_order(repo: MiniRepo) -> None:
    """Every commit's first parent is the commit before it."""
    repo.commit("start", {"lib/a.py": "0"})
    for number in range(5):
        repo.git("checkout", "-q", "-b", f"b{number}")
        repo.commit(f"side {number}", {f"lib/{number}.py": "1"})
        repo.git("checkout", "-q", "main")
        repo.merge(f"b{number}", f"merge {number}")
    line: tuple[Commit, ...] = history(repo).range("main~5..main").line
    assert len(line) == 6
    assert all(child.parents[0] == parent.sha for parent, child in itertools.pairwise(line))
