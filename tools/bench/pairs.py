"""Two pairs of builds of a real torch, with nothing and with a known step between them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asv.config import Config
from asv.plugin_manager import plugin_manager
from bisectorch.asv_plugin.machine import identify
from bisectorch.asv_plugin.workloads import discover
from bisectorch.asv_plugin.workshop import Workshop, open_workshop
from bisectorch.measure import PairedMeasurer
from bisectorch.model import (
    Build,
    Commit,
    CommitRange,
    Comparison,
    Event,
    Observation,
    Session,
    SessionHeader,
    Workload,
)
from bisectorch.report.progress import ConsoleReporter
from bisectorch.search.verdict import SequentialJudge
from bisectorch.versus import compare

BIN = Path(sys.executable).parent
STEP = 0.03
SMALLEST = 0.02
NULL, KNOWN = (0, 1), (0, 2)
"""The pairs, by the places of their builds."""

BENCHMARK = """\
import torch
from torch import _bench_extra as extra

CALLS = 100
layer, data = torch.nn.Linear(10, 10), torch.randn(1, 10)


def time_forward():
    for _ in range(CALLS):
        layer(data)
    for _ in range(extra.UNITS):
        pass


class Many:
    params = [1, 2, 3, 4, 5, 6, 7, 8]

    def setup(self, batch):
        self.data = torch.randn(batch, 10)

    def time_forward(self, batch):
        data = self.data
        for _ in range(CALLS):
            layer(data)
"""
CALIBRATE = """
import sys, time, timeit
import torch
torch.set_num_threads(1)
layer, data = torch.nn.Linear(10, 10), torch.randn(1, 10)
def body():
    for _ in range(100):
        layer(data)
def extra():
    for _ in range(100000):
        pass
