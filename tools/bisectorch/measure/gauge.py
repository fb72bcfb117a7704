"""The machine beside the measurements (seams.Gauge): what is measured with, and how it is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bisectorch.measure.child import Child, Fault, Switchboard, child_environment
from bisectorch.measure.counts import INSPECTOR
from bisectorch.measure.machine import Machine, threads_variables
from bisectorch.model import Build, Conditions, MachineState, Workload


class MachineGauge:
    """Reads this machine, and asks one process of a build what it runs on."""

    def __init__(
        self,
        benchmark_dir: Path,
        *,
        core: int | None = None,
        attributes: Mapping[str, object] | None = None,
        machine: Machine | None = None,
        timeout_seconds: float = 300.0,
    ) -> None:
        """Choose what to read; nothing is started yet.

        Args:
            benchmark_dir: asv's benchmark directory.
            core: the core that measures; the last one this process may use by default.
            attributes: asv's benchmark attributes that override the benchmarks' own.
            machine: what is read; this machine by default.
            timeout_seconds: how long importing the project may take.
        """
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._core = core if core is not None else (allowed[-1] if allowed else None)
        self._benchmark_dir = str(Path(benchmark_dir).absolute())
        self._attributes = {k: v for k, v in (attributes or {}).items() if k != "cpu_affinity"}
        self._machine = machine or Machine()
        self._timeout = timeout_seconds

    def conditions(self, build: Build, workload: Workload) -> Conditions:
        """What the session measures with, told by a process that imports this build.

        A build that cannot be imported is told of in its measurements; here it only is silent.
        """
        facts = dict(self._machine.facts(self._core))
        environment = child_environment(build.tree, build.environment, 0, 0)
        facts.update(threads_variables(environment))
        board = Switchboard()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            child = Child(
                board, build.python, environment, Path(scratch), self._core, script=INSPECTOR
            )
            suffix = "" if workload.param_index is None else f"-{workload.param_index}"
            try:
                child.ask(
                    "load",
                    self._timeout,
                    benchmark_dir=self._benchmark_dir,
                    name=workload.benchmark + suffix,
                    attributes=self._attributes,
                )
                facts.update(child.ask("surroundings", self._timeout))
            except Fault:
                pass
            finally:
                child.close()
        return Conditions(facts)

    def state(self, block: str) -> MachineState:
        """How the machine is as this block ends."""
        return self._machine.state(block, self._core)
