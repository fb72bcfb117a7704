"""Instructions counted for real, by callgrind in child processes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bisectorch.measure.clocks import NotCounted
from bisectorch.measure.counts import CountingMeasurer, find_tool
from bisectorch.measure.gauge import MachineGauge
from bisectorch.model import Build, Observation, Outcome, Purpose, Route, Workload

pytestmark = pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind here")

BENCHMARKS = """\
import project


def time_work():
    project.work()


class Fresh:
    def setup(self):
        self.numbers = list(range(200000))

    def time_pop(self):
        for _ in range(100):
            self.numbers.pop()


def time_raising():
    raise RuntimeError("not today")


def timeraw_work():
    return "pass"
"""
CACHED = """\
import project


def setup_cache():
    return project.SIZE


def time_cached(size):
    sum(range(size))
"""
PROJECT = "SIZE = {}\n\n\ndef work():\n    return [x * x for x in range(SIZE)]\n"


def make_build(root: Path, name: str, size: int) -> Build:
    """A build whose work has this size."""
    tree = root / name
    tree.mkdir()
    (tree / "project.py").write_text(PROJECT.format(size))
    return Build(name * 40, Route.CACHED, str(tree), sys.executable, {}, name)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Benchmarks, and a place for builds."""
    root = tmp_path_factory.mktemp("counts")
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "__init__.py").write_text("")
    (root / "benchmarks" / "work.py").write_text(BENCHMARKS)
    (root / "benchmarks" / "cached.py").write_text(CACHED)
    return root


@pytest.fixture(scope="module")
def builds(root: Path) -> tuple[Build, Build]:
    """A build, and one that does a fifth more."""
    return make_build(root, "a", 2000), make_build(root, "b", 2400)


@pytest.fixture
def measurer(root: Path) -> Iterator[CountingMeasurer]:
    """Counting by callgrind, whatever this machine has."""
    tool = find_tool(_no_kernel)
    with CountingMeasurer(root / "benchmarks", tool) as measurer:
        yield measurer


def _no_kernel() -> object:
    raise NotCounted("not asked")


def value(seen: Observation) -> float:
    """The one run's value."""
    assert seen.outcome is Outcome.MEASURED, seen.reason
    [run] = seen.runs
    return run.value


def test_two_processes_agree_and_a_step_shows(
    measurer: CountingMeasurer, builds: tuple[Build, Build]
) -> None:
    """To a thousandth, where times differ by percents; and nobody else's work is counted."""
    workload = Workload("work.time_work", unit="instructions")
    seen = list(measurer.measure(builds, workload, 2, "0", Purpose.SEARCH))
    assert [each.sha[0] for each in seen] == ["a", "b", "a", "b"]
    assert {run.block for each in seen for run in each.runs} == {""}
    first, second, again, second_again = (value(each) for each in seen)
    assert again == pytest.approx(first, rel=1e-3)
    assert second_again == pytest.approx(second, rel=1e-3)
    assert second / first == pytest.approx(1.2, rel=0.05)


def test_fresh_state_is_made_outside_of_what_is_counted(
    measurer: CountingMeasurer, builds: tuple[Build, Build]
) -> None:
    """Some hundred instructions each for a hundred numbers, none for making 200,000."""
    [seen] = measurer.measure(builds[:1], Workload("work.Fresh.time_pop"), 1, "0", Purpose.SEARCH)
    assert 100 * 20 < value(seen) < 100 * 3000


def test_confirmations_share_a_block_and_try_other_seeds(
    measurer: CountingMeasurer, builds: tuple[Build, Build]
) -> None:
    """A cache is filled beforehand, by a process that does not count."""
    workload = Workload("cached.time_cached")
    seen = list(measurer.measure(builds, workload, 1, "7", Purpose.CONFIRM))
    assert [run.block for each in seen for run in each.runs] == ["7.0", "7.0"]
    assert value(seen[1]) / value(seen[0]) == pytest.approx(1.2, rel=0.05)


def test_what_cannot_be_counted_is_an_outcome(
    root: Path, measurer: CountingMeasurer, builds: tuple[Build, Build]
) -> None:
    """A benchmark that raises, one that runs elsewhere, a build that cannot be imported."""
    tree = root / "c"
    tree.mkdir()
    (tree / "project.py").write_text("import nothing_of_that_name\n")
    broken = Build("c" * 40, Route.CACHED, str(tree), sys.executable)
    raising = Workload("work.time_raising")
    [bad, worse] = measurer.measure([builds[0], broken], raising, 2, "0", Purpose.SEARCH)
    assert (bad.outcome, worse.outcome) == (Outcome.FAILED, Outcome.UNIMPORTABLE)
    assert "RuntimeError: not today" in bad.reason
    assert "nothing_of_that_name" in worse.reason
    [count] = measurer.counts(builds[:1], Workload("work.timeraw_work"))
    assert count.instructions is None
    assert "only time_ benchmarks" in count.reason


def test_conditions_are_told_by_a_process_of_the_build(
    root: Path, builds: tuple[Build, Build]
) -> None:
    """And a build that cannot be imported takes nothing else away."""
    gauge = MachineGauge(root / "benchmarks")
    facts = gauge.conditions(builds[0], Workload("work.time_work")).facts
    assert facts["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert "kernel" in facts
    missing = Build("d" * 40, Route.CACHED, str(root / "d"), sys.executable)
    assert "kernel" in gauge.conditions(missing, Workload("work.time_work")).facts
    assert gauge.state("3.1").block == "3.1"