clock = time.process_time
timeit.repeat(body, timer=clock, number=200, repeat=3)
one = min(timeit.repeat(body, timer=clock, number=20, repeat=100)) / 20
unit = min(timeit.repeat(extra, timer=clock, number=1, repeat=100)) / 100000
print(round(float(sys.argv[1]) * one / unit))
"""


@dataclass
class Trial:
    """One comparison from the start: its answer, what it cost, and its ratios."""

    comparison: Comparison
    seconds: float
    ratios: list[float]

    def covers(self, truth: float) -> bool:
        """Whether the interval holds the true log ratio."""
        low, high = self.comparison.ratio_interval
        return low <= math.exp(truth) <= high


@dataclass
class Kept:
    """A recorder, and the ratios of what it recorded."""

    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        """Kept in order."""
        self.events.append(event)

    def ratios(self) -> list[float]:
        """The paired log ratios, in order."""
        seen = [e for e in self.events if isinstance(e, Observation) and e.runs]
        return log_ratios(seen)


class Quiet:
    """A reporter that says nothing."""

    def progress(self, message: str) -> None:
        """Nothing."""

    def found(self, message: str) -> None:
        """Nothing."""


def log_ratios(seen: Sequence[Observation]) -> list[float]:
    """Of observations that come in pairs, old before new."""
    return [
        math.log(new.runs[0].value / old.runs[0].value)
        for old, new in zip(seen[::2], seen[1::2], strict=True)
    ]


class Laboratory:
    """The project, its builds, and its workloads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        replay = directory / "replay"
        if not (replay / "asv.conf.json").exists():
            subprocess.run([BIN / "bisectorch", "replay", replay], check=True)
        configuration = json.loads((replay / "asv.conf.json").read_text())
        configuration |= {"project": "measure", "repo": "history"}
        self.config = directory / "asv.conf.json"
        self.config.write_text(json.dumps(configuration))
        benchmarks = directory / "benchmarks"
        benchmarks.mkdir(exist_ok=True)
        (benchmarks / "__init__.py").touch()
        (benchmarks / "linear.py").write_text(BENCHMARK)
        shutil.rmtree(directory / "history", ignore_errors=True)
        self.git("init", "-q", "-b", "main", str(directory / "history"), where=directory)
        os.chdir(directory)
        identify(None, "results")  # asv continuous asks for it
        self.shas = [self.commit("UNITS = 0\n"), self.commit("UNITS = 0  # as before\n")]
        with ConsoleReporter(sys.stderr) as reporter, contextlib.redirect_stdout(sys.stderr):
            self.workshop = self.open(reporter)
            tree = self.build(self.shas[0])
            self.units = self.calibrated(tree)
            self.shas.append(self.commit(f"UNITS = {self.units}\n"))
            self.builds = [tree, self.build(self.shas[1]), self.build(self.shas[2])]
            workloads, _ = discover(
                self.workshop.conf, self.workshop.repo, self.workshop.environment, self.shas, []
            )
        self.many = [w for w in workloads if "Many" in w.name]
        self.one = next(w for w in workloads if "Many" not in w.name)
        self.core = sorted(os.sched_getaffinity(0))[-1]

    def git(self, *arguments: str, where: Path | None = None) -> str:
        """Git in the history."""
        done = subprocess.run(
            ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", *arguments],
            cwd=where or self.directory / "history",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, source: str) -> str:
        """One more commit, whose extra is this."""
        path = self.directory / "history" / "torch" / "_bench_extra.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        self.git("add", "--all")
        self.git("commit", "-q", "-m", source.strip())
        return self.git("rev-parse", "HEAD")

    def open(self, reporter: ConsoleReporter) -> Workshop:
        """The project's workshop."""
        conf = Config.load("asv.conf.json")
        for plugin in conf.plugins:
            plugin_manager.import_plugin(plugin)
        return open_workshop(conf, [], reporter)

    def build(self, sha: str) -> Build:
        """The commit's overlay tree."""
        return self.workshop.ladder.provide(self.workshop.history.commit(sha))

    def python(self, build: Build, *arguments: str) -> list[str]:
        """The command of one plain process of a build, on the measuring core."""
        core = sorted(os.sched_getaffinity(0))[-1]
        return ["taskset", "-c", str(core), build.python, *arguments]

    def variables(self, build: Build) -> dict[str, str]:
        """What such a process needs."""
        return {**os.environ, **build.environment, "PYTHONPATH": build.tree}

    def calibrated(self, build: Build) -> int:
        """How many units of extra work are the step."""
        done = subprocess.run(
            self.python(build, "-c", CALIBRATE, str(STEP)),
            env=self.variables(build),
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    def measurer(self, seed: int, **options: int) -> PairedMeasurer:
        """As ``versus`` and ``bisect`` measure."""
        return PairedMeasurer(self.directory / "benchmarks", seed=seed, **options)

    def trial(self, pair: tuple[int, int], seed: int, seconds: float) -> Trial:
        """One comparison of two of the builds on the one workload."""
        kept = Kept()
        builds = (self.builds[pair[0]], self.builds[pair[1]])
        with self.measurer(seed) as measurer:
            found = compare(
                Session(header(builds, self.one), ()),
                builds,
                measurer=measurer,
                judge=SequentialJudge(SMALLEST, 0.95, 0.01),
                recorder=kept,
                reporter=Quiet(),
                seconds=seconds,
            )
        return Trial(found.comparisons[0], found.cost.seconds, kept.ratios())


def header(builds: Sequence[Build], workload: Workload) -> SessionHeader:
    """A comparison of two builds."""
    sides = tuple(Commit(build.sha, (), "", 0, "") for build in builds)
    return SessionHeader(
        session="bench",
        created_seconds=time.time(),
        range=CommitRange("", sides),
        workloads=(workload,),
        smallest_step=SMALLEST,
        confidence=0.95,
        budget_seconds=None,
        machine={},
        environment="",
        python="",
        project="",
        options={"false_rate": "0.01"},
    )
