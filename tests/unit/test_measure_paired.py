"""The rounds of a measurer, with fake workers and a fake clock."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from bisectorch.errors import UsageError
from bisectorch.measure.child import Fault
from bisectorch.measure.paired import PairedMeasurer
from bisectorch.model import Block, Build, Observation, Outcome, Purpose, Route, Workload

WORKLOAD = Workload("mod.time_it", ("10",), 2)


@dataclass
class Stage:
    """The machine the fakes share: one clock, a speed that drifts, a diary of all commands."""

    seconds: float = 0.0
    drift: float = 0.0
    level: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[tuple[str, str], Fault] = field(default_factory=dict)
    sampled: bool = True
    cache_key: str | None = None
    diary: list[tuple[str, str]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)
    environments: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    alive: set[FakeWorker] = field(default_factory=set)
    most_alive: int = 0

    def start(
        self, build: Build, environment: Mapping[str, str], directory: Path, core: int | None
    ) -> FakeWorker:
        """A worker that does as the stage says."""
        self.environments.append((build.sha, environment))
        worker = FakeWorker(self, build.sha)
        self.alive.add(worker)
        self.most_alive = max(self.most_alive, len(self.alive))
        assert directory.is_dir()
        return worker

    def measurer(self, tmp_path: Path, **options: Any) -> PairedMeasurer:
        """A measurer on this stage."""
        return PairedMeasurer(
            tmp_path, start=self.start, clock=lambda: self.seconds, cache_dir=tmp_path, **options
        )


@dataclass(eq=False)
class FakeWorker:
    """Answers as a real worker would, without a process."""

    stage: Stage
    sha: str
    waiting: deque[str] = field(default_factory=deque)

    def send(self, command: str, timeout_seconds: float, **arguments: Any) -> None:
        """Note the command."""
        assert self in self.stage.alive
        assert timeout_seconds > 0
        self.waiting.append(command)
        self.stage.commands.append({"do": command, **arguments})

    def answer(self) -> Any:
        """As the stage has it."""
        command = self.waiting.popleft()
        stage = self.stage
        stage.diary.append((command, self.sha))
        stage.seconds += 0.01
        fault = stage.faults.get((command, self.sha))
        if fault is not None:
            raise fault
        level = stage.level.get(self.sha, 1.0)
        if command == "load":
            return {"sampled": stage.sampled, "cache_key": stage.cache_key, "cache_timeout": None}
        if command == "calibrate":
            return {"number": 1, "wall_seconds": 0.01, "most": None, "most_seconds": None}
        if command == "sample":
            return level * math.exp(stage.drift * stage.seconds)
        if command == "run":
            return {"samples": [level], "number": 1}
        return None

    def ask(self, command: str, timeout_seconds: float, **arguments: Any) -> Any:
        """Both."""
        self.send(command, timeout_seconds, **arguments)
        return self.answer()

    def pin(self, core: int) -> None:
        """Fakes have no core."""

    def close(self) -> None:
        """Leave the stage."""
        self.stage.alive.discard(self)


def builds(*shas: str) -> list[Build]:
    """Builds that nothing is at."""
    return [Build(sha, Route.CACHED, f"/trees/{sha}", "python") for sha in shas]


def observe(measurer: PairedMeasurer, names: str, runs: int) -> list[Observation]:
    """All observations of builds named by single letters."""
    return list(measurer.measure(builds(*names), WORKLOAD, runs, "b", Purpose.GRID))


def test_a_round_is_a_block_and_yields_each_build(tmp_path: Path) -> None:
    """In the order of the builds, one run each, the block named after the round."""
    stage = Stage()
    seen = observe(stage.measurer(tmp_path, samples=4), "abc", 2)
    assert [(o.sha, o.runs[0].block) for o in seen] == [
        (sha, block) for block in ("b.0", "b.1") for sha in "abc"
    ]
    assert {(o.workload, o.outcome, o.purpose) for o in seen} == {
        (WORKLOAD.name, Outcome.MEASURED, Purpose.GRID)
    }
    assert all(len(o.runs[0].samples) == 4 for o in seen)
    assert not stage.alive


def test_builds_of_one_commit_keep_their_salts(tmp_path: Path) -> None:
    """Side by side in one block, what is measured and what fails."""
    stage = Stage(level={"a": 2.0})
    pair = [replace(build, salt=salt) for salt in (0, 3) for build in builds("a")]
    measurer = stage.measurer(tmp_path, samples=4)
    seen = list(measurer.measure(pair, WORKLOAD, 1, "b", Purpose.REBUILD))
    assert [(o.sha, o.salt, o.outcome) for o in seen] == [
        ("a", salt, Outcome.MEASURED) for salt in (0, 3)
    ]


def test_strong_drift_does_not_touch_the_ratio(tmp_path: Path) -> None:
    """The machine slows down fourfold in each round; the ratio is 1.05 all the same."""
    stage = Stage(drift=1.0, level={"a": 2.0, "b": 2.1})
    seen = observe(stage.measurer(tmp_path), "ab", 3)
    for old, new in zip(seen[::2], seen[1::2], strict=True):
        assert new.runs[0].value / old.runs[0].value == pytest.approx(1.05, rel=0.012)


def test_runs_cost_the_wall_time_of_their_rounds(tmp_path: Path) -> None:
    """The seconds of all runs add up to what the clock says."""
    stage = Stage()
    seen = observe(stage.measurer(tmp_path), "abc", 2)
    assert math.fsum(o.runs[0].seconds for o in seen) == pytest.approx(stage.seconds)


def test_all_builds_of_a_round_are_alive_together(tmp_path: Path) -> None:
    """And no more, unless the next round's are being started."""
    stage = Stage()
    observe(stage.measurer(tmp_path, samples=2, overlap=False), "abc", 3)
    assert stage.most_alive == 3


