"""The replay's directory and history, read back by git; nothing here is timed."""

import ast
import fnmatch
import json
import os
import subprocess

import pytest
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.replay import story, write_replay
from bisectorch.replay.repository import nodes


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """One replay, written once."""
    directory = tmp_path_factory.mktemp("replay") / "new" / "demo"
    write_replay(directory)
    return directory


def git(directory, *arguments):
    """What git says about the replay's repository."""
    return subprocess.run(
        ["git", "-C", str(directory / "repo"), *arguments],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.fixture(scope="module")
def shas(replay):
    """Label -> object name, found by the subjects, which are all different."""
    subjects = dict(
        reversed(row.split(" ", 1)) for row in git(replay, "log", "--format=%H %s").splitlines()
    )
    steps = [node.step for node in nodes(story.LINE)]
    assert len(subjects) == len(steps) == len({step.subject for step in steps})
    return {step.label: subjects[step.subject] for step in steps}


def files(replay, sha):
    """Path -> text of every file of a commit."""
    return {
        path: git(replay, "show", f"{sha}:{path}")
        for path in git(replay, "ls-tree", "-r", "--name-only", sha).splitlines()
    }


def test_the_line_has_about_sixty_commits(replay, shas):
    """Oldest first along first parents, as the story tells it, on a clean branch main."""
    line = git(replay, "rev-list", "--first-parent", "--reverse", "main").splitlines()
    assert line == [shas[step.label] for step in story.LINE]
    assert 55 <= len(line) <= 65
    assert git(replay, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert git(replay, "status", "--porcelain") == ""
    assert git(replay, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    git(replay, "fsck", "--strict")


def test_every_file_is_python_or_irrelevant(replay, shas):
    """No commit has a native input, so every one is an overlay of the one wheel."""
    classes = json.loads((replay / "asv.conf.json").read_text())["bisectorch"]["classes"]
    every = git(replay, "log", "--first-parent", "-m", "--name-only", "--format=").split()
    globs = [*classes["irrelevant"], *(g.replace("**/", "**") for g in classes["python_only"])]
    assert all(any(fnmatch.fnmatch(path, glob) for glob in globs) for path in every)


def test_exactly_the_broken_commits_cannot_be_imported(shas):
    """Three: a missing module and two syntax errors; two of them just before a culprit."""

    def breaks(tree):
        modules = {path for path in tree if path.startswith("torch/") and path.endswith(".py")}
        try:
            parsed = [(path, ast.parse(tree[path])) for path in modules]
        except SyntaxError:
            return True
        for path, module in parsed:
            for item in ast.walk(module):
                if isinstance(item, ast.ImportFrom) and item.module:
                    package = path.rsplit("/", item.level)[0] + "/" if item.level else ""
                    name = package + item.module.replace(".", "/")
                    for imported in item.names:
                        ours = "/_functions/" in name
                        as_module = f"{name}/{imported.name}.py" in modules
                        if ours and not as_module and not defines(tree, name, imported.name):
                            return True
        return False

    def defines(tree, name, wanted):
        found = ast.parse(tree.get(f"{name}.py", "")).body
        return any(getattr(item, "name", None) == wanted for item in found)

    broken = [n.step.label for n in nodes(story.LINE) if breaks(n.tree)]
    assert tuple(broken) == story.BROKEN
    labels = [step.label for step in story.LINE]
    culprit = labels.index("matmul")
    assert labels[culprit - 2 : culprit] == list(story.BROKEN[:2])


def test_the_merge_brings_in_its_side_branch(replay, shas):
    """Two parents; the branch has three commits, one of them the relevant change."""
    merge = shas["merge"]
    assert git(replay, "rev-list", "--merges", "main").splitlines() == [merge]
    first, second = git(replay, "show", "-s", "--format=%P", merge).split()
    brought = git(replay, "rev-list", "--reverse", f"{first}..{second}").splitlines()
    assert brought == [shas[step.label] for step in story.SIDE]
    assert git(replay, "merge-base", first, second) == shas["mend"]
    assert shas["side-fuse"] in brought
    changed = git(replay, "diff", "--name-only", first, merge).splitlines()
    assert changed == git(replay, "diff", "--name-only", shas["mend"], second).splitlines()


def test_the_revert_restores_what_was_before(replay, shas):
    """The cancelling pair, a handful of commits apart."""
    functions = "torch/nn/_functions"
    restored = git(replay, "rev-parse", f"{shas['revert']}:{functions}")
    assert restored == git(replay, "rev-parse", f"{shas['contiguous']}~1:{functions}")
    assert restored != git(replay, "rev-parse", f"{shas['contiguous']}:{functions}")
    between = git(replay, "rev-list", "--count", f"{shas['contiguous']}..{shas['revert']}")
    assert 4 <= int(between) <= 12


def test_the_last_tree_is_as_fast_as_the_first(replay, shas):
    """The compiled call is back, and no Python function is left behind."""
    last = files(replay, "main")
    assert "return F.linear(input, self.weight, self.bias)" in last[story.LINEAR]
    assert not [path for path in last if "_functions" in path]


def test_expected_names_the_truth(replay, shas):
    """Every truth is a commit of the range, in order, with its merge; the regressions are named."""
    expected = json.loads((replay / "expected.json").read_text())
    first, last = expected["range"].split("..")
    assert (first, last) == (shas["base"], git(replay, "rev-parse", "main"))
    in_range = git(replay, "rev-list", "--reverse", "--topo-order", f"{first}..{last}").splitlines()
    for truths in expected["workloads"].values():
        positions = [in_range.index(truth["commit"]) for truth in truths]
        assert positions == sorted(positions)
        assert all(truth["kind"] in {"regression", "improvement"} for truth in truths)
    regressions = {
        git(replay, "show", "-s", "--format=%s", truth["commit"])
        for truth in expected["workloads"]["linear.Linear.time_forward_backward_input(10, 100)"]
        if truth["kind"] == "regression"
    }
    assert regressions >= {
        "added twice differentiation for a bunch of ops",
        "Use torch.matmul in nn.Linear",
    }
    merged = [t for ts in expected["workloads"].values() for t in ts if t["merge"]]
    assert {(t["commit"], t["merge"]) for t in merged} == {(shas["side-fuse"], shas["merge"])}


def test_the_null_range_holds_no_truth(replay, shas):
    """Documentation, tests and modules that no workload runs, and what nothing can see."""
    expected = json.loads((replay / "expected.json").read_text())
    null = git(replay, "rev-list", "--first-parent", expected["null_range"]).splitlines()
    assert 8 <= len(null) <= 12
    truths = {t["commit"] for ts in expected["workloads"].values() for t in ts}
    assert not truths & set(null)
    assert not {shas[label] for label in story.BROKEN} & set(null)


def test_only_truths_change_what_a_workload_executes():
    """Elsewhere Linear, what it is filled by and its functions stay what they are, but for words.

    So no effect needs to be measured there: it is nothing by construction.
    """
    shown = set(story.TRUTHS) | {"merge", *story.BROKEN}
    written = {node.step.label: node for node in nodes(story.LINE)}
    for label, node in written.items():
        if not node.parents:
            continue
        parent = node.parents[0]
        # After broken commits, the next one that can be imported is compared with what was before.
        while parent in story.BROKEN:
            parent = written[parent].parents[0]
        changed = executed(node.tree) != executed(written[parent].tree)
        assert label in story.BROKEN or changed == (label in shown), label


def executed(tree):
    """The syntax that the Linear workloads run: without docstrings and representations."""
    told = {}
    for path, text in tree.items():
        if path == story.LINEAR or path.startswith(story.FUNCTIONS):
            try:
                module = ast.parse(text)
            except SyntaxError:
                told[path] = text
                continue
            told[path] = [ast.dump(item) for item in bare(module).body]
            if path == story.LINEAR:
                kept = [i for i in module.body if getattr(i, "name", "") in {"Linear", "_fill"}]
                told[path] = [ast.dump(item) for item in kept]
    return told


def bare(module):
    """The module without docstrings and without what only a reader sees."""
    for item in ast.walk(module):
        body = getattr(item, "body", None)
        if isinstance(item, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = body[0] if body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                body = body[1:]
            item.body = [part for part in body if getattr(part, "name", "") != "extra_repr"]
    return module


def test_the_same_object_names_under_a_hostile_configuration(tmp_path, monkeypatch, replay):
    """Neither the user's git configuration nor inherited variables enter the history."""
    home = tmp_path / "home"
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    (home / ".gitconfig").write_text(
        f"[user]\n name = X\n[core]\n autocrlf = true\n hooksPath = {hooks}\n"
        "[init]\n defaultBranch = trunk\n defaultObjectFormat = sha256\n"
        "[commit]\n gpgSign = true\n[i18n]\n commitEncoding = latin1\n"
    )
    (hooks / "post-checkout").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "post-checkout").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "1 +0100")
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    write_replay(tmp_path / "other")
    for name in ("GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert git(tmp_path / "other", "rev-parse", "main") == git(replay, "rev-parse", "main")
    assert git(tmp_path / "other", "status", "--porcelain") == ""
    assert (tmp_path / "other" / "expected.json").read_text() == (
        replay / "expected.json"
    ).read_text()


def test_writing_again_keeps_results_and_mends_the_rest(tmp_path):
    """An existing replay is brought up to date; what was measured stays."""
    write_replay(tmp_path, python="3.10")
    kept = [tmp_path / name / "x" for name in ("results", "sessions", "html", "env")]
    for path in kept:
        path.parent.mkdir()
        path.write_text("kept")
    head = (tmp_path / "repo" / ".git" / "HEAD").stat().st_ino
    (tmp_path / "expected.json").unlink()
    write_replay(tmp_path, requirement="torch==9.9", index_url="https://example.org/simple")
    assert all(path.read_text() == "kept" for path in kept)
    assert (tmp_path / "repo" / ".git" / "HEAD").stat().st_ino == head
    assert (tmp_path / "expected.json").exists()
    configuration = json.loads((tmp_path / "asv.conf.json").read_text())
    assert configuration["bisectorch"]["base_wheel"] == {
        "requirement": "torch==9.9",
        "with": ["numpy"],
        "index_url": "https://example.org/simple",
    }
    before = git(tmp_path, "rev-parse", "main")
    git(tmp_path, "update-ref", "refs/heads/main", f"{before}~3")
    write_replay(tmp_path)
    assert git(tmp_path, "rev-parse", "main") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "asv.conf.json",
        "benchmarks",
        "env",
        "expected.json",
        "html",
        "repo",
        "results",
        "sessions",
    ]


def test_the_configuration_is_what_asv_needs(tmp_path):
    """asv's own keys, our section, the interpreter asked for."""
    write_replay(tmp_path, python="3.12")
    configuration = json.loads((tmp_path / "asv.conf.json").read_text())
    assert configuration["pythons"] == ["3.12"]
    assert configuration["environment_type"] == "bisectorch"
    assert configuration["plugins"] == [".bisectorch.asv_plugin"]
    assert configuration["matrix"] == {"env_nobuild": {"OMP_NUM_THREADS": ["1"]}}
    for key, kind in {"repo": "repo/.git", "benchmark_dir": "benchmarks/linear.py"}.items():
        assert (tmp_path / kind).exists(), key


@pytest.mark.parametrize(
    "content", [{"file": "x"}, {"asv.conf.json": "{}"}, {"asv.conf.json": "["}]
)
def test_another_directory_is_refused(tmp_path, content):
    """Nobody's files are written over."""
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match="name another directory"):
        write_replay(tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == content


def test_a_file_is_refused(tmp_path):
    """A directory is wanted."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_replay(tmp_path / "file")


def test_without_git(tmp_path, monkeypatch):
    """One line says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="install git"):
        write_replay(tmp_path / "replay")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written(tmp_path):
    """The disk's refusal is one line."""
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentFailure, match="cannot write the replay"):
        write_replay(tmp_path / "replay")


def test_a_name_below_a_file(tmp_path):
    """So is a path that cannot exist."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="cannot write the replay"):
        write_replay(tmp_path / "file" / "replay")
