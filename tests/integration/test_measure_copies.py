"""Copies of one process, with real processes, real faults and a real torch."""

from __future__ import annotations

import sys
from pathlib import Path

import asv_runner
import pytest
from bisectorch.measure import PairedMeasurer
from bisectorch.model import Block, Build, Outcome, Purpose, Route, Workload
from measuring import Lab, eventually, gone

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")


def blocks_of(builds: list[Build], workloads: list[Workload]) -> list[Block]:
    """One of each workload, of all builds."""
    return [Block(workload, tuple(builds), "b", Purpose.COMPARE) for workload in workloads]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """An empty lab."""
    return Lab(tmp_path)


def test_the_project_is_imported_once_and_nothing_is_left_of_the_run_before(lab: Lab) -> None:
    """Each benchmark finds the module's state as the import left it."""
    count = lab.root / "imports"
    lab.benchmark(
        """
        import project

        def time_one():
            assert "two" not in project.STATE
            project.STATE.add("one")

        def time_two():
            assert "one" not in project.STATE
            project.STATE.add("two")
        """
    )
    for _ in range(2):
        lab.build(f"STATE = set()\nwith open({str(count)!r}, 'a') as file:\n    file.write('x')\n")
    seen = lab.measure_in_turn("time_one", "time_two")
    for observations in seen.values():
        assert [(o.outcome, o.reason) for o in observations] == [(Outcome.MEASURED, "")] * 2
        assert all(len(o.runs[0].samples) == 5 for o in observations)
    assert count.read_text() == "xx"


def test_each_copy_has_a_directory_of_its_own(lab: Lab) -> None:
    """As each process of asv has; and it is gone afterwards."""
    lab.benchmark(
        """
        import os

        def time_a():
            assert not os.path.exists("b")
            open("a", "w").close()

        def time_b():
            assert not os.path.exists("a")
            open("b", "w").close()
        """
    )
    lab.build()
    seen = lab.measure_in_turn("time_a", "time_b")
    assert all(o.outcome is Outcome.MEASURED for own in seen.values() for o in own)
    assert not list(lab.root.glob("bisectorch-*"))


