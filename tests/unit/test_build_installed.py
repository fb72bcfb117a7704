from __future__ import annotations

from pathlib import Path

from bisectorch.build.installed import Manifest, difference, where_installed
from bisectorch.build.packages import PackageRule
from bisectorch.model import TreeFile
from hypothesis import given
from hypothesis import strategies as st

Tree = dict[str, str]

NAME = st.sampled_from(["__init__.py", "a.py", "b.py", "data.txt"])
FOLDER = st.lists(st.sampled_from(["pkg", "sub", "tests"]), max_size=3)
PATH = st.builds(lambda folder, name: "/".join([*folder, name]), FOLDER, NAME)
TREE = st.dictionaries(PATH, st.sampled_from(["1", "2"]), max_size=12)
RULE = st.builds(
    PackageRule,
    st.sampled_from([("*",), ("pkg*",)]),
    st.sampled_from([(), ("tests",), ("*.tests", "*.tests.*"), ("pkg.sub",)]),
)


def installation(tree: Tree, rule: PackageRule, root: str) -> Tree:
    """What setuptools would install of a tree: modules of the packages that the rule finds."""
    inside = {
        where: content
        for path, content in tree.items()
        if (where := where_installed(path, root)) is not None
    }
    inits = {path.rpartition("/")[0] for path in inside if path.endswith("/__init__.py")}
    return {
        path: content
        for path, content in inside.items()
        if path.endswith(".py") and "/" in path and rule.installs(path.rpartition("/")[0], inits)
    }


def files(tree: Tree) -> list[TreeFile]:
    """As the history lists them; a blob's name is its content."""
    return [TreeFile(path, "100644", content) for path, content in sorted(tree.items())]


def manifest(tree: Tree, rule: PackageRule | None, installed: Tree, root: str) -> Manifest:
    """What a build of the tree would remember."""
    there = {p: True for p in tree if where_installed(p, root) in installed}
    return Manifest("a" * 40, root, {file.path: file for file in files(tree)}, there, rule)


@given(TREE, TREE, RULE, st.sampled_from(["", "src"]))
def test_a_difference_makes_the_other_commits_installation(
    before: Tree, after: Tree, rule: PackageRule, root: str
) -> None:
    """Whenever it says one at all: applied to the one, it is the other, to the byte."""
    if root:
        before, after = ({f"src/{path}": c for path, c in t.items()} for t in (before, after))
    old, new = installation(before, rule, root), installation(after, rule, root)
    found = difference(manifest(before, rule, old, root), files(after))
    if found is None:
        return
    result = dict(old)
    for path in found.removed:
        del result[path]
    result.update({file.path: file.blob for file in found.laid})
    assert result == new


@given(TREE, RULE)
def test_the_same_files_differ_in_nothing(tree: Tree, rule: PackageRule) -> None:
    """Then the build is the commit's already."""
    found = difference(manifest(tree, rule, installation(tree, rule, ""), ""), files(tree))
    assert found
    assert found.is_empty


BASE = {"pkg/__init__.py": "1", "pkg/a.py": "1", "pkg/t/__init__.py": "1", "pkg/data.txt": "1"}


def listed(installed: Tree, after: Tree) -> object:
    """The difference where packages are listed, not found."""
    found = difference(manifest(BASE, None, installed, ""), files(after))
    return found and ([file.path for file in found.laid], list(found.removed))


def test_where_packages_are_listed_neighbours_tell() -> None:
    """A new file beside installed ones is installed, beside left-out ones not; else: unknown."""
    installed = {path: "1" for path in BASE if "/t/" not in path}
    assert listed(installed, {**BASE, "pkg/new.py": "1"}) == (["pkg/new.py"], [])
    assert listed(installed, {**BASE, "pkg/t/new.py": "1"}) == ([], [])
    assert listed(installed, {**BASE, "pkg/more.txt": "1"}) == (["pkg/more.txt"], [])
    assert listed(installed, {**BASE, "pkg/new/__init__.py": "1"}) is None
    assert listed(installed, {**BASE, "pkg/more.json": "1"}) is None
    assert listed(installed, {**BASE, "pkg/t/__init__.py": "2"}) == ([], [])
    without = {path: "1" for path in BASE if path != "pkg/a.py"}
    assert listed(installed, without) == ([], ["pkg/a.py"])


def test_a_file_that_the_build_rewrites_is_not_ours_to_lay() -> None:
    """Its installed bytes are not the commit's, so a change of it has to be built."""
    known = {file.path: file for file in files(BASE)}
    rewritten = Manifest("a" * 40, "", known, {"pkg/__init__.py": True, "pkg/a.py": False}, None)
    assert difference(rewritten, files({**BASE, "pkg/a.py": "2"})) is None
    assert difference(rewritten, files({**BASE, "pkg/__init__.py": "2"})) is not None


def test_a_rule_that_does_not_explain_what_is_known_is_not_believed() -> None:
    """The setup does more than the rule says; a new package is then unknown."""
    installed = {path: "1" for path in BASE if path.endswith(".py") and "/t/" not in path}
    after = {**BASE, "pkg/new/__init__.py": "1"}
    believed = manifest(BASE, PackageRule(exclude=("pkg.t",)), installed, "")
    assert difference(believed, files(after))
    assert difference(manifest(BASE, PackageRule(), installed, ""), files(after)) is None


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    """File names of any bytes included."""
    tree = {**BASE, "pkg/\udce9.py": "1"}
    for rule in (None, PackageRule(("a*",), ("b",))):
        wrote = manifest(tree, rule, {"pkg/a.py": "1"}, "")
        wrote.write(tmp_path / "manifest.json")
        assert Manifest.read(tmp_path / "manifest.json") == wrote
