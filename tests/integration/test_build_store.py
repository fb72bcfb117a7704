from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from bisectorch.build import Store
from bisectorch.build.unpack import unpack
from bisectorch.errors import EnvironmentFailure, Unbuildable
from minihistory import make_wheel

KEY = "ab" * 32
OTHER = "cd" * 32


def one_file(tree: Path) -> None:
    """A maker."""
    (tree / "file").write_text("content")


def leftovers(store: Store) -> list[Path]:
    """What is in tmp/."""
    return list((store.root / "tmp").glob("*/*"))


def test_a_tree_is_there_once_it_is_made(tmp_path: Path) -> None:
    """Made once; a second store on the same root finds it, and its stamp says what it is."""
    store = Store(tmp_path / "store")
    assert store.get(KEY) is None
    tree = store.make(KEY, one_file, {"kind": "test"})
    assert (tree / "file").read_text() == "content"

    def never(_: Path) -> None:
        raise AssertionError("made twice")

    again = Store(tmp_path / "store")
    assert again.make(KEY, never, {}) == again.get(KEY) == tree
    about = again.about(KEY)
    assert about
    assert about["kind"] == "test"
    assert leftovers(store) == []


def test_a_maker_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Its own error comes through, and the next one may succeed."""
    store = Store(tmp_path)

    def fails(tree: Path) -> None:
        one_file(tree)
        raise Unbuildable("no")

    with pytest.raises(Unbuildable):
        store.make(KEY, fails, {})
    assert store.get(KEY) is None
    assert leftovers(store) == []
    assert store.make(KEY, one_file, {}) == store.get(KEY)


SLOW_MAKER = """
import sys, time
from pathlib import Path
from bisectorch.build import Store
from bisectorch.build.unpack import unpack

def make(tree):
    (tree / "file").write_text("half")
    print("making", flush=True)
    time.sleep(float(sys.argv[3]))
    (tree / "file").write_text(f"whole by {sys.argv[4]}")