def test_overlap_starts_the_next_round_early_and_kills_what_is_not_wanted(tmp_path: Path) -> None:
    """A build that fails while measured is not measured in the round already started."""
    fault = Fault(Outcome.FAILED, "no")
    stage = Stage(faults={("sample", "b"): fault})
    measurer = stage.measurer(tmp_path, samples=2)
    measurer._overlap = True  # whatever this machine's cores
    measurer._others = [0]
    seen = observe(measurer, "abc", 2)
    assert stage.most_alive == 6
    assert [o.sha for o in seen] == ["a", "b", "c", "a", "c"]
    assert stage.diary.count(("load", "b")) == 1
    assert not stage.alive


@pytest.mark.parametrize("command", ["load", "setup", "calibrate", "sample", "teardown"])
def test_one_build_failing_leaves_the_others_measured(tmp_path: Path, command: str) -> None:
    """Its outcome is told once, with its reason, and it is left out of later rounds."""
    stage = Stage(faults={(command, "b"): Fault(Outcome.TIMED_OUT, "slow")})
    seen = observe(stage.measurer(tmp_path, samples=2), "abc", 2)
    assert [(o.sha, o.outcome) for o in seen] == [
        ("a", Outcome.MEASURED),
        ("b", Outcome.TIMED_OUT),
        ("c", Outcome.MEASURED),
        ("a", Outcome.MEASURED),
        ("c", Outcome.MEASURED),
    ]
    assert (seen[1].runs, seen[1].reason) == ((), "slow")
    assert not stage.alive


def test_nothing_is_left_to_measure_when_all_fail(tmp_path: Path) -> None:
    """One outcome each, and the rounds end."""
    faults = {("setup", sha): Fault(Outcome.FAILED, "no") for sha in "ab"}
    seen = observe(Stage(faults=faults).measurer(tmp_path), "ab", 5)
    assert [o.outcome for o in seen] == [Outcome.FAILED] * 2


def test_closing_early_kills_every_worker(tmp_path: Path) -> None:
    """A caller that has seen enough closes the generator."""
    stage = Stage()
    rounds = stage.measurer(tmp_path, samples=2).measure(
        builds("a", "b"), WORKLOAD, 9, "b", Purpose.REPEAT
    )
    next(rounds)
    rounds.close()  # type: ignore[attr-defined]
    assert not stage.alive


