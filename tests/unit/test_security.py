"""Our own surface: data is not run, what is unpacked stays inside, names are no options."""

from __future__ import annotations

import ast
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bisectorch.build import parcel
from bisectorch.build.store import Store
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.history import GitHistory, PathClasses
from minihistory import MiniRepo

PACKAGE = Path(__file__).resolve().parents[2] / "tools" / "bisectorch"
ALLOWED = {
    ("measure/worker.py", "pickle"): "asv's setup_cache, by and for processes of one build",
    ("measure/commands.py", "shell"): "the command that the user typed",
}
KEY = "ab" * 32


def uses(path: Path) -> Iterator[str]:
    """What a module uses that runs data as code."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        for name in names:
            if name.split(".")[0] in ("pickle", "marshal", "shelve", "yaml", "dill", "joblib"):
                yield name.split(".")[0]
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("eval", "exec", "os.system", "os.popen", "compile", "__import__"):
                yield called
            for keyword in node.keywords:
                is_set = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                if keyword.arg == "shell" and is_set:
                    yield "shell"


def test_no_data_is_run_as_code() -> None:
    """No eval, no pickle, no shell; the exceptions have a reason each."""
    found = {
        (path.relative_to(PACKAGE).as_posix(), what)
        for path in PACKAGE.rglob("*.py")
        for what in uses(path)
    }
    assert found <= ALLOWED.keys(), found - ALLOWED.keys()


def test_the_walk_would_notice(tmp_path: Path) -> None:
    """Each kind is recognised."""
    (tmp_path / "a.py").write_text(
        "import pickle\nfrom yaml import load\neval('1')\nf(x, shell=True)\nos.system('x')\n"
    )
    assert set(uses(tmp_path / "a.py")) == {"pickle", "yaml", "eval", "shell", "os.system"}


@pytest.mark.parametrize(
    "spec", ["--upload-pack=x..HEAD", "HEAD..--output=x", "-n1..HEAD", "--output=stolen"]
)
def test_a_name_that_looks_like_an_option_never_reaches_git(tmp_path: Path, spec: str) -> None:
    """Neither as FROM nor as TO."""
    repo = MiniRepo(tmp_path / "repo")
    repo.commit("one", {"a": "1"})
    repo.commit("two", {"a": "2"})
    history = GitHistory(repo.path, PathClasses())
    with pytest.raises(UsageError):
        history.range(spec)
    with pytest.raises(UsageError):
        history.commit(spec)
    assert not list(tmp_path.rglob("stolen"))


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A parcel that says of itself that it is KEY, with these members beside."""
    stamp = json.dumps({"key": KEY, "digest": "?", "kind": "source"}).encode()
    with tarfile.open(path, "w") as archive:
        for info, data in ((tarfile.TarInfo("stamp.json"), stamp), *members):
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    """A symbolic link as a member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info, b""


def plain(name: str) -> tuple[tarfile.TarInfo, bytes]:
    """A file as a member."""
    return tarfile.TarInfo(name), b"x"


@pytest.mark.parametrize(
    "members",
    [
        [plain("tree/../../stolen")],
        [plain("/tmp/stolen")],
        [plain("stolen")],
        [link("tree/out", "../../../stolen")],
        [link("tree/out", "/etc/passwd")],
        [link("tree/inner", "."), plain("tree/inner/stolen")],
        [link("tree/a", "b"), plain("tree/a")],
    ],
    ids=lambda members: " then ".join(info.name for info, _ in members),
)
def test_a_parcel_stays_in_its_tree(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    """No name and no link leads out of it, nor through a link of its own."""
    store = Store(tmp_path / "store")
    with pytest.raises(EnvironmentFailure, match="out of its tree"):
        parcel.take(store, KEY, packed(tmp_path / "parcel", *members))
    assert store.get(KEY) is None
    assert not list(tmp_path.rglob("stolen"))


def test_a_device_in_a_parcel_is_refused(tmp_path: Path) -> None:
    """Files, directories and links alone."""
    info = tarfile.TarInfo("tree/pipe")
    info.type = tarfile.FIFOTYPE
    with pytest.raises(EnvironmentFailure, match="is no file"):
        parcel.take(Store(tmp_path / "s"), KEY, packed(tmp_path / "parcel", (info, b"")))


def test_a_parcel_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    """Cut, changed, or another one's: none is taken for the build."""
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    here.make(KEY, lambda tree: (tree / "a.py").write_text("x = 1\n") and None, {"kind": "source"})
    path = tmp_path / "parcel"
    with path.open("wb") as file:
        parcel.pack(here, KEY, file)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 3], whole.replace(b"a.py", b"b.py"), b"", b"\0" * 4096):
        path.write_bytes(damaged)
        with pytest.raises(EnvironmentFailure, match="is not taken"):
            parcel.take(there, KEY, path)
    path.write_bytes(whole)
    with pytest.raises(EnvironmentFailure, match="is not taken"):
        parcel.take(there, "cd" * 32, path)
    assert not list(there.entries())
    tree = parcel.take(there, KEY, path)
    assert (tree / "a.py").read_text() == "x = 1\n"
    assert not list(there.faults(KEY))