print(Store(Path(sys.argv[1])).make(sys.argv[2], make, {}), flush=True)
"""


def slow_maker(root: Path, seconds: float, name: str) -> subprocess.Popen[str]:
    """Another process that makes KEY."""
    return subprocess.Popen(
        [sys.executable, "-c", SLOW_MAKER, root, KEY, str(seconds), name],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_maker_leaves_nothing_that_is_trusted(tmp_path: Path) -> None:
    """kill -9 in the middle; the next caller makes it whole and the remains are gone."""
    process = slow_maker(tmp_path, 60, "killed")
    assert process.stdout
    assert process.stdout.readline() == "making\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = Store(tmp_path)
    [remains] = leftovers(store)
    assert (remains / "tree" / "file").read_text() == "half"
    assert store.get(KEY) is None
    store.make(OTHER, one_file, {})
    assert leftovers(store) == [], "swept by whoever makes something next"
    assert (store.make(KEY, one_file, {}) / "file").read_text() == "content"


def test_the_sweep_leaves_a_living_maker_alone(tmp_path: Path) -> None:
    """Its lock is held, so what it has done so far is not taken for remains."""
    process = slow_maker(tmp_path, 1.0, "living")
    assert process.stdout
    assert process.stdout.readline() == "making\n"
    Store(tmp_path).make(OTHER, one_file, {})
    process.communicate()
    tree = Store(tmp_path).get(KEY)
    assert tree
    assert (tree / "file").read_text() == "whole by living"


def test_two_processes_make_one_tree(tmp_path: Path) -> None:
    """Started together, one makes and the other waits; both get the same whole tree."""
    processes = [slow_maker(tmp_path, 0.5, name) for name in ("one", "two")]
    said = [process.communicate()[0].splitlines() for process in processes]
    assert sorted(len(lines) for lines in said) == [1, 2], "one of them made it"
    assert said[0][-1] == said[1][-1]
    assert (Path(said[0][-1]) / "file").read_text().startswith("whole")


def test_threads_make_one_tree(tmp_path: Path) -> None:
    """The lock also holds inside one process, and other keys do not wait for it."""
    store = Store(tmp_path)
    made: list[str] = []
    other_done = threading.Event()

    def slow(tree: Path) -> None:
        assert other_done.wait(30), "another key had to wait"
        made.append("slow")
        one_file(tree)

    threads = [threading.Thread(target=store.make, args=(KEY, slow, {})) for _ in range(4)]
    for thread in threads:
        thread.start()
    store.make(OTHER, one_file, {})
    other_done.set()
    for thread in threads:
        thread.join()
    assert made == ["slow"]


@pytest.mark.parametrize("damage", ["", "{", '{"key": "other", "version": 1}', "[]"])
def test_a_damaged_stamp_is_not_trusted(tmp_path: Path, damage: str) -> None:
    """The tree is made afresh."""
    store = Store(tmp_path)
    stamp = store.make(KEY, one_file, {}).parent / "stamp.json"
    stamp.write_text(damage)
    assert store.get(KEY) is None
    tree = store.make(KEY, lambda tree: (tree / "new").touch(), {})
    assert [path.name for path in tree.iterdir()] == ["new"]
    assert json.loads(stamp.read_text())["key"] == KEY


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permissions"),
    ],
)
def test_a_disk_that_refuses_the_content_is_one_clear_line(
    tmp_path: Path, number: int, says: str
) -> None:
    """With the way out; nothing stays behind."""
    store = Store(tmp_path)

    def refused(tree: Path) -> None:
        one_file(tree)
        raise OSError(number, os.strerror(number))

    with pytest.raises(EnvironmentFailure, match=says) as caught:
        store.make(KEY, refused, {})
    assert "BISECTORCH_STORE" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert store.get(KEY) is None
    assert leftovers(store) == []


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_fills_up_at_the_stamp_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Until the very last step a tree is not trusted."""
    store = Store(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(EnvironmentFailure, match="the disk is full"):
        store.make(KEY, one_file, {})
    monkeypatch.undo()
    assert store.get(KEY) is None
    assert leftovers(store) == []
    assert store.make(KEY, one_file, {}) == store.get(KEY)


def test_a_root_that_cannot_be_a_directory_is_told(tmp_path: Path) -> None:
    """A file stands in its place."""
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match="BISECTORCH_STORE"):
        Store(tmp_path / "file" / "store").make(KEY, one_file, {})


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """Before anything is read or written."""
    Store(tmp_path).make(KEY, one_file, {})
    (tmp_path / "version").write_text("2\n")
    with pytest.raises(EnvironmentFailure, match="newer version"):
        Store(tmp_path)


def test_removing_remains_follows_no_link(tmp_path: Path) -> None:
    """A failed tree's links into others are removed, not what they point to."""
    store = Store(tmp_path)
    base = store.make(OTHER, one_file, {})

    def links(tree: Path) -> None:
        (tree / "base").symlink_to(base)
        raise Unbuildable("no")

    with pytest.raises(Unbuildable):
        store.make(KEY, links, {})
    assert (base / "file").read_text() == "content"


def test_the_stamp_says_when_and_how_long(tmp_path: Path) -> None:
    """Seconds since the epoch, and seconds."""
    before = int(time.time())
    store = Store(tmp_path)
    store.make(KEY, one_file, {})
    about = store.about(KEY)
    assert about
    assert before <= int(str(about["created"])) <= time.time()
    assert float(str(about["seconds"])) >= 0


HOLDER = """
import sys
from pathlib import Path
from bisectorch.build import Store
from bisectorch.build.unpack import unpack
store = Store(sys.argv[1])
assert store.get(sys.argv[2])
print("holding", flush=True)
sys.stdin.read()
"""


def sized(store: Store, key: str, size: int, **about: object) -> Path:
    """A tree of so many bytes."""
    return store.make(key, lambda tree: (tree / "x").write_bytes(bytes(size)) and None, about)


