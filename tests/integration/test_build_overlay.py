from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from bisectorch.build import overlay
from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.model import TreeFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from minihistory import WHEEL_FILES

DATE = 1_500_000_000


def write(root: Path, files: Mapping[str, str]) -> None:
    """These files, as a wheel would have installed them."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (DATE - 999, DATE - 999))


def compile_all(root: Path) -> None:
    """Compile every module beneath."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", root], check=False)


def snapshot(root: Path, *, compiled: bool = False) -> dict[str, bytes]:
    """Every file beneath, links followed, by path."""
    return {
        os.path.relpath(os.path.join(where, name), root): Path(where, name).read_bytes()  # noqa: PTH118
        for where, _, names in os.walk(root, followlinks=True)
        for name in names
        if compiled or not name.endswith(".pyc")
    }


def lay(
    base: Path,
    tree: Path,
    files: Mapping[str, str | bytes],
    removed: Collection[str] = (),
    mode: str = "100644",
    python: str = sys.executable,
) -> None:
    """Lay texts over a base."""
    tree.mkdir(parents=True)
    listed = [TreeFile(path, mode, f"blob of {path}") for path in files]
    contents = {
        f"blob of {path}": text.encode() if isinstance(text, str) else text
        for path, text in files.items()
    }
    overlay.lay(base, tree, listed, contents, python=python, date_seconds=DATE, removed=removed)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """An installed, compiled tree."""
    root = tmp_path / "base"
    write(root, WHEEL_FILES)
    compile_all(root)
    return root


LAID = {
    "mini/nn/linear.py": "def value():\n    return 7\n",
    "mini/new/deep/module.py": "X = 1\n",
    "mini/new/__init__.py": "",
    "top.py": "Y = 2\n",
}


def test_it_is_a_full_copy_with_the_commits_files(base: Path, tmp_path: Path) -> None:
    """File by file, links followed: what a copy with replaced and removed files holds."""
    before = snapshot(base, compiled=True)
    removed = ["mini/nn/conv.py", "mini/ops.py", "other/__init__.py", "mini/never/was.py"]
    lay(base, tmp_path / "tree", LAID, removed)

    copy = tmp_path / "copy"
    shutil.copytree(base, copy)
    write(copy, LAID)
    for path in removed:
        (copy / path).unlink(missing_ok=True)
    shutil.rmtree(copy / "other")
    assert snapshot(tmp_path / "tree") == snapshot(copy)
    assert snapshot(base, compiled=True) == before, "the base was written through a link"


