from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.build import Ladder, Store, WheelSources
from bisectorch.errors import EnvironmentFailure, Unbuildable, UsageError
from bisectorch.history import GitHistory, PathClasses
from bisectorch.model import Build, Commit, Route
from minihistory import MiniRepo, make_wheel

CLASSES = PathClasses(python_only=("mini/**/*.py",), irrelevant=("docs/**",))
ONE, TWO = "def value():\n    return 1\n", "def value():\n    return 2\n"


class Shop:
    """A history with native files, and wheels of some of its commits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = MiniRepo(root / "repo")
        self.shas = {
            "first": self.repo.commit("first", {"setup.py": "x\n", "mini/__init__.py": ONE}),
            "python": self.repo.commit("python", {"mini/__init__.py": TWO}),
            "native": self.repo.commit("native", {"core.c": "int x;\n"}),
        }
        self.history = GitHistory(self.repo.path, CLASSES)
        self.store = Store(root / "store")
        self.said: list[str] = []

    def commit(self, label: str) -> Commit:
        """A commit by its label."""
        return self.history.commit(self.shas[label])

    def wheel(self, label: str, folder: str, version: str = "1.0", says: str | None = None) -> Path:
        """The wheel of a commit, or of what it says it is."""
        sha = self.shas[label] if says is None else says
        code = TWO if label != "first" else ONE
        files = {
            "mini/__init__.py": code,
            "mini/version.py": f"__version__ = '{version}'\ngit_version: str = '{sha}'\n",
        }
        return make_wheel(self.root / folder, "mini", version, files)

    def ladder(self, **changes: object) -> Ladder:
        """A new session's ladder, with wheels from the folder ``wheels`` by default."""
        sources = WheelSources("mini", pip_args=("--no-index",), releases=False)
        sources = replace(sources, **changes)  # type: ignore[arg-type]
        return Ladder(
            self.history,
            self.store,
            sys.executable,
            {},
            None,
            CLASSES.is_python,
            self.said.append,
            wheels=sources,
            tags_of=self.history.tags,
        )


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """No wheels yet."""
    return Shop(tmp_path)


def value(build: Build) -> int:
    """What a fresh process sees."""
    code = f"import sys; sys.path.insert(0, {build.tree!r}); import mini; print(mini.value())"
    command = [build.python, "-B", "-c", code]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def about(shop: Shop, build: Build) -> Mapping[str, object]:
    """What the stamp says."""
    found = shop.store.about(build.key)
    assert found
    return found