CRASHES = {
    "raises": ("raise ValueError('worn out')", "ValueError: worn out (bench.py:5)"),
    "leaves": ("os._exit(7)", "exited with status 7 in the benchmark"),
    "leaves as if all were well": ("os._exit(0)", "exited with status 0 in the benchmark"),
    "crashes": ("ctypes.string_at(0)", "killed by SIGSEGV in the benchmark"),
    "is killed": ("os.kill(os.getpid(), 9)", "killed by SIGKILL in the benchmark (out of memory?)"),
    "hangs": ("time.sleep(600)", "no answer within 0.7 s in the benchmark"),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_fault_is_told_as_by_a_fresh_process_and_the_others_go_on(lab: Lab, crash: str) -> None:
    """On one side alone; the other side of the same benchmark is measured."""
    body, reason = CRASHES[crash]
    lab.benchmark(
        f"import ctypes, os, project, time\n\ndef time_it():\n    if project.BAD:\n"
        f"        {body}\n\ndef time_other():\n    pass\n"
    )
    lab.build("BAD = False")
    lab.build("BAD = True")
    timeout = 0.7 if crash == "hangs" else 20.0
    seen = lab.measure_in_turn("time_it", "time_other", timeout=timeout)
    good, bad = seen["time_it"]
    assert good.outcome is Outcome.MEASURED
    assert bad.outcome is not Outcome.MEASURED
    assert bad.reason == reason
    assert [o.outcome for o in seen["time_other"]] == [Outcome.MEASURED] * 2


def test_a_setup_cache_reaches_copies(lab: Lab) -> None:
    """Filled once a build, by a process of its own."""
    lab.benchmark(
        """
        import project

        class Suite:
            def setup_cache(self):
                with open(project.COUNT, "a") as file:
                    file.write("x")
                return {"n": 3}

            def time_a(self, cache):
                assert cache["n"] == 3

            def time_b(self, cache):
                assert cache["n"] == 3
        """
    )
    counts = [lab.root / "count0", lab.root / "count1"]
    for count in counts:
        lab.build(f"COUNT = {str(count)!r}")
    seen = lab.measure_in_turn("Suite.time_a", "Suite.time_b")
    assert all(o.outcome is Outcome.MEASURED for own in seen.values() for o in own)
    assert [count.read_text() for count in counts] == ["x", "x"]


def test_every_kind_is_measured_whether_or_not_copies_can(lab: Lab) -> None:
    """Code in a process of its own, a tracked number, a peak of memory."""
    lab.benchmark(
        """
        def timeraw_import():
            return "import project"

        timeraw_import.number = timeraw_import.repeat = 1

        def track_it():
            return 3

        def peakmem_it():
            return bytearray(1 << 20)

        def time_it():
            pass
        """
    )
    lab.build("import time; time.sleep(0.02)")
    names = ("timeraw_import", "track_it", "peakmem_it", "time_it")
    workloads = [
        Workload("bench.timeraw_import"),
        Workload("bench.track_it", kind="track", unit=""),
        Workload("bench.peakmem_it", kind="peakmemory", unit="bytes"),
        Workload("bench.time_it"),
    ]
    with PairedMeasurer(lab.benchmarks, samples=2, cache_dir=lab.root) as measurer:
        seen = list(measurer.measure_in_turn(blocks_of(lab.builds, workloads)))
        assert not measurer._uncopied
    value = {o.workload.removeprefix("bench."): o.runs[0].value for o in seen}
    assert set(value) == set(names)
    assert value["timeraw_import"] >= 0.02
    assert value["track_it"] == 3
    assert value["peakmem_it"] > 1 << 20
    assert 0 < value["time_it"] < 0.02


@linux
def test_a_copy_and_what_it_started_die_with_its_time(lab: Lab) -> None:
    """Also when it does not listen."""
    pids = lab.root / "pids"
    lab.benchmark(
        f"""
        import os, subprocess, sys

        def time_it():
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            with open({str(pids)!r}, "a") as file:
                file.write("%d %d " % (os.getpid(), child.pid))
            while True:
                pass
        """
    )
    lab.build()
    (seen,) = lab.measure_in_turn("time_it", timeout=0.7)["time_it"]
    assert seen.outcome is Outcome.TIMED_OUT
    assert len(pids.read_text().split()) == 4  # in a copy, then in a fresh process
    assert eventually(lambda: all(gone(int(pid)) for pid in pids.read_text().split()))


TORCH = """
import torch

CALLS = 20


class Linear:
    params = [1, 16]

    def setup(self, batch):
        self.layer, self.data = torch.nn.Linear(10, 10), torch.randn(batch, 10)

    def time_forward(self, batch):
        for _ in range(CALLS):
            self.layer(self.data)

    def time_backward(self, batch):
        for _ in range(CALLS):
            self.layer(self.data).sum().backward()
"""


@pytest.mark.torch
def test_torch_works_in_copies(tmp_path: Path, torch_tree: Path, torch_python: str) -> None:
    """Forward and backward, and their matrix products on more than one thread's worth of data."""
    benchmarks = tmp_path / "benchmarks"
    benchmarks.mkdir()
    (benchmarks / "__init__.py").touch()
    (benchmarks / "linear.py").write_text(TORCH)
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "asv_runner").symlink_to(Path(asv_runner.__file__).parent)
    build = Build("a", Route.CACHED, str(packages), torch_python, {"OMP_NUM_THREADS": "2"})
    workloads = [
        Workload(f"linear.Linear.time_{name}", (str(batch),), index)
        for name in ("forward", "backward")
        for index, batch in enumerate((1, 16))
    ]
    with PairedMeasurer(benchmarks, samples=5, cache_dir=tmp_path) as measurer:
        pair = [build, Build("b", Route.CACHED, str(packages), torch_python)]
        seen = list(measurer.measure_in_turn(blocks_of(pair, workloads)))
        assert not measurer._uncopied
    assert [(o.outcome, o.reason) for o in seen] == [(Outcome.MEASURED, "")] * 8
    assert all(1e-6 < o.runs[0].value < 1.0 for o in seen)
