from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.build import Ladder, Places, Recipe, Step, Store, checkout
from bisectorch.build.interpreter import describe
from bisectorch.build.process import CappedLog
from bisectorch.build.source import DEFAULT_COMMAND
from bisectorch.build.unpack import unpack
from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.history import GitHistory
from bisectorch.model import Build, Commit, Route
from minihistory import MiniRepo
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
    monkeypatch.delenv("CCACHE_DIR", raising=False)
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


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_neighbours_share_their_compilations(builds: dict[str, Build | str], yard: Yard) -> None:
    """What did not change between two native builds comes from ccache, at one path for all."""
    made = [b for b in builds.values() if isinstance(b, Build) and b.route is Route.SOURCE]
    environment = {**os.environ, "CCACHE_DIR": str(yard.store.root / "builders" / "ccache")}
    told = subprocess.run(
        ["ccache", "--print-stats"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    counts = dict(line.split("\t")[:2] for line in told.splitlines())
    hits = int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])
    # Of two C files a build, at least one is as it was for every build but the first.
    assert hits >= len(made) - 1


def clone(story: NativeHistory, sha: str, path: Path) -> None:
    """A fresh checkout of one commit."""
    run(story.repo.path, "git", "clone", "-q", "--shared", "--no-checkout", ".", str(path))
    run(path, "git", "checkout", "-q", sha)
    run(path, "git", "submodule", "--quiet", "update", "--init")


def run(cwd: Path, *command: str) -> None:
    """One command that must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> NativeHistory:
    """Two commits of one package, the second with another native fingerprint; nothing compiled."""
    story = NativeHistory(MiniRepo(tmp_path_factory.mktemp("small") / "repo"))
    setup = "from setuptools import setup\nsetup(name='quick', version='1', packages=['quick'])\n"
    story.add("first", 1, {"setup.py": setup, "quick/__init__.py": "def cost():\n    return 1\n"})
    story.add("second", 1, {"native.c": "int x;\n"})
    story.add("new module", 1, {"quick/more.py": "M = 1\n"})
    story.add("unheard-of", 1, {"quick/sub/__init__.py": "", "quick/sub/x.py": "X = 1\n"})
    return story


@pytest.fixture(scope="module")
def pip_yard(small: NativeHistory, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """A store whose builder's environment is made once, whatever the commands."""
    return Yard(small, tmp_path_factory.mktemp("pip") / "store")


def script(text: str) -> Callable[[Places], list[Step]]:
    """A build that is this shell script."""
    return lambda places: [Step(("sh", "-c", text), {"WHEELS": str(places.build_cache_dir)})]


BUILD = 'python setup.py -q bdist_wheel -d "$WHEELS"'


def refused(yard: Yard, label: str, text: str, **changes: object) -> str:
    """Why a commit does not build by this script."""
    ladder = yard.ladder(steps=script(text), text=(text,), **changes)
    with pytest.raises(Unbuildable) as caught:
        ladder.provide(yard.commit(label))
    assert "\n" not in caught.value.reason
    assert not list((yard.store.root / "tmp").glob("*/*")), "nothing is left behind"
    return caught.value.reason


def test_asvs_own_command_builds_by_default(pip_yard: Yard) -> None:
    """Through pip, in the kept checkout."""
    command = DEFAULT_COMMAND[0].split()

    def steps(places: Places) -> list[Step]:
        names = {"build_cache_dir": places.build_cache_dir, "build_dir": places.build_dir}
        return [Step(tuple(word.format(**names) for word in command))]

    build = pip_yard.ladder(steps=steps, text=DEFAULT_COMMAND).provide(pip_yard.commit("first"))
    assert cost(build) == 1
    assert build.route is Route.SOURCE


def test_where_a_file_goes_is_proven_or_built(pip_yard: Yard) -> None:
    """A module beside others is laid; a package that no rule explains makes a build of its own."""
    ladder = pip_yard.ladder(steps=script(BUILD), text=(BUILD,))
    builds = {label: ladder.provide(pip_yard.commit(label)) for label in pip_yard.story.shas}
    assert builds["second"].route is Route.SOURCE
    assert builds["new module"].route is Route.OVERLAY
    assert (Path(builds["new module"].tree) / "quick" / "more.py").is_file()
    assert builds["unheard-of"].route is Route.SOURCE
    assert not (Path(builds["unheard-of"].tree) / "quick" / "sub").exists(), "it is not listed"


def test_a_build_that_hangs_is_stopped_with_all_it_started(pip_yard: Yard, tmp_path: Path) -> None:
    """At its time limit; and it is tried again when the limit is raised."""
    text = f"sleep 600 & echo $! > {tmp_path}/child; wait"
    assert "ran out of time" in refused(pip_yard, "second", text, timeout_seconds=0.7)
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not alive(child))
    pip_yard.said.clear()
    assert "ran out of time" in refused(pip_yard, "second", text, timeout_seconds=0.7)
    assert not pip_yard.said, "what is known is not tried again"
    refused(pip_yard, "second", text, timeout_seconds=0.8)
    assert pip_yard.said