def test_what_is_compiled_is_what_its_source_says(base: Path, tmp_path: Path) -> None:
    """No compiled file outlives its source, each laid module has one, the others are linked."""
    tree = tmp_path / "tree"
    lay(base, tree, LAID, ["mini/nn/conv.py"])
    cache = tree / "mini/nn/__pycache__"
    tag = sys.implementation.cache_tag
    assert sorted(path.name for path in cache.iterdir()) == [
        f"__init__.{tag}.pyc",
        f"linear.{tag}.pyc",
    ]
    assert (cache / f"__init__.{tag}.pyc").is_symlink()
    assert not (cache / f"linear.{tag}.pyc").is_symlink()
    assert (tree / "mini/new/deep/__pycache__" / f"module.{tag}.pyc").is_file()
    ask = "import mini, mini.nn.linear as m, mini.nn as n; print(m.value(), m.__cached__)"
    done = subprocess.run(
        [sys.executable, "-v", "-c", ask],
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["7", str(cache / f"linear.{tag}.pyc")]
    matched = [line for line in done.stderr.splitlines() if " matches " in line]
    assert sum("/mini/" in line for line in matched) == 3, "all three came compiled"


def test_only_the_way_to_a_laid_file_is_real(base: Path, tmp_path: Path) -> None:
    """Beside it everything is a link, whole directories too."""
    tree = tmp_path / "tree"
    lay(base, tree, {"mini/ops.py": "FACTOR = 2\n"})
    assert not (tree / "mini").is_symlink()
    assert not (tree / "mini/ops.py").is_symlink()
    for name in ("other", "mini/nn", "mini/native", "mini/__init__.py"):
        assert (tree / name).is_symlink(), name


def test_links_outlive_a_move_of_both(base: Path, tmp_path: Path) -> None:
    """They are relative, so a store can be moved as a whole."""
    lay(base, tmp_path / "tree", LAID)
    before = snapshot(tmp_path / "tree")
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    assert snapshot(moved / "tree") == before
    moved.rename(tmp_path)


def test_equal_inputs_make_equal_trees(base: Path, tmp_path: Path) -> None:
    """Compiled files included: their header holds the commit's date, not today's."""
    lay(base, tmp_path / "a" / "tree", LAID)
    lay(base, tmp_path / "b" / "tree", LAID)
    laid = tmp_path / "a" / "tree" / "top.py"
    assert laid.stat().st_mtime == DATE
    for name in (f"__pycache__/top.{sys.implementation.cache_tag}.pyc", "top.py"):
        one, other = (tmp_path / where / "tree" / name for where in "ab")
        # The path that is compiled in differs in length only as the folders do.
        assert one.read_bytes().replace(b"/a/tree", b"/b/tree") == other.read_bytes()


def test_a_file_that_does_not_compile_is_laid_all_the_same(base: Path, tmp_path: Path) -> None:
    """Whether that matters is for the import to say; the others are compiled."""
    tree = tmp_path / "tree"
    broken = {
        "mini/nn/linear.py": "def value(:\n",
        "mini/nul.py": b"x = 1\0",
        "mini/latin.py": b"x = '\xff'\n",
        "mini/deep.py": "(" * 5000 + ")" * 5000,
        "mini/good.py": "X = 1\n",
    }
    lay(base, tree, broken)
    assert (tree / "mini/nn/linear.py").read_text() == "def value(:\n"
    compiled = {path.name.split(".")[0] for path in tree.glob("mini/**/__pycache__/*.pyc")}
    assert "good" in compiled
    assert not {"linear", "nul", "latin", "deep"} & compiled


def test_kinds_of_files_are_kept(base: Path, tmp_path: Path) -> None:
    """Executable files can be executed, links are links; a file may take a directory's place."""
    lay(base, tmp_path / "x", {"mini/tool.py": "X = 1\n"}, mode="100755")
    assert os.access(tmp_path / "x/mini/tool.py", os.X_OK)
    lay(base, tmp_path / "l", {"mini/alias.py": "ops.py"}, mode="120000")
    assert (tmp_path / "l/mini/alias.py").readlink() == Path("ops.py")
    lay(base, tmp_path / "f", {"mini/nn": "now a file\n"})
    assert (tmp_path / "f/mini/nn").read_text() == "now a file\n"
    assert (base / "mini/nn/linear.py").is_file()
    lay(base, tmp_path / "d", {"mini/ops.py/inner.py": "Z = 1\n"})
    assert (tmp_path / "d/mini/ops.py/inner.py").is_file()
    assert (base / "mini/ops.py").is_file()


@pytest.mark.parametrize("path", ["../x.py", "/etc/x.py", "a//b.py", "a/./b.py", "a/../../b.py"])
def test_a_path_that_leaves_the_tree_is_refused(base: Path, tmp_path: Path, path: str) -> None:
    """That commit cannot be built; nothing is written outside."""
    with pytest.raises(Unbuildable, match="leaves its tree"):
        lay(base, tmp_path / "in" / "tree", {path: "X = 1\n"})
    assert [entry.name for entry in (tmp_path / "in").iterdir()] == ["tree"]


def test_an_interpreter_that_cannot_be_run_is_told(base: Path, tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(EnvironmentFailure, match="cannot run /no/python"):
        lay(base, tmp_path / "tree", LAID, python="/no/python")


NAME = st.sampled_from(["a", "b", "__init__.py", "m.py", "n.py", "data.txt"])
FILES = st.dictionaries(
    st.lists(NAME, min_size=1, max_size=4).map("/".join), st.sampled_from(["X = 1\n", "Y = 2\n"])
)


def without_clashes(files: dict[str, str]) -> dict[str, str]:
    """No path may be both a file and a directory, as in git."""
    return {
        path: text
        for path, text in files.items()
        if not any(other.startswith(f"{path}/") for other in files)
    }


@given(FILES.map(without_clashes), FILES.map(without_clashes), st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_it_is_exact_for_any_trees(
    tmp_path_factory: pytest.TempPathFactory,
    installed: dict[str, str],
    laid: dict[str, str],
    data: st.DataObject,
) -> None:
    """Any base, any files, any of the base's removed: the same as editing a copy."""
    both = {**installed, **laid}
    laid = {path: text for path, text in laid.items() if path in without_clashes(both)}
    installed = {path: text for path, text in installed.items() if path in without_clashes(both)}
    removed = data.draw(st.sets(st.sampled_from(sorted(installed)))) if installed else set()
    root = tmp_path_factory.mktemp("any")
    (root / "base").mkdir()
    write(root / "base", installed)
    lay(root / "base", root / "tree", laid, removed)
    expected = {path: text.encode() for path, text in {**installed, **laid}.items()}
    for path in removed - set(laid):
        del expected[path]
    assert snapshot(root / "tree") == expected
    for directory, _, _ in os.walk(root / "tree"):
        inside = os.path.relpath(directory, root / "tree")
        if inside != "." and not inside.endswith("__pycache__"):
            assert any(path.startswith(f"{inside}/") for path in expected), "an empty directory"