def test_a_folder_of_wheels_serves_the_commits_they_record(shop: Shop) -> None:
    """And those of the same native fingerprint, by an overlay; others have no route."""
    path = shop.wheel("first", "wheels")
    ladder = shop.ladder(folders=(path.parent,))
    assert ladder.quote(shop.commit("first")).route is Route.WHEEL
    assert ladder.quote(shop.commit("native")).seconds == 0.0
    first, python = (ladder.provide(shop.commit(label)) for label in ("first", "python"))
    assert (first.route, value(first)) == (Route.WHEEL, 1)
    assert (python.route, value(python)) == (Route.OVERLAY, 2)
    assert about(shop, first)["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(Unbuildable, match="no wheel of its own"):
        ladder.provide(shop.commit("native"))


def test_a_wheel_of_another_commit_serves_its_fingerprint_first(shop: Shop) -> None:
    """The wheel need not be of the commit that is asked for first, once the other was met."""
    ladder = shop.ladder(folders=(shop.wheel("first", "wheels").parent,))
    ladder.quote(shop.commit("first"))
    build = ladder.provide(shop.commit("python"))
    assert (build.route, value(build)) == (Route.OVERLAY, 2)


@pytest.mark.parametrize("tag", ["cp39-cp39-win_amd64", "cp27-cp27mu-manylinux1_x86_64"])
def test_a_wheel_for_another_platform_is_not_offered(shop: Shop, tag: str) -> None:
    """Nor one for another Python, nor of another project, nor one that records nothing."""
    path = shop.wheel("first", "wheels")
    path.rename(path.with_name(f"mini-1.0-{tag}.whl"))
    make_wheel(path.parent, "other", "1.0", {"mini/version.py": f"git_version = '{'a' * 40}'\n"})
    make_wheel(path.parent, "mini", "2.0", {"mini/version.py": "git_version = 'Unknown'\n"})
    (path.parent / "mini-3.0-py3-none-any.whl").write_bytes(b"not a wheel")
    ladder = shop.ladder(folders=(path.parent,))
    for label in shop.shas:
        with pytest.raises(Unbuildable, match="no wheel of its own"):
            ladder.provide(shop.commit(label))


def table(shop: Shop, *entries: Mapping[str, str]) -> str:
    """A table of wheels."""
    path = shop.root / "table.json"
    path.write_text(json.dumps({"wheels": entries}))
    return str(path)


def test_a_table_is_believed_only_so_far(shop: Shop) -> None:
    """It decides what is quoted; the wheel's own record decides what is used."""
    right = shop.wheel("first", "right").as_uri()
    wrong = shop.wheel("python", "wrong", says=shop.shas["first"]).as_uri()
    listed = table(
        shop,
        {"commit": shop.shas["first"], "url": right},
        {"commit": shop.shas["native"], "url": wrong},
    )
    ladder = shop.ladder(table=listed)
    assert ladder.quote(shop.commit("native")).route is Route.WHEEL
    assert value(ladder.provide(shop.commit("first"))) == 1
    with pytest.raises(Unbuildable, match="no wheel of its own"):
        ladder.provide(shop.commit("native"))
    assert any(f"records {shop.shas['first'][:10]}, not" in line for line in shop.said)
    again = shop.ladder(table=listed)
    assert again.quote(shop.commit("native")).seconds == 0.0, "it is remembered"


def test_a_wheel_that_was_tampered_with_is_refused(shop: Shop) -> None:
    """By the table's checksum, and nothing of it is kept."""
    path = shop.wheel("first", "wheels")
    entry = {"commit": shop.shas["first"], "url": path.as_uri(), "sha256": "0" * 64}
    with pytest.raises(EnvironmentFailure, match="is not the one that the table means"):
        shop.ladder(table=table(shop, entry)).provide(shop.commit("first"))
    assert not list((shop.root / "store" / "trees").glob("*/*"))
    entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    assert shop.ladder(table=table(shop, entry)).provide(shop.commit("first"))


def test_a_release_is_found_by_its_tag(shop: Shop) -> None:
    """Through pip; final releases only, annotated tags too."""
    shop.repo.git("tag", "-a", "-m", "x", "v1.0", shop.shas["first"])
    shop.repo.git("tag", "v2.0", shop.shas["native"])
    shop.repo.git("tag", "v1.5-rc1", shop.shas["python"])
    folder = shop.wheel("first", "index").parent
    pip = ("--no-index", "--find-links", str(folder))
    ladder = shop.ladder(releases=True, pip_args=pip)
    build = ladder.provide(shop.commit("first"))
    assert (build.route, value(build)) == (Route.WHEEL, 1)
    with pytest.raises(Unbuildable, match="no wheel of its own"):
        ladder.provide(shop.commit("native"))
    assert any("No matching distribution" in line for line in shop.said)


def test_what_cannot_be_told_from_a_wheel_is_not_guessed(shop: Shop) -> None:
    """A new package: nothing says whether it would be installed."""
    ladder = shop.ladder(folders=(shop.wheel("first", "wheels").parent,))
    ladder.provide(shop.commit("first"))
    shop.repo.git("checkout", "-q", shop.shas["python"])
    shop.shas["new"] = shop.repo.commit("new", {"mini/sub/__init__.py": ""})
    with pytest.raises(Unbuildable, match="cannot be told from the wheel"):
        ladder.provide(shop.commit("new"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"folders": (Path("/no/such/folder"),)}, "folder of wheels /no/such/folder does not"),
        ({"table": "/no/such/table"}, "table of wheels /no/such/table cannot be read"),
        ({"table": __file__}, "is not understood: write"),
    ],
)
def test_sources_that_are_none_are_told(shop: Shop, changes: dict[str, object], says: str) -> None:
    """In one line."""
    with pytest.raises(UsageError, match=says):
        shop.ladder(**changes).provide(shop.commit("first"))


def test_a_table_that_does_not_answer_is_told(shop: Shop) -> None:
    """A fault of the network, not of a commit."""
    with pytest.raises(EnvironmentFailure, match="does not answer"):
        shop.ladder(table="http://127.0.0.1:9/table.json").provide(shop.commit("first"))