def test_a_build_that_takes_too_much_memory_is_stopped(pip_yard: Yard) -> None:
    """It and its children together."""
    text = 'python -c "x = bytearray(1 << 28); import time; time.sleep(60)" & wait'
    reason = refused(pip_yard, "second", text, memory_bytes=100 << 20)
    assert "took more than 0.1 GiB of memory" in reason


def test_a_build_that_says_very_much_keeps_a_bounded_log(pip_yard: Yard) -> None:
    """Its beginning and its end, where the telling lines are."""
    much = "head -c 1000000000 /dev/zero | tr '\\0' x"
    text = f"echo beginning; {much}; echo; echo 'a.c: error: no'; false"
    assert "a.c: error: no" in refused(pip_yard, "second", text)
    log = max((pip_yard.store.root / "logs").glob("*.log"), key=lambda path: path.stat().st_mtime)
    assert log.stat().st_size < 5 << 20
    kept = log.read_bytes()
    assert b"beginning" in kept[:10000]
    assert b"bytes left out" in kept


def test_a_failure_is_remembered_until_told_to_forget(pip_yard: Yard, tmp_path: Path) -> None:
    """For every commit of the fingerprint, across sessions."""
    text = f"test -e {tmp_path}/mended && {BUILD}"
    refused(pip_yard, "second", text)
    (tmp_path / "mended").touch()
    pip_yard.said.clear()
    refused(pip_yard, "new module", text)
    ladder = pip_yard.ladder(steps=script(text), text=(text,))
    assert ladder.quote(pip_yard.commit("second")).seconds == 0.0
    assert not pip_yard.said
    again = pip_yard.ladder(retry_failed=True, steps=script(text), text=(text,))
    assert cost(again.provide(pip_yard.commit("second"))) == 1


def test_an_in_place_failure_is_tried_from_nothing(pip_yard: Yard) -> None:
    """What an earlier build left in the way is cleaned away, and never trusted."""
    text = f"test ! -e left && touch left && {BUILD}"
    ladder = pip_yard.ladder(steps=script(text), text=(text,))
    pip_yard.said.clear()
    assert cost(ladder.provide(pip_yard.commit("first"))) == 1
    assert cost(ladder.provide(pip_yard.commit("second"))) == 1
    assert [line.split()[-1] for line in pip_yard.compilations][-2:] == ["source", "nothing"]


TWICE = f'{BUILD}; cp "$WHEELS"/*.whl "$WHEELS/b-1-py3-none-any.whl"'


@pytest.mark.parametrize("text", ["true", TWICE])
def test_a_command_that_leaves_no_wheel_is_told(pip_yard: Yard, text: str) -> None:
    """Or more than one: which it was to be is not guessed."""
    assert "it must leave one" in refused(pip_yard, "second", text)


def test_a_full_disk_is_no_fault_of_the_commit(pip_yard: Yard) -> None:
    """It is the machine's, and is not remembered against the commit."""
    text = "echo 'cc1: fatal error: x.o: No space left on device'; false"
    ladder = pip_yard.ladder(steps=script(text), text=(text,))
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match="the disk is full"):
            ladder.provide(pip_yard.commit("second"))


