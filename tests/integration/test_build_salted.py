"""A commit built again in other layouts: real compilers, and code that really moves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bisectorch.build import Ladder, Places, Recipe, Step, Store
from bisectorch.build.salted import MOST_PADDING_BYTES, padding_bytes
from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.history import GitHistory
from bisectorch.model import Build, Commit, Route
from minihistory import MiniRepo
from nativehistory import NativeHistory, header, ops, path_classes, start

WHERE = """
import quick._core, re
with open("/proc/self/maps") as maps:
    base = min(int(line.split("-")[0], 16) for line in maps if "_core" in line)
import ctypes
library = ctypes.CDLL(quick._core.__file__)
print(ctypes.cast(library.unit0, ctypes.c_void_p).value - base, quick.cost())
"""


def steps(places: Places) -> list[Step]:
    """What builds the history's wheels."""
    wheels = str(places.build_cache_dir)
    return [Step(("python", "setup.py", "-q", "bdist_wheel", "-d", wheels))]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> NativeHistory:
    """One native commit, and one that does not compile."""
    story = NativeHistory(MiniRepo(tmp_path_factory.mktemp("salted") / "repo"))
    tally = {"third_party/tally/tally.h": "#define TALLY 0\n"}
    story.add("start", 100, {**start(), **tally})
    story.add("broken", None, {"csrc/cost.h": "#define COST (\n"})
    story.add("mended", 120, header(120))
    story.add("Python", 125, ops(5))
    return story


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store, for one builder's environment."""
    return tmp_path_factory.mktemp("store")


def make_ladder(story: NativeHistory, store: Path, *, source: bool = True) -> Ladder:
    """A ladder with or without the source route."""
    history = GitHistory(story.repo.path, path_classes())
    recipe = Recipe(story.repo.path, Path(sys.executable), steps, ("setup.py",))
    return Ladder(
        history,
        Store(store),
        sys.executable,
        {},
        None,
        history.classes.is_python,
        recipe=recipe if source else None,
    )


def commit(story: NativeHistory, label: str) -> Commit:
    """A commit by its label."""
    return GitHistory(story.repo.path, path_classes()).commit(story.shas[label])


def place_and_cost(build: Build) -> tuple[int, int]:
    """Where a function of the build lies in its library, and what the build computes."""
    done = subprocess.run(
        [build.python, "-c", WHERE],
        env={"PYTHONPATH": build.tree},
        capture_output=True,
        text=True,
        check=True,
    )
    place, cost = done.stdout.split()
    return int(place), int(cost)


def test_salts_move_code_and_change_nothing_else(story: NativeHistory, store: Path) -> None:
    """By as much as they say; a salt that was built is there, and the usual build is untouched."""
    ladder = make_ladder(story, store)
    start = commit(story, "start")
    usual = ladder.provide(start)
    salted = [ladder.rebuild(start, salt) for salt in (1, 2)]
    assert [build.route for build in salted] == [Route.SOURCE] * 2
    assert len({usual.key, *(build.key for build in salted)}) == 3
    places, costs = zip(*map(place_and_cost, (usual, *salted)), strict=True)
    assert set(costs) == {100}
    assert places[2] - places[1] == padding_bytes(2) - padding_bytes(1)
    assert places[0] not in places[1:]
    again = ladder.rebuild(start, 1)
    assert (again.route, again.tree) == (Route.CACHED, salted[0].tree)
    assert place_and_cost(ladder.provide(commit(story, "mended")))[1] == 120


def test_commits_of_one_native_state_have_salted_builds_of_their_own(
    story: NativeHistory, store: Path
) -> None:
    """With their own Python files; a build that is there costs nothing, another what one did."""
    ladder = make_ladder(story, store)
    native, python = commit(story, "mended"), commit(story, "Python")
    assert native.fingerprint == python.fingerprint
    quoted = ladder.rebuild_quote(native, 7)
    assert quoted.route is Route.SOURCE
    assert quoted.seconds > 0
    builds = [ladder.rebuild(each, 7) for each in (native, python)]
    assert [place_and_cost(build)[1] for build in builds] == [120, 125]
    assert [build.salt for build in builds] == [7, 7]
    assert ladder.rebuild_quote(native, 7).seconds == 0.0
    assert 0 < ladder.rebuild_quote(native, 8).seconds < 60


def test_salts_are_spread_over_a_page() -> None:
    """Never nothing, and hardly ever the same."""
    sizes = {padding_bytes(salt) for salt in range(100)}
    assert min(sizes) > 0
    assert max(sizes) <= MOST_PADDING_BYTES
    assert all(size % 16 == 0 for size in sizes)
    assert len(sizes) > 75


def test_what_cannot_be_built_again_says_why(
    story: NativeHistory, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No source route, code that does not compile, no compiler."""
    with pytest.raises(Unbuildable, match="no source route"):
        make_ladder(story, store, source=False).rebuild(commit(story, "start"), 1)
    with pytest.raises(Unbuildable):
        make_ladder(story, store).rebuild(commit(story, "broken"), 1)
    monkeypatch.setenv("CC", "/no/cc")
    with pytest.raises(EnvironmentFailure, match="cannot start the compiler /no/cc"):
        make_ladder(story, store).rebuild(commit(story, "start"), 9)
