"""``bisectorch watch`` as cron calls it: a branch that moves on, kills, a hook, one at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from minihistory import MiniRepo, make_wheel, write_project

VALUE = "def value():\n    return {}\n"


@dataclass
class Branch:
    """A branch that moves on, and the project that watches it."""

    repo: MiniRepo
    config: Path
    shas: list[str] = field(default_factory=list)

    def move(self, *levels: int | None) -> None:
        """One commit a level; documentation alone for None."""
        for level in levels:
            number = len(self.shas)
            files = {"docs/x.md": f"{number}\n"}
            if level is not None:
                files["mini/nn/linear.py"] = VALUE.format(level) + f"# {number}\n"
            self.shas.append(self.repo.commit(f"Change {number}", files))

    def start(self, *more: str) -> subprocess.Popen[str]:
        """A call, under way."""
        command = [sys.executable, "-m", "bisectorch", "watch", "-b", "track_value"]
        return subprocess.Popen(
            [*command, "--config", str(self.config), *more],
            env={**os.environ, "HOME": str(self.config.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def look(self, *more: str) -> tuple[int, str]:
        """A call to its end: its code and what it said; never a traceback."""
        process = self.start(*more)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        assert out == "", "cron mails what is printed"
        return process.returncode, err

    @property
    def known(self) -> list[dict[str, object]]:
        """Every change that is remembered."""
        state = self.config.parent / "sessions" / "watch" / "main.json"
        known: list[dict[str, object]] = json.loads(state.read_bytes())["known"]
        return known

    def sessions(self) -> list[Path]:
        """The logs that are published."""
        return sorted((self.config.parent / "sessions").glob("*.jsonl"))


@pytest.fixture(scope="module")
def branch(tmp_path_factory: pytest.TempPathFactory) -> Branch:
    """One commit old."""
    root = tmp_path_factory.mktemp("watch")
    repo = MiniRepo(root / "repo")
    make_wheel(root / "wheels")
    config = write_project(
        root / "project", repo.path, root / "wheels", root / "store", env_dir=str(root / "env")
    )
    branch = Branch(repo, config)
    branch.move(100)
    return branch


def test_a_branch_is_watched(branch: Branch, tmp_path: Path) -> None:
    """The story of a branch: nothing, a regression in a gap, nothing again, its revert."""
    told, script = tmp_path / "told", tmp_path / "hook; touch $HOME `x`.py"
    script.write_text(f"import sys\nopen({str(told)!r}, 'a').write(sys.stdin.read() + chr(10))\n")
    hook = ("--hook", f"{sys.executable} '{script}'")
    assert branch.look(*hook)[0] == 1, "the first look has nothing to compare with"
    assert branch.look(*hook)[0] == 1
    branch.move(None, None)
    assert branch.look(*hook)[0] == 1
    assert not branch.sessions(), "documentation is not measured"
    branch.move(100, 100, 150, 150, None, 150)
    code, said = branch.look(*hook)
    assert code == 0, said
    regression = branch.shas[5]
    assert [each["commit"] for each in branch.known] == [regression]
    assert len(branch.sessions()) == 1, "the ends alone blame nobody, and are not published"
    assert branch.look(*hook)[0] == 1
    branch.move(150)
    assert branch.look(*hook)[0] == 1, "it is not found twice"
    branch.move(100)
    assert branch.look(*hook)[0] == 0
    assert [(each["commit"], each["closed_by"]) for each in branch.known] == [
        (regression, branch.shas[-1]),
        (branch.shas[-1], ""),
    ]
    news = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(each["event"], each["commit"]) for each in news] == [
        ("found", regression),
        ("closed", regression),
    ]


def test_a_killed_look_is_gone_on_with(branch: Branch) -> None:
    """kill -9 in the middle of a session: the next call ends that very session."""
    branch.look()
    branch.move(100, 100, 180, 180)
    culprit = branch.shas[-2]
    process = branch.start()
    until = time.monotonic() + 300
    state = branch.config.parent / "sessions" / "watch" / "main.json"
    log = None
    while log is None and time.monotonic() < until:
        running = json.loads(state.read_bytes())["running"] if state.exists() else ""
        logs = list(state.parent.parent.rglob(f"{running or '-'}.jsonl"))
        log = next((p for p in logs if p.read_bytes().count(b"\n") > 3), None)
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert log is not None
    kept = log.read_bytes().splitlines()[:4]
    code, said = branch.look()
    assert code == 0, said
    assert log.read_bytes().splitlines()[:4] == kept
    assert log.read_bytes().splitlines()[-1].startswith(b'{"end"')
    assert [each["commit"] for each in branch.known].count(culprit) == 1


def test_two_looks_do_not_meet(branch: Branch) -> None:
    """The second finds the first running and ends at once, as cron may start it any time."""
    branch.look()
    branch.move(180)
    first = branch.start()
    lock = branch.config.parent / "sessions" / "watch" / "main.json.lock"
    until = time.monotonic() + 300
    while not _holds(first, lock):
        assert first.poll() is None, "it ended before the other one began"
        assert time.monotonic() < until
        time.sleep(0.02)
    first.send_signal(signal.SIGSTOP)
    try:
        code, said = branch.look()
    finally:
        first.send_signal(signal.SIGCONT)
    assert (code, "is running" in said) == (1, True), said
    assert first.communicate(timeout=300)[0] == ""
    assert first.returncode in (0, 1)


def _holds(process: subprocess.Popen[str], path: Path) -> bool:
    """Whether it has the lock, without trying the lock: that would turn the process away."""
    if not path.exists():
        return False
    owner, inode = str(process.pid), str(path.stat().st_ino)
    held = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(each[4] == owner and each[5].endswith(f":{inode}") for each in held)


def test_a_branch_that_is_an_option_is_refused(branch: Branch) -> None:
    """It never reaches git."""
    code, said = branch.look("--", "--upload-pack=touch x")
    assert code == 2
    assert "is not a branch" in said