def test_an_interrupt_kills_every_worker(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a sample."""
    stage = Stage(faults={("sample", "b"): KeyboardInterrupt()})  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        observe(stage.measurer(tmp_path), "ab", 1)
    assert not stage.alive


def test_setup_cache_is_run_once_for_a_build(tmp_path: Path) -> None:
    """By a process of its own, before the first round's setups; all rounds read the same."""
    stage = Stage(cache_key="mod:3")
    with stage.measurer(tmp_path, samples=2) as measurer:
        observe(measurer, "ab", 3)
        observe(measurer, "ab", 1)
        setups = [c["cache_dir"] for c in stage.commands if c["do"] == "setup"]
        assert len(setups) == 8
        assert len(set(setups)) == 2
        assert all(Path(directory).is_dir() for directory in setups)
    assert stage.diary.count(("fill_cache", "a")) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_failing_setup_cache_is_the_builds_outcome(tmp_path: Path) -> None:
    """And is not tried again."""
    stage = Stage(cache_key="k", faults={("fill_cache", "b"): Fault(Outcome.FAILED, "full")})
    measurer = stage.measurer(tmp_path, samples=2)
    for _ in range(2):
        seen = observe(measurer, "ab", 1)
        assert [(o.outcome, o.reason) for o in seen] == [
            (Outcome.MEASURED, ""),
            (Outcome.FAILED, "full"),
        ]
    assert stage.diary.count(("fill_cache", "b")) == 1


def test_a_tracked_number_is_asked_for_once(tmp_path: Path) -> None:
    """No calibration, no samples in turn."""
    stage = Stage(sampled=False, level={"a": 0.0, "b": -3.0})
    seen = observe(stage.measurer(tmp_path), "ab", 2)
    assert [o.runs[0].value for o in seen] == [0.0, -3.0, 0.0, -3.0]
    told = {command for command, _ in stage.diary}
    assert told == {"load", "setup", "call_once", "run", "teardown"}


def test_layout_is_the_same_in_a_round_and_varies_between_rounds(tmp_path: Path) -> None:
    """What the environment does to memory cancels in a ratio and is sampled over rounds."""
    stage = Stage()
    observe(stage.measurer(tmp_path, samples=2), "ab", 4)
    layouts = [
        (environment["PYTHONHASHSEED"], len(environment["BISECTORCH_PADDING"]))
        for _, environment in stage.environments
    ]
    assert layouts[::2] == layouts[1::2]
    assert len(set(layouts)) == 4


def test_the_worker_is_told_the_benchmark_and_its_parameters(tmp_path: Path) -> None:
    """As asv_runner names them, with the attributes that override the benchmark's own."""
    stage = Stage()
    attributes = {"number": 3, "cpu_affinity": [0]}
    observe(stage.measurer(tmp_path, samples=2, attributes=attributes), "a", 1)
    load = stage.commands[0]
    assert load["name"] == "mod.time_it-2"
    assert load["benchmark_dir"] == str(tmp_path)
    assert load["attributes"] == {"number": 3}


def test_the_child_sees_the_tree_and_the_builds_own_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing that steers our own Python."""
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONSTARTUP", "/elsewhere/x.py")
    stage = Stage()
    tree = Build("a", Route.CACHED, "/trees/a", "python", {"OMP_NUM_THREADS": "1"})
    bare = Build("b", Route.CACHED, "", "python", {"PYTHONHASHSEED": "7"})
    list(stage.measurer(tmp_path, samples=2).measure([tree, bare], WORKLOAD, 1, "b", Purpose.ENDS))
    first, second = (environment for _, environment in stage.environments)
    assert (first["PYTHONPATH"], first["OMP_NUM_THREADS"]) == ("/trees/a", "1")
    assert first["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "PYTHONSTARTUP" not in first
    assert "PYTHONPATH" not in second
    assert second["PYTHONHASHSEED"] == "7"


IN_TURN = tuple(Workload(f"mod.time_{letter}") for letter in "xyz")


def in_turn(measurer: PairedMeasurer, *workloads: Workload) -> list[Observation]:
    """One block of each workload on two builds."""
    chosen = workloads or IN_TURN
    pair = tuple(builds("a", "b"))
    blocks = [Block(workload, pair, "7", Purpose.COMPARE) for workload in chosen]
    return list(measurer.measure_in_turn(blocks))


def test_many_workloads_start_each_build_once(tmp_path: Path) -> None:
    """Every workload is a block of its own, in copies that are set up and ended."""
    stage = Stage(level={"a": 2.0, "b": 2.1})
    seen = in_turn(stage.measurer(tmp_path, samples=4))
    assert len(stage.environments) == 2
    assert sorted(o.workload for o in seen) == sorted([w.name for w in IN_TURN] * 2)
    assert [o.sha for o in seen] == ["a", "b"] * 3
    assert {o.runs[0].block for o in seen} == {"7.0"}
    for old, new in zip(seen[::2], seen[1::2], strict=True):
        assert new.runs[0].value / old.runs[0].value == pytest.approx(1.05)
    for command in ("fork", "setup", "teardown", "end"):
        assert stage.diary.count((command, "a")) == 3
    assert not stage.alive
    assert list(tmp_path.glob("bisectorch-*/*")) == []


def test_the_copies_of_a_block_share_their_padding_and_each_block_has_its_own(
    tmp_path: Path,
) -> None:
    """As the environment's does."""
    stage = Stage()
    in_turn(stage.measurer(tmp_path, samples=2))
    paddings = [c["padding"] for c in stage.commands if c["do"] == "fork"]
    assert paddings[::2] == paddings[1::2]
    assert len(set(paddings)) == 3
    directories = [c["directory"] for c in stage.commands if c["do"] == "fork"]
    assert len(set(directories)) == 6


@pytest.mark.parametrize("command", ["fork", "setup", "calibrate", "sample", "teardown", "end"])
def test_what_fails_in_a_copy_is_tried_in_a_fresh_process(tmp_path: Path, command: str) -> None:
    """Only a fresh process's fault is told; the other workloads go on in copies."""
    stage = Stage()
    measurer = stage.measurer(tmp_path, samples=2)
    faults = {(command, "b"): Fault(Outcome.FAILED, "torn")}
    shy = IN_TURN[1]
    fresh = measurer.measure

    def measure(*arguments: Any) -> Any:
        stage.faults = {}
        return fresh(*arguments)

    def copies(*arguments: Any) -> Any:
        stage.faults = faults if arguments[1].workload == shy else {}
        return PairedMeasurer._measure_copies(measurer, *arguments)

    measurer.measure = measure  # type: ignore[method-assign]
    measurer._measure_copies = copies  # type: ignore[method-assign]
    for _ in range(2):
        seen = in_turn(measurer)
        assert {o.outcome for o in seen} == {Outcome.MEASURED}
        assert len(seen) == 6
        assert not stage.alive
    assert measurer._uncopied == {shy.name}


def test_what_no_copy_can_do_is_measured_in_fresh_processes(tmp_path: Path) -> None:
    """Tracked numbers and peaks of memory belong to a process from its start."""
    stage = Stage()
    peak = Workload("mod.peakmem_x", kind="peakmemory")
    seen = in_turn(stage.measurer(tmp_path, samples=2), IN_TURN[0], peak, IN_TURN[1])
    assert [o.outcome for o in seen] == [Outcome.MEASURED] * 6
    assert stage.diary.count(("fork", "a")) == 2
    assert len(stage.environments) == 4  # the origins stay, whatever comes between


def test_an_import_that_fails_is_told_by_a_fresh_process(tmp_path: Path) -> None:
    """Once for each workload asked."""
    stage = Stage(faults={("load", "b"): Fault(Outcome.UNIMPORTABLE, "no")})
    seen = in_turn(stage.measurer(tmp_path, samples=2), *IN_TURN[:2])
    assert [o.outcome for o in seen if o.sha == "b"] == [Outcome.UNIMPORTABLE] * 2
    assert [o.outcome for o in seen if o.sha == "a"] == [Outcome.MEASURED] * 2
    assert not stage.alive


def test_builds_that_blocks_have_in_common_start_once(tmp_path: Path) -> None:
    """And the others, too; each block runs its own builds only."""
    stage = Stage(level={"a": 1.0, "b": 1.1, "c": 1.2})
    blocks = [
        Block(workload, tuple(builds(*names)), name, Purpose.SEARCH)
        for workload, names, name in zip(IN_TURN, ("ab", "bc", "a"), "789", strict=True)
    ]
    seen = list(stage.measurer(tmp_path, samples=2).measure_in_turn(blocks))
    assert len(stage.environments) == 3
    assert len({env["PYTHONHASHSEED"] for _, env in stage.environments}) == 1
    for workload, names, name in zip(IN_TURN, ("ab", "bc", "a"), "789", strict=True):
        own = [o for o in seen if o.workload == workload.name]
        assert [o.sha for o in own] == list(names)
        assert {o.runs[0].block for o in own} == {f"{name}.0"}
    assert math.fsum(o.runs[0].seconds for o in seen) == pytest.approx(stage.seconds)
    assert not stage.alive
    assert list(tmp_path.glob("bisectorch-*/*")) == []


def test_a_build_that_cannot_be_imported_leaves_the_other_blocks_their_copies(
    tmp_path: Path,
) -> None:
    """Its fault is told by a fresh process, and its own block goes on without it."""
    stage = Stage(faults={("load", "b"): Fault(Outcome.UNIMPORTABLE, "no")})
    measurer = stage.measurer(tmp_path, samples=2)
    blocks = [
        Block(workload, tuple(builds(*names)), "7", Purpose.SEARCH)
        for workload, names in zip(IN_TURN, ("ab", "ac", "c"), strict=True)
    ]
    seen = list(measurer.measure_in_turn(blocks))
    assert [(o.sha, o.outcome) for o in seen if o.outcome is not Outcome.MEASURED] == [
        ("b", Outcome.UNIMPORTABLE)
    ]
    assert stage.diary.count(("fork", "a")) == 2
    assert stage.diary.count(("fork", "c")) == 2
    assert len({sha for sha, _ in stage.environments}) == 3
    assert not measurer._uncopied
    assert not stage.alive


def test_the_first_call_is_made_before_the_seats_move_to_the_one_core(tmp_path: Path) -> None:
    """Of fresh processes and of copies: it may import for long."""
    stage = Stage()
    measurer = stage.measurer(tmp_path, samples=2, core=max(os.sched_getaffinity(0)))
    observe(measurer, "ab", 1)
    in_turn(measurer, IN_TURN[0])
    for sha in "ab":
        own = [command for command, who in stage.diary if who == sha]
        fresh, copied = own[: own.index("fork") - 1], own[own.index("fork") :]
        assert fresh[:4] == ["load", "setup", "call_once", "calibrate"]
        assert copied[:6] == ["fork", "load", "setup", "call_once", "move", "calibrate"]


def test_an_interrupt_ends_origins_and_copies(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a sample."""
    stage = Stage(faults={("sample", "b"): KeyboardInterrupt()})  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        in_turn(stage.measurer(tmp_path))
    assert not stage.alive


def test_the_time_spent_measuring_is_counted(tmp_path: Path) -> None:
    """A hundredth of a second a command: two to calibrate, eight to sample, for each workload."""
    measurer = Stage().measurer(tmp_path, samples=4)
    in_turn(measurer)
    assert measurer.warming_seconds == pytest.approx(0.06)
    assert measurer.sampling_seconds == pytest.approx(0.24)


def test_a_core_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    """With the cores that may be chosen."""
    with pytest.raises(UsageError, match="core 4096 is not one that this process may use"):
        PairedMeasurer(tmp_path, core=4096)
