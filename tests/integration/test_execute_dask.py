"""A real Dask cluster of two worker processes on loopback, and all that can go wrong with one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bisectorch.build import parcel
from bisectorch.build.store import Store
from bisectorch.errors import EnvironmentFailure, Unbuildable, UsageError
from bisectorch.execute import DaskExecutor, connect
from bisectorch.model import Build, Commit, Quote, Route
from chores import key_of
from fakes import line

pytest.importorskip("distributed")
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers on this host."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(TESTS)
    try:
        with connect("local:2") as client:
            yield client
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@dataclass
class Here:
    """The tracker's side: a store, and builds taken from it."""

    store: Store
    cheap: frozenset[str] = frozenset()
    made_here: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)

    def quote(self, commit: Commit) -> Quote:
        """A source build, unless it is cheap."""
        if commit.sha in self.cheap or self.has(key_of(commit.sha)):
            return Quote(commit.sha, Route.OVERLAY, 0.1)
        return Quote(commit.sha, Route.SOURCE, 60.0)

    def provide(self, commit: Commit) -> Build:
        """From the store; what is not there is made here, and noted."""
        key = key_of(commit.sha)
        tree = self.store.get(key)
        if tree is None:
            self.made_here.append(commit.sha)
            return Build(commit.sha, Route.OVERLAY, "", "python")
        return Build(commit.sha, Route.CACHED, str(tree), "python", key=key)

    def has(self, key: str) -> bool:
        """Whether it is in the store."""
        return self.store.about(key) is not None

    def take(self, key: str, file: Path) -> None:
        """Unpack it."""
        self.taken.append(key)
        parcel.take(self.store, key, file)


@dataclass
class Site:
    """One tracker with its cluster."""

    client: Any
    here: Here
    notes: Path
    store: Path

    def executor(self, **jobs: Any) -> DaskExecutor:
        """Whose jobs are of this kind; the store is the tracker's unless they say another."""

        def describe(commit: Commit) -> dict[str, Any]:
            usual = {"program": "chores", "do": "build", "commit": commit.sha}
            return {**usual, "store": str(self.store), "notes": str(self.notes), **jobs}

        return DaskExecutor(self.client, self.here, describe, self.here)

    def begun(self) -> list[Path]:
        """A note for each job that began."""
        return [path for path in self.notes.iterdir() if path.suffix != ".parcel"]


@pytest.fixture
def site(client: Any, tmp_path: Path) -> Site:
    """A fresh store, on a cluster whose workers are both there."""
    client.wait_for_workers(2, timeout=300)
    (tmp_path / "notes").mkdir()
    store = tmp_path / "store"
    return Site(client, Here(Store(store)), tmp_path / "notes", store)


def distinct(count: int) -> list[Commit]:
    """Commits of as many native states."""
    from dataclasses import replace

    return [replace(each, fingerprint=each.sha) for each in line(count)]


def test_builds_fan_out_and_each_native_state_is_built_once(site: Site) -> None:
    """Two builds at the same time on two workers; a third commit shares one's native files."""
    from dataclasses import replace

    first, second, third = distinct(3)
    third = replace(third, fingerprint=first.fingerprint)
    built = dict(site.executor(seconds=1.0).build([first, second, third]))
    assert [built[each].route for each in (first, second)] == [Route.SOURCE] * 2  # type: ignore[union-attr]
    assert built[first].seconds == 1.5  # type: ignore[union-attr]
    begun = site.begun()
    assert len(begun) == 2
    assert len({path.read_text() for path in begun}) == 2, "each on a worker of its own"
    assert site.here.made_here == [third.sha], "laid over the other's, here"
    assert not site.here.taken, "the store is shared"


def test_what_is_cheap_is_made_here(site: Site) -> None:
    """An overlay is not worth a journey."""
    commits = distinct(2)
    site.here.cheap = frozenset(commit.sha for commit in commits)
    assert len(dict(site.executor().build(commits))) == 2
    assert not site.begun()


def test_a_build_of_another_store_travels_once(site: Site, tmp_path: Path) -> None:
    """In pieces, whole, with its links and modes; asked again, it is there."""
    executor = site.executor(store=str(tmp_path / "elsewhere"))
    [commit] = distinct(1)
    [(_, built)] = executor.build([commit])
    assert isinstance(built, Build)
    tree = Path(built.tree)
    assert tree.is_relative_to(site.store)
    assert (tree / "link").readlink() == Path("a.py")
    assert os.access(tree / "run", os.X_OK)
    elsewhere = Store(tmp_path / "elsewhere").get(built.key)
    assert elsewhere is not None
    assert (tree / "big.bin").read_bytes() == (elsewhere / "big.bin").read_bytes()
    assert not list(site.store.glob("faults"))
    assert not list(site.notes.glob("*.parcel")), "the worker keeps no copy"
    dict(executor.build([commit]))
    assert site.here.taken == [built.key]


def test_a_lost_worker_is_made_up_for(site: Site) -> None:
    """Killed in mid-job: the job goes elsewhere, and its build is there."""
    commits = distinct(2)
    executor = site.executor(**{"lose once": True})
    built = dict(executor.build(commits))
    assert all(isinstance(each, Build) for each in built.values())
    assert len(site.begun()) == 4
    assert not site.here.made_here


def test_a_worker_lost_twice_is_an_outcome(site: Site) -> None:
    """It is not tried for ever, and the session goes on."""
    [commit] = distinct(1)
    [(_, fault)] = site.executor(do="kill the worker").build([commit])
    assert isinstance(fault, Unbuildable)
    assert "lost 2 times" in fault.reason
    assert len(site.begun()) == 2


def test_what_does_not_build_is_an_outcome_of_all_alike(site: Site) -> None:
    """They share their native files, so one attempt tells."""
    from dataclasses import replace

    first, second = distinct(2)
    second = replace(second, fingerprint=first.fingerprint)
    found = dict(site.executor(do="refuse").build([first, second]))
    assert [str(found[each]) for each in (first, second)] == ["gcc failed"] * 2
    assert len(site.begun()) == 1


def test_a_program_that_fails_is_one_clear_line(site: Site) -> None:
    """Not a commit's fault: the session stops and says what the worker said."""
    with pytest.raises(EnvironmentFailure, match=r"on worker .*no such thing"):
        dict(site.executor(do="crash").build(distinct(1)))


def test_ctrl_c_ends_the_build_and_all_it_started(site: Site) -> None:
    """Nothing goes on building that nobody waits for."""
    until = time.monotonic() + 60

    def interrupt() -> None:
        while not site.begun() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        dict(site.executor(do="wait").build(distinct(1)))
    thread.join()
    [note] = site.begun()
    pid = int(note.name.rpartition("-")[2])
    while _group(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _group(pid)


def _group(group: int) -> list[str]:
    """The living processes of a group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize("where", ["local", "local:0", "local:two", "10.0.0.1:8786", "-x"])
def test_a_place_that_is_none_is_refused(where: str) -> None:
    """With what to write instead."""
    with pytest.raises(UsageError, match="tcp://HOST:PORT"), connect(where):
        pass


def test_no_scheduler_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to start one."""
    monkeypatch.setattr("bisectorch.execute.dask.CONNECT_SECONDS", 1)
    with pytest.raises(EnvironmentFailure, match="dask scheduler"), connect("tcp://127.0.0.1:9"):
        pass
