from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from bisectorch.build.failures import Failures
from bisectorch.build.learned import REMEMBERED, Learned
from bisectorch.build.process import CappedLog, OverLimit, run, telling
from bisectorch.build.unpack import unpack
from bisectorch.errors import EnvironmentFailure


def do(log: Path, *command: str, **limits: float) -> int:
    """Run one command."""
    with CappedLog(log) as capped:
        return run(
            command,
            capped,
            cwd=log.parent,
            environment=dict(os.environ),
            **limits,  # type: ignore[arg-type]
        )


def test_a_command_is_heard_to_its_end(tmp_path: Path) -> None:
    """Both streams, and its status."""
    assert do(tmp_path / "log", "sh", "-c", "echo out; echo err >&2; exit 3") == 3
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]


def test_nothing_that_it_started_outlives_it(tmp_path: Path) -> None:
    """Not what it left in the background, either; and nobody waits for that to close the pipe."""
    started = time.monotonic()
    assert do(tmp_path / "log", "sh", "-c", "sleep 100 & echo $!") == 0
    pid = int((tmp_path / "log").read_text())
    state = Path("/proc", str(pid), "stat")
    for _ in range(200):
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.02)
    else:
        raise AssertionError("it still runs")
    assert time.monotonic() - started < 90


def test_a_command_that_is_none_is_told(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(EnvironmentFailure, match="cannot run /no/such/program: No such file"):
        do(tmp_path / "log", "/no/such/program")


def test_limits_are_limits(tmp_path: Path) -> None:
    """Of time and of memory, with what was said until then kept."""
    with pytest.raises(OverLimit, match="ran out of time"):
        do(tmp_path / "log", "sh", "-c", "echo said; sleep 100", deadline=time.monotonic() + 0.5)
    assert (tmp_path / "log").read_text() == "said\n"
    eater = "x = bytearray(1 << 27); import time; time.sleep(99)"
    with pytest.raises(OverLimit, match=r"0\.1 GiB"):
        do(tmp_path / "log", sys.executable, "-c", eater, memory_bytes=1 << 26)


def test_a_log_keeps_both_ends(tmp_path: Path) -> None:
    """Of very much output; of little, all."""
    with CappedLog(tmp_path / "log", 100) as log:
        log.write(b"beginning")
        for _ in range(1000):
            log.write(b"0123456789")
        log.write(b"the end")
    kept = (tmp_path / "log").read_bytes()
    assert kept.startswith(b"beginning")
    assert kept.endswith(b"the end")
    assert len(kept) < 300
    assert b"bytes left out" in kept
    with CappedLog(tmp_path / "log", 100) as log:
        log.write(b"x" * 90)
        log.write(b"y" * 90)
    assert (tmp_path / "log").read_bytes() == b"x" * 90 + b"y" * 90


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("cc -c a.c\na.c:1:2: error: expected ';'\nerror: command 'cc' failed\n", "a.c:1:2: error"),
        ("/usr/bin/ld: x.o: undefined reference to `f'\nmake: *** [x] Error 1\n", "/usr/bin/ld"),
        ("Traceback\n  File\nImportError: no module\n", "ImportError: no module"),
        ("error: subprocess-exited-with-error\nb.cpp:3: fatal error: x.h: No such\n", "b.cpp:3"),
        ("quiet\nlast words\n", "last words"),
        ("", "it said nothing"),
    ],
)
def test_the_telling_line_is_found(tmp_path: Path, said: str, line: str) -> None:
    """The compiler's own before what drove it."""
    (tmp_path / "log").write_text(said)
    assert telling(tmp_path / "log").startswith(line)


def test_what_builds_cost_is_kept(tmp_path: Path) -> None:
    """For later sessions, the latest so many; a damaged line costs only itself."""
    first = Learned(tmp_path / "store" / "learned.jsonl")
    first.add("source step", 10.0)
    with (tmp_path / "store" / "learned.jsonl").open("a") as file:
        file.write('{"x\n[1]\n["source step", "no number"]\n')
    for _ in range(REMEMBERED):
        Learned(tmp_path / "store" / "learned.jsonl").add("overlay", 0.5)
    again = Learned(tmp_path / "store" / "learned.jsonl").seconds()
    assert again == {"source step": (10.0,), "overlay": (0.5,) * REMEMBERED}
    for _ in range(REMEMBERED):
        first.add("source step", 20.0)
    assert first.seconds()["source step"] == (20.0,) * REMEMBERED


def test_a_failure_by_a_limit_is_forgotten_when_the_limit_is_raised(tmp_path: Path) -> None:
    """Other failures stay; and a damaged file is none."""
    failures = Failures(tmp_path)
    low, high = {"seconds": 10.0}, {"seconds": 20.0}
    failures.add("aa", "too slow", low, stopped=True)
    failures.add("bb", "broken", low, stopped=False)
    assert (failures.reason("aa", low), failures.reason("aa", high)) == ("too slow", None)
    assert failures.reason("bb", high) == "broken"
    (tmp_path / "cc.json").write_text("{")
    assert failures.reason("cc", low) is None
    assert failures.reason("dd", low) is None


@pytest.mark.parametrize("name", ["../outside.py", "/outside.py", "a/../../outside.py"])
def test_a_wheel_cannot_write_outside_its_tree(tmp_path: Path, name: str) -> None:
    """Whatever its names say."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        archive.writestr(name, "x")
    (tmp_path / "tree").mkdir()
    with pytest.raises(EnvironmentFailure, match="leaves its tree"):
        unpack(tmp_path / "x.whl", tmp_path / "tree")
    assert not list(tmp_path.rglob("outside.py"))


def test_a_wheels_parts_go_where_pip_puts_them(tmp_path: Path) -> None:
    """What is beside the packages, too; a script can be run; what is no wheel is told."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        for name in ("a/b.py", "x-1.data/purelib/c.py", "x-1.data/platlib/d.py"):
            archive.writestr(name, "x")
        script = zipfile.ZipInfo("x-1.data/scripts/run")
        script.external_attr = 0o755 << 16
        archive.writestr(script, "x")
    tree = tmp_path / "tree"
    tree.mkdir()
    unpack(tmp_path / "x.whl", tree)
    found = sorted(p.relative_to(tree).as_posix() for p in tree.rglob("*") if p.is_file())
    assert found == ["a/b.py", "bin/run", "c.py", "d.py"]
    assert os.access(tree / "bin" / "run", os.X_OK)
    (tmp_path / "y.whl").write_text("no")
    with pytest.raises(EnvironmentFailure, match="is not a wheel"):
        unpack(tmp_path / "y.whl", tmp_path / "tree")