def keys(store: Store) -> set[str]:
    """What is there."""
    return {entry.key for entry in store.entries()}


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    """Until the rest fits; what was used again stays."""
    store = Store(tmp_path)
    for age, key in enumerate(["aa", "bb", "cc"]):
        sized(store, key, 1000)
        os.utime(tmp_path / "trees" / key / key / "stamp.json", (age + 1, age + 1))
    another = Store(tmp_path)
    assert another.get("aa")
    another.release()
    store.release()
    assert store.prune(2000) == ["bb"]
    assert keys(store) == {"aa", "cc"}
    assert not list((tmp_path / "tmp").glob("*/*"))


def test_what_a_running_session_holds_stays(tmp_path: Path) -> None:
    """As long as it runs; one that was killed holds nothing."""
    store = Store(tmp_path)
    sized(store, "aa", 1000)
    store.release()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), "aa"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout
    assert holder.stdout.readline() == "holding\n"
    assert store.held() == {"aa"}
    assert store.prune(0) == []
    holder.kill()
    holder.communicate()
    assert store.prune(0) == ["aa"]
    assert not list((tmp_path / "holds").glob("*.keys")) or not store.held()


def test_a_base_goes_with_all_that_is_laid_over_it(tmp_path: Path) -> None:
    """And stays while any of that is held."""
    store, session = Store(tmp_path), Store(tmp_path)
    sized(store, "aa", 1000, kind="source")
    sized(store, "bb", 10, kind="overlay", base="aa")
    store.release()
    assert session.get("bb")
    assert store.prune(0) == []
    session.release()
    assert sorted(store.prune(0)) == ["aa", "bb"]


def test_it_stays_within_its_size_by_itself(tmp_path: Path) -> None:
    """When a native build was added; the newest is held, so it is not the one to go."""
    for key in ("aa", "bb", "cc"):
        sized(Store(tmp_path, 2500), key, 1000, kind="source")
    assert "cc" in keys(Store(tmp_path))
    assert len(keys(Store(tmp_path))) == 2


def test_damage_is_found(tmp_path: Path) -> None:
    """A file that is gone or grew, a link that leads nowhere; what is whole has no fault."""
    store = Store(tmp_path)
    base, gone = sized(store, "aa", 10), sized(store, "bb", 10)
    store.make("cc", lambda tree: (tree / "link").symlink_to(gone / "x"), {})
    assert [list(store.faults(key)) for key in ("aa", "bb", "cc")] == [[], [], []]
    (base / "more").write_text("more")
    (gone / "x").unlink()
    assert "its files changed: 1 were made, 2 are there" in list(store.faults("aa"))
    assert "its files changed: 1 were made, 0 are there" in list(store.faults("bb"))
    assert list(store.faults("cc")) == ["its link link leads nowhere"]


def test_a_content_that_its_wheel_did_not_record_is_found(tmp_path: Path) -> None:
    """Of the same size, so that only the checksum tells."""
    wheel = make_wheel(tmp_path / "wheels")
    store = Store(tmp_path / "store")
    tree = store.make("aa", lambda tree: unpack(wheel, tree), {})
    assert list(store.faults("aa")) == []
    text = (tree / "mini" / "ops.py").read_text()
    (tree / "mini" / "ops.py").write_text(text.replace("1", "2"))
    assert list(store.faults("aa")) == ["the content of mini/ops.py is not what its wheel recorded"]


def test_a_read_only_store_can_still_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there serves; what would have to be made is refused in one line."""
    sized(Store(tmp_path), "aa", 10)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("mkdir", "write_text", "touch"):
        monkeypatch.setattr(Path, name, read_only)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    store = Store(tmp_path)
    assert store.get("aa") == tmp_path / "trees" / "aa" / "aa" / "tree"
    with pytest.raises(EnvironmentFailure, match="read-only file system: choose another place"):
        sized(store, "bb", 10)


def test_a_forked_child_does_not_let_go_of_what_its_parent_holds(tmp_path: Path) -> None:
    """It ends with a copy of everything that its parent has."""
    store = Store(tmp_path)
    sized(store, "aa", 10)
    child = os.fork()
    if not child:
        store.__init__(tmp_path / "elsewhere")  # type: ignore[misc]
        os._exit(0)
    os.waitpid(child, 0)
    assert Store(tmp_path).held() == {"aa"}
