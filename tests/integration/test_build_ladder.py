from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.build import BaseWheel, Ladder, Store
from bisectorch.errors import EnvironmentFailure, Unbuildable, UsageError
from bisectorch.history import GitHistory, PathClasses
from bisectorch.model import Build, Commit, Route, TreeFile
from minihistory import WHEEL_FILES, MiniRepo, make_wheel

CLASSES = PathClasses(python_only=("mini/**/*.py",), irrelevant=("docs/**", "*.md"))
PYTHON_ONLY_STEPS = ["start", "linear", "docs", "broken", "back", "native", "not native"]


class CountingTrees:
    """A history that counts what is asked of it."""

    def __init__(self, history: GitHistory) -> None:
        self._history = history
        self.listed: list[str] = []
        self.read: list[str] = []

    def files(self, sha: str) -> tuple[TreeFile, ...]:
        """As the history, counted."""
        self.listed.append(sha)
        return self._history.files(sha)

    def contents(self, blobs: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """As the history, counted."""
        blobs = list(blobs)
        self.read += blobs
        return self._history.contents(blobs)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the base wheel and one that goes along."""
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder)
    make_wheel(folder, "beside", "2.1", {"beside.py": "B = 1\n"})
    return folder


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> MiniRepo:
    """A history on top of that wheel, its commits named as PYTHON_ONLY_STEPS."""
    repo = MiniRepo(tmp_path_factory.mktemp("ladder") / "repo")
    repo.commit("start", {"README.md": "x\n"})
    repo.commit("linear", {"mini/nn/linear.py": "def value():\n    return 200\n"})
    repo.commit("docs", {"docs/x.md": "x\n"})
    repo.commit("broken", {"mini/nn/linear.py": "def value(:\n"})
    repo.commit("back", {"mini/nn/linear.py": "def value():\n    return 200\n"})
    repo.commit("native", {"mini/core.c": "int x;\n"})
    repo.commit(
        "not native", {"mini/core.c": None, "mini/nn/linear.py": None, "mini/m.py": "X = 1\n"}
    )
    return repo


class Bench:
    """One ladder over the mini history."""

    def __init__(self, repo: MiniRepo, wheels: Path, store: Path, **wheel: object) -> None:
        history = GitHistory(repo.path, CLASSES)
        line = history.range("main~6..main").line
        self.commits = dict(zip(PYTHON_ONLY_STEPS, line, strict=True))
        self.trees = CountingTrees(history)
        self.store = Store(store)
        self.said: list[str] = []
        self.base = replace(
            BaseWheel("mini==1.0", pip_args=("--no-index", "--find-links", str(wheels))),
            **wheel,  # type: ignore[arg-type]
        )
        self.ladder = self.make_ladder(self.base)

    def make_ladder(self, base: BaseWheel | None) -> Ladder:
        """Another ladder on the same history and store."""
        return Ladder(
            self.trees,
            self.store,
            sys.executable,
            {"MINI_THREADS": "1"},
            base,
            CLASSES.is_python,
            say=self.said.append,
        )

    def __getitem__(self, name: str) -> Commit:
        return self.commits[name]


@pytest.fixture
def bench(repo: MiniRepo, wheels: Path, tmp_path: Path) -> Bench:
    """A ladder with an empty store."""
    return Bench(repo, wheels, tmp_path / "store")


def value(build: Build) -> str:
    """What a fresh process sees of a build."""
    done = subprocess.run(
        [build.python, "-c", "import mini; print(mini.value())"],
        env={**os.environ, "PYTHONPATH": build.tree, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_each_commit_is_its_own_build(bench: Bench) -> None:
    """Wheel, overlay and cached routes, and what a process then sees."""
    names = ["start", "linear", "docs", "broken", "back", "not native"]
    builds = {name: bench.ladder.provide(bench[name]) for name in names}
    assert {name: build.route for name, build in builds.items()} == {
        "start": Route.WHEEL,
        "linear": Route.OVERLAY,
        "docs": Route.CACHED,
        "broken": Route.OVERLAY,
        "back": Route.CACHED,
        "not native": Route.OVERLAY,
    }
    assert {name: value(build) for name, build in builds.items()} == {
        "start": "100",
        "linear": "200",
        "docs": "200",
        "broken": "SyntaxError: invalid syntax",
        "back": "200",
        # It no longer tracks linear.py, and so shows the wheel's.
        "not native": "100",
    }
    assert builds["linear"].tree == builds["docs"].tree == builds["back"].tree
    assert builds["docs"].seconds == 0.0 < builds["linear"].seconds
    assert builds["linear"].environment == {"MINI_THREADS": "1"}
    assert builds["docs"].sha == bench["docs"].sha
    assert bench.said == ["Installing mini==1.0 into the store, once"]


def test_a_native_change_without_a_source_route_is_unbuildable(bench: Bench) -> None:
    """Of that commit only; and it is quoted at nothing, because to learn so costs nothing."""
    with pytest.raises(Unbuildable, match="native files changed"):
        bench.ladder.provide(bench["native"])
    assert bench.ladder.quote(bench["native"]).seconds == 0.0
    assert bench.ladder.provide(bench["not native"])


def test_without_a_base_wheel_nothing_can_be_built(bench: Bench) -> None:
    """The reason names what is missing."""
    ladder = bench.make_ladder(None)
    with pytest.raises(Unbuildable, match="neither a base wheel nor"):
        ladder.provide(bench["linear"])


def test_quotes_follow_what_the_store_holds(bench: Bench) -> None:
    """The base is paid for by whoever comes first; a quote does no work."""
    before = {name: bench.ladder.quote(bench[name]) for name in ("start", "linear", "docs")}
    assert before["linear"].route is before["docs"].route is Route.OVERLAY
    assert before["start"].route is Route.WHEEL
    assert before["linear"].seconds > before["start"].seconds
    assert not bench.store.root.exists()
    bench.ladder.provide(bench["linear"])
    assert bench.ladder.quote(bench["docs"]).route is Route.CACHED
    assert bench.ladder.quote(bench["start"]).seconds == 0.0
    assert bench.ladder.quote(bench["broken"]).route is Route.OVERLAY
    assert 0.0 < bench.ladder.quote(bench["broken"]).seconds < before["linear"].seconds


def test_only_what_is_laid_is_read(bench: Bench) -> None:
    """An irrelevant commit is not even listed once its parent was."""
    bench.ladder.provide(bench["linear"])
    bench.ladder.provide(bench["docs"])
    assert bench.trees.listed == [bench["linear"].sha]
    assert len(bench.trees.read) == 1


def test_another_session_finds_it_all(bench: Bench) -> None:
    """Nothing is made twice, whoever asks."""
    first = bench.ladder.provide(bench["linear"])
    again = bench.make_ladder(bench.base).provide(bench["linear"])
    assert again.route is Route.CACHED
    assert again.tree == first.tree


def test_many_commits_at_once(bench: Bench) -> None:
    """From eight threads: one base, one tree for each set of files, and all are right."""
    names = ["start", "linear", "docs", "broken", "back", "not native"] * 4
    barrier = threading.Barrier(8)

    def provide(name: str) -> tuple[str, str]:
        if not barrier.broken:
            barrier.wait(30)
        return name, bench.ladder.provide(bench[name]).tree

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(provide, names))
    assert len(found) == 6
    assert len({tree for _, tree in found}) == 4
    assert bench.said == ["Installing mini==1.0 into the store, once"]
    assert all((Path(tree).parent / "stamp.json").is_file() for _, tree in found)


def test_what_goes_along_is_in_the_same_tree(repo: MiniRepo, wheels: Path, tmp_path: Path) -> None:
    """A companion is installed with the base and kept by every overlay; all come compiled."""
    bench = Bench(repo, wheels, tmp_path / "store", companions=("beside>=2",))
    tree = Path(bench.ladder.provide(bench["linear"]).tree)
    assert (tree / "beside.py").is_file()
    base = Path(bench.ladder.provide(bench["start"]).tree)
    compiled = {path.name.split(".")[0] for path in base.rglob("*.pyc")}
    assert compiled == {Path(name).stem for name in (*WHEEL_FILES, "beside.py")} - {"data", "core"}


@pytest.mark.parametrize(
    ("wheel", "says"),
    [
        ({"requirement": "mini==9.9"}, "No matching distribution found for mini==9.9"),
        ({"companions": ("nothing-of-this-name",)}, "No matching distribution found"),
        ({"pip_args": ("--no-index", "--find-links", "/nowhere")}, "No matching distribution"),
        ({"pip_args": ("--no-such-option",)}, "no such option"),
    ],
)
def test_what_pip_refuses_is_one_clear_line(
    repo: MiniRepo, wheels: Path, tmp_path: Path, wheel: dict[str, object], says: str
) -> None:
    """A fault of the machine, not of the commit; the whole of it is kept in a log."""
    bench = Bench(repo, wheels, tmp_path / "store", **wheel)
    with pytest.raises(EnvironmentFailure, match=says) as caught:
        bench.ladder.provide(bench["linear"])
    assert "\n" not in str(caught.value)
    [log] = (tmp_path / "store" / "logs").glob("*.log")
    assert str(log) in str(caught.value)
    assert says in log.read_text()
    assert not list((tmp_path / "store" / "trees").glob("*/*"))


def test_another_version_than_asked_for_is_refused(
    repo: MiniRepo, wheels: Path, tmp_path: Path
) -> None:
    """An old pip or a constraint may install one without complaint."""
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/sh\n"
        # A pip that drops the pin.
        f'for a in "$@"; do shift; set -- "$@" "${{a%==2.1}}"; done\nexec {sys.executable} "$@"\n'
    )
    fake.chmod(0o755)
    make_wheel(tmp_path / "newer", "beside", "3.0", {"beside.py": "B = 2\n"})
    bench = Bench(repo, wheels, tmp_path / "store")
    base = BaseWheel("beside==2.1", pip_args=("--no-index", "-f", str(tmp_path / "newer")))
    ladder = Ladder(bench.trees, bench.store, fake, {}, base, CLASSES.is_python)
    with pytest.raises(EnvironmentFailure, match=r"asked for beside==2\.1 and installed 3\.0"):
        ladder.provide(bench["linear"])


def test_a_requirement_that_is_none_is_told() -> None:
    """Before pip is asked."""
    with pytest.raises(UsageError, match=r"write it like torch==2\.13\.0"):
        BaseWheel("torch 2.13")


def test_an_interpreter_that_is_none_is_told(bench: Bench, tmp_path: Path) -> None:
    """By its path."""
    (tmp_path / "python").write_text("not one")
    for path in (tmp_path / "python", tmp_path / "missing"):
        ladder = Ladder(bench.trees, bench.store, path, {}, bench.base, CLASSES.is_python)
        with pytest.raises(EnvironmentFailure, match="is it a Python interpreter"):
            ladder.provide(bench["linear"])
