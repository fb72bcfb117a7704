"""A place to measure in: benchmarks and trees of a project that a test writes, real processes."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bisectorch.measure import PairedMeasurer
from bisectorch.model import Block, Build, Observation, Outcome, Purpose, Route, Workload


class Lab:
    """A benchmark directory, trees of a project of one module, and a measurer over them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.benchmarks = root / "benchmarks"
        self.benchmarks.mkdir()
        (self.benchmarks / "__init__.py").touch()
        self.builds: list[Build] = []

    def benchmark(self, source: str) -> None:
        """Write benchmarks/bench.py."""
        (self.benchmarks / "bench.py").write_text(textwrap.dedent(source))

    def build(self, source: str = "", python: str = sys.executable) -> Build:
        """One more build, of a project with this source."""
        name = f"tree{len(self.builds)}"
        tree = self.root / name
        tree.mkdir()
        (tree / "project.py").write_text(textwrap.dedent(source))
        self.builds.append(Build(name, Route.CACHED, str(tree), python))
        return self.builds[-1]

    def measure(
        self,
        name: str,
        runs: int = 1,
        param_index: int | None = None,
        timeout: float = 20.0,
        **options: Any,
    ) -> list[Observation]:
        """Measure all builds so far."""
        workload = Workload(f"bench.{name}", (), param_index, timeout_seconds=timeout)
        options = {"samples": 5, "sample_seconds": 0.001, "cache_dir": self.root} | options
        with PairedMeasurer(self.benchmarks, **options) as measurer:
            return list(measurer.measure(self.builds, workload, runs, "b", Purpose.SEARCH))

    def measure_in_turn(self, *names: str, timeout: float = 20.0) -> dict[str, list[Observation]]:
        """One block of each benchmark on all builds so far, in copies; by its name."""
        workloads = [Workload(f"bench.{name}", timeout_seconds=timeout) for name in names]
        seen: dict[str, list[Observation]] = {name: [] for name in names}
        with PairedMeasurer(
            self.benchmarks, samples=5, sample_seconds=0.001, cache_dir=self.root
        ) as measurer:
            blocks = [Block(w, tuple(self.builds), "b", Purpose.COMPARE) for w in workloads]
            for observation in measurer.measure_in_turn(blocks):
                seen[observation.workload.removeprefix("bench.")].append(observation)
        return seen

    def outcome(self, name: str, **options: Any) -> tuple[Outcome, str]:
        """What came of the only build."""
        (seen,) = self.measure(name, **options)
        return seen.outcome, seen.reason


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state in "ZX"


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within half a minute."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
