"""Plain commands in turn: real shells, and a runner that runs nothing."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bisectorch.measure.child import Fault
from bisectorch.measure.commands import CommandMeasurer, Metric, Ran, run_command
from bisectorch.model import Block, Build, Observation, Outcome, Purpose, Route, Workload

OLD, NEW = (Build(sha, Route.CACHED, f"/{sha}", "") for sha in ("old", "new"))
COMMAND = Workload("./bench", timeout_seconds=5.0)


def block(measurer: CommandMeasurer) -> list[Observation]:
    """One block of both sides."""
    return list(measurer.measure_in_turn([Block(COMMAND, (OLD, NEW), "3", Purpose.COMPARE)]))


def test_the_wall_time_is_measured_in_the_sides_directory(tmp_path: Path) -> None:
    """And what the command says does not reach our own output."""
    (tmp_path / "here").touch()
    ran = run_command("test -e here && sleep 0.05", str(tmp_path), timeout_seconds=5)
    assert 0.05 <= ran.value == ran.seconds < 4


def test_the_number_on_the_last_line_is_the_value(tmp_path: Path) -> None:
    """Blank lines after it do not count, words before it do not matter."""
    command = "echo 1; echo; echo 'best of three: 42.5'; echo"
    ran = run_command(command, str(tmp_path), timeout_seconds=5, metric=Metric.PRINTED)
    assert ran.value == 42.5


def test_processor_time_is_that_of_the_command_and_its_children(tmp_path: Path) -> None:
    """Sleeping costs none; a child's work counts."""
    idle = run_command("sleep 0.3", str(tmp_path), timeout_seconds=60, metric=Metric.CPU)
    assert idle.value < 0.2 < idle.seconds
    work = f"{sys.executable} -c 'sum(range(5000000))'; true"
    busy = run_command(work, str(tmp_path), timeout_seconds=60, metric=Metric.CPU)
    assert busy.value > 0.02


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo out; echo why >&2; exit 3", "exit status 3: why"),
        ("echo only out; exit 1", "exit status 1: only out"),
        ("kill -9 $$", "exit status -9"),
        ("no-such-command-anywhere", "exit status 127: "),
    ],
)
def test_a_command_that_fails_says_how(tmp_path: Path, command: str, reason: str) -> None:
    """Its status and its last line."""
    with pytest.raises(Fault) as raised:
        run_command(command, str(tmp_path), timeout_seconds=5)
    assert raised.value.outcome is Outcome.FAILED
    assert raised.value.reason.startswith(reason)


@pytest.mark.parametrize("command", ["echo no number", "true", "echo nan", "echo 1 inf"])
def test_a_last_line_without_a_number_is_a_failure(tmp_path: Path, command: str) -> None:
    """And not a zero."""
    with pytest.raises(Fault, match="its last line holds no number"):
        run_command(command, str(tmp_path), timeout_seconds=5, metric=Metric.PRINTED)


def test_a_command_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    """The child of the shell too."""
    with pytest.raises(Fault) as raised:
        run_command("sleep 600 & echo $! > pid; wait", str(tmp_path), timeout_seconds=0.5)
    assert raised.value.outcome is Outcome.TIMED_OUT
    assert raised.value.reason == "no end within 0.5 s"
    child = Path("/proc") / (tmp_path / "pid").read_text().strip()
    for _ in range(100):
        if not child.exists() or "Z" in (child / "stat").read_text().split(")")[1][:3]:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child lives on")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="cores are Linux's")
def test_a_core_is_kept_to_when_one_is_given(tmp_path: Path) -> None:
    """From the very start of the command."""
    core = sorted(os.sched_getaffinity(0))[-1]
    command = "taskset -cp $$ | sed 's/.*: //'"
    ran = run_command(command, str(tmp_path), timeout_seconds=5, metric=Metric.PRINTED, core=core)
    assert ran.value == core


class Script:
    """Runs that take as long as it says, in a diary."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds
        self.diary: list[str] = []

    def __call__(self, command: str, directory: str, **options: Any) -> Ran:
        """One run."""
        side = directory.strip("/")
        self.diary.append(side)
        if self.seconds[side] < 0:
            raise Fault(Outcome.FAILED, "boom")
        return Ran(self.seconds[side], self.seconds[side])


def test_a_slow_command_is_run_once_a_block_in_random_order() -> None:
    """Both sides in each block, neither always first."""
    script = Script(old=1.0, new=1.5)
    measurer = CommandMeasurer(run=script)
    assert measurer.warm_up(OLD, COMMAND) == 1.0
    blocks = [block(measurer) for _ in range(12)]
    assert all([o.sha for o in seen] == ["old", "new"] for seen in blocks)
    assert blocks[0][1].runs[0].value == 1.5
    assert blocks[0][0].runs[0].block == "3.0"
    firsts = script.diary[1::2]
    assert {"old", "new"} == set(firsts)


def test_a_fast_command_fills_a_block() -> None:
    """As many runs as fill a fifth of a second, and not more than twenty."""
    script = Script(old=0.05, new=0.001)
    measurer = CommandMeasurer(run=script)
    measurer.warm_up(OLD, COMMAND)
    assert len(block(measurer)[0].runs[0].samples) == 4
    measurer.warm_up(NEW, COMMAND)
    assert len(block(measurer)[0].runs[0].samples) == 20


def test_a_side_that_fails_is_told_and_the_other_measured() -> None:
    """It is not run again in that block."""
    script = Script(old=0.1, new=-1.0)
    measurer = CommandMeasurer(run=script)
    measurer.warm_up(OLD, COMMAND)
    old, new = block(measurer)
    assert (old.outcome, new.outcome, new.reason) == (Outcome.MEASURED, Outcome.FAILED, "boom")
    assert script.diary.count("new") == 1


def test_a_known_side_is_a_number_and_costs_nothing() -> None:
    """The baseline of another day."""
    script = Script(new=2.0)
    measurer = CommandMeasurer(run=script, known={"old": 1.25})
    assert measurer.warm_up(OLD, COMMAND) == 0.0
    old, new = block(measurer)
    assert (old.runs[0].value, old.runs[0].seconds, new.runs[0].value) == (1.25, 0.0, 2.0)
    assert script.diary == ["new"]
