from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.build import Ladder, Places, Recipe, Step, Store
from bisectorch.build.unpack import unpack
from bisectorch.errors import Unbuildable
from bisectorch.history import GitHistory
from bisectorch.model import Build, Commit, Route
from nativehistory import UNBUILDABLE, NativeHistory, make_history, path_classes

STAMPED = "quick/version.py"


def steps(places: Places) -> list[Step]:
    """What builds the history's wheels."""
    wheels = str(places.build_cache_dir)
    return [Step(("python", "setup.py", "-q", "bdist_wheel", "-d", wheels))]


class Yard:
    """The history, a store, and ladders between them."""

    def __init__(self, story: NativeHistory, store: Path) -> None:
        self.story = story
        self.history = GitHistory(story.repo.path, path_classes())
        self.store = Store(store)
        self.said: list[str] = []
        self.recipe = Recipe(
            repository=story.repo.path,
            python=Path(sys.executable),
            steps=steps,
            text=("setup.py",),
        )

    def ladder(self, *, retry_failed: bool = False, **changes: object) -> Ladder:
        """A new session's ladder."""
        return Ladder(
            self.history,
            self.store,
            sys.executable,
            {},
            None,
            self.history.classes.is_python,
            self.said.append,
            recipe=replace(self.recipe, **changes),  # type: ignore[arg-type]
            retry_failed=retry_failed,
        )

    def commit(self, label: str) -> Commit:
        """A commit by its label."""
        return self.history.commit(self.story.shas[label])

    @property
    def compilations(self) -> list[str]:
        """What was said about building."""
        return [line for line in self.said if line.startswith("Building")]


@pytest.fixture(autouse=True)
def _local_submodules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' submodule is a folder, which git fetches from only when told."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> NativeHistory:
    """The whole story."""
    return make_history(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def yard(story: NativeHistory, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """A store that fills up over the tests of this file."""
    return Yard(story, tmp_path_factory.mktemp("yard") / "store")


@pytest.fixture(scope="module")
def builds(yard: Yard) -> dict[str, Build | str]:
    """Every commit's build by one ladder, in the order of the history, or why there is none."""
    with pytest.MonkeyPatch.context() as patch:
        _local_submodules.__wrapped__(patch)  # type: ignore[attr-defined]
        ladder = yard.ladder()
        found: dict[str, Build | str] = {}
        for label in yard.story.shas:
            try:
                found[label] = ladder.provide(yard.commit(label))
            except Unbuildable as error:
                found[label] = error.reason
        return found


def cost(build: Build) -> int | None:
    """What a fresh process sees."""
    done = subprocess.run(
        [build.python, "-c", "import quick; print(quick.cost())"],
        env={**os.environ, "PYTHONPATH": build.tree, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    return int(done.stdout) if done.returncode == 0 else None


def contents(tree: Path) -> dict[str, bytes]:
    """Every installed file but the compiled ones and what packaging says about itself."""
    found = {}
    for folder, _, names in os.walk(tree, followlinks=True):
        for name in names:
            path = Path(folder, name)
            inside = path.relative_to(tree).as_posix()
            if not name.endswith(".pyc") and ".dist-info/" not in inside and inside != STAMPED:
                found[inside] = path.read_bytes()
    return found


def test_every_commit_is_its_own(builds: dict[str, Build | str], story: NativeHistory) -> None:
    """What a process sees of each is what its files say; the others are outcomes."""
    seen = {
        label: cost(build) if isinstance(build, Build) else None for label, build in builds.items()
    }
    assert seen == story.costs
    refused = {label: why for label, why in builds.items() if isinstance(why, str)}
    assert set(refused) == set(UNBUILDABLE)
    assert all("unit0.c" in why and "error:" in why for why in refused.values())


def test_each_fingerprint_is_compiled_once(
    builds: dict[str, Build | str], yard: Yard, story: NativeHistory
) -> None:
    """A revert costs nothing; what fails in the kept checkout is tried from nothing once."""
    commits = [yard.commit(label) for label in story.shas]
    buildable = {c.fingerprint for c in commits if c.subject not in UNBUILDABLE}
    broken = {c.fingerprint for c in commits if c.subject in UNBUILDABLE}
    assert len(broken) == 2
    made = [b for b in builds.values() if isinstance(b, Build) and b.route is Route.SOURCE]
    assert len(made) == len(buildable)
    # The second broken one meets a checkout that nobody trusts, and is not tried twice.
    assert len(yard.compilations) == len(buildable) + len(broken) + 1
    assert isinstance(back := builds["C as before"], Build)
    assert back.route is Route.OVERLAY
    yard.said.clear()
    again = yard.ladder()
    for label in story.shas:
        if label not in UNBUILDABLE:
            assert again.provide(yard.commit(label)).route is Route.CACHED
        else:
            with pytest.raises(Unbuildable, match=r"unit0\.c"):
                again.provide(yard.commit(label))
    assert not yard.compilations


def test_an_overlay_is_what_a_full_build_installs(
    builds: dict[str, Build | str], yard: Yard, story: NativeHistory, tmp_path: Path
) -> None:
    """Byte by byte, for every commit that builds; but for the stamped version."""
    [python] = yard.store.root.glob("builders/*/env/bin/python")
    for label, build in builds.items():
        if isinstance(build, str):
            continue
        full = tmp_path / label
        clone(story, story.shas[label], full)
        wheels = full / "wheels"
        run(full, str(python), "setup.py", "-q", "bdist_wheel", "-d", str(wheels))
        [wheel] = wheels.iterdir()
        (full / "tree").mkdir()
        unpack(wheel, full / "tree")
        expected, found = contents(full / "tree"), contents(Path(build.tree))
        assert sorted(found) == sorted(expected), label
        assert found == expected, label
        assert (Path(build.tree) / STAMPED).is_file(), "what the build generated stays"
        shutil.rmtree(full)


def clone(story: NativeHistory, sha: str, path: Path) -> None:
    """A fresh checkout of one commit."""
    run(story.repo.path, "git", "clone", "-q", "--shared", "--no-checkout", ".", str(path))
    run(path, "git", "checkout", "-q", sha)
    run(path, "git", "submodule", "--quiet", "update", "--init")


def run(cwd: Path, *command: str) -> None:
    """One command that must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def sequence(*commands: Sequence[str]) -> object:
    """Steps that run these commands, whatever the places."""
    return lambda places: [Step(tuple(command)) for command in commands]