SESSION = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from minihistory import MiniRepo
from nativehistory import NativeHistory
from test_build_source import Yard, script
repo, store, sha, text = sys.argv[3:]
yard = Yard(NativeHistory(MiniRepo(Path(repo))), Path(store))
yard.ladder(steps=script(text), text=(text,)).provide(yard.history.commit(sha))
print(len(yard.compilations))
"""


def session(yard: Yard, label: str, text: str) -> subprocess.Popen[str]:
    """Another process that builds a commit by this script and says how often it built."""
    folder = Path(__file__).parent
    given = [str(folder), str(folder.parent), str(yard.story.repo.path), str(yard.store.root)]
    command = [sys.executable, "-c", SESSION, *given, yard.story.shas[label], text]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_session_that_is_killed_leaves_nothing_that_is_trusted(
    pip_yard: Yard, tmp_path: Path
) -> None:
    """Its build is ended by the next session, which starts from nothing."""
    killed = session(pip_yard, "second", f"touch left; echo $$ > {tmp_path}/pid; sleep 600; true")
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    killed.kill()
    killed.communicate()
    orphan = int((tmp_path / "pid").read_text())
    assert alive(orphan)
    pip_yard.said.clear()
    text = f"test ! -e left && {BUILD}"
    build = pip_yard.ladder(steps=script(text), text=(text,)).provide(pip_yard.commit("second"))
    assert cost(build) == 1
    wait_until(lambda: not alive(orphan))
    assert [line.split()[-1] for line in pip_yard.compilations] == ["nothing"]


def test_two_sessions_build_one_fingerprint_once(pip_yard: Yard) -> None:
    """The second waits, and takes what the first made; of another commit, too."""
    text = f"sleep 1; {BUILD}"
    both = [session(pip_yard, label, text) for label in ("second", "new module")]
    said = [int(process.communicate()[0]) for process in both]
    assert sorted(said) == [0, 1]


def test_a_submodule_that_cannot_be_fetched_is_told(tmp_path: Path) -> None:
    """As an outcome of the commit; but not remembered, since it may be there tomorrow."""
    story = make_history(tmp_path)
    (tmp_path / "tally").rename(tmp_path / "gone")
    yard = Yard(story, tmp_path / "store")
    for _ in range(2):
        with pytest.raises(Unbuildable, match=r"a submodule of \w+ cannot be fetched: fatal: "):
            yard.ladder(requirements=()).provide(yard.commit("start"))
    (tmp_path / "gone").rename(tmp_path / "tally")
    assert cost(yard.ladder(requirements=("wheel",)).provide(yard.commit("start"))) == 100


def test_a_fetch_that_hangs_is_ended(
    small: NativeHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an outcome that is not remembered."""
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o755)
    yard = Yard(small, tmp_path / "store")
    commit = yard.commit("first")
    monkeypatch.setattr(checkout, "MOST_SECONDS", 0.2)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with CappedLog(tmp_path / "log") as log, pytest.raises(checkout.NotFetched, match="took more"):
        checkout.Checkout(tmp_path / "tree", small.repo.path, log).move(commit.sha, {}, {})


def test_a_repository_that_lacks_objects_is_no_fault_of_the_commit(
    small: NativeHistory, tmp_path: Path
) -> None:
    """git's own line is told, and nothing is remembered against the commit."""
    run(tmp_path, "git", "clone", "-q", "--no-hardlinks", str(small.repo.path), "repo")
    story = NativeHistory(MiniRepo(tmp_path / "repo"), small.shas, small.costs)
    yard = Yard(story, tmp_path / "store")
    blob = story.repo.git("rev-parse", f"{small.shas['first']}:quick/__init__.py")
    lost = tmp_path / "repo" / ".git" / "objects" / blob[:2] / blob[2:]
    lost.rename(tmp_path / "lost")
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match=rf"is incomplete: .*{blob}"):
            yard.ladder(steps=script(BUILD), requirements=()).provide(yard.commit("first"))
    (tmp_path / "lost").rename(lost)
    assert yard.ladder(steps=script(BUILD)).provide(yard.commit("first"))


def test_a_build_that_cannot_be_used_is_made_again_and_then_kept(pip_yard: Yard) -> None:
    """From nothing, so that nothing old is to blame; then it is what its commit installs."""
    ladder = pip_yard.ladder(steps=script(BUILD), text=("smoke", BUILD))
    assert ladder.provide(pip_yard.commit("first"))
    pip_yard.said.clear()
    smoke = ("import quick", "raise ValueError('of no use')")
    ladder = pip_yard.ladder(steps=script(BUILD), text=("other", BUILD), smoke=smoke)
    build = ladder.provide(pip_yard.commit("second"))
    assert [line.split()[-1] for line in pip_yard.compilations] == ["source", "nothing"]
    about = pip_yard.store.about(build.key)
    assert about
    assert about["smoke"] == "ValueError: of no use"
    assert cost(build) == 1


def test_what_chooses_a_build_is_part_of_its_key(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that projects' builds read, the compilers, and the commands; not what is idle."""
    interpreter = describe(sys.executable)
    for name in ("USE_CUDA", "NO_COLOR", "CFLAGS", "CC"):
        monkeypatch.delenv(name, raising=False)
    keys = [yard.recipe.key("f" * 64, interpreter)]
    monkeypatch.setenv("NO_COLOR", "1")
    assert yard.recipe.key("f" * 64, interpreter) == keys[0]
    for name, value in (("USE_CUDA", "1"), ("CFLAGS", "-O3"), ("CC", "gcc -m64")):
        monkeypatch.setenv(name, value)
        keys.append(yard.recipe.key("f" * 64, interpreter))
    recipes = [
        replace(yard.recipe, text=("other",)),
        replace(yard.recipe, requirements=()),
        replace(yard.recipe, variables={"A": "1"}),
    ]
    keys += [recipe.key("f" * 64, interpreter) for recipe in recipes]
    keys.append(yard.recipe.key("e" * 64, interpreter))
    assert len(set(keys)) == len(keys)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true: Callable[[], object]) -> None:
    """Wait for something that comes, however slow the machine."""
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it never came")
