"""Runs the jobs of a table: each in a fresh process, in rounds, in random order within a round.

So drift of the machine hits all sides of a table alike. The tracker itself imports neither torch
nor a comparator: a child does, and what goes wrong there becomes a reason in the table.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.tables import profiles
from bisectorch.tables.shapes import Job, Measured, Side

CHILD = Path(__file__).with_name("children") / "child.py"
TIMEOUT_SECONDS = 1800.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

LIBRARIES = {
    Side.TORCH: ("torch", "numpy"),
    Side.DYNET: ("dynet_config", "dynet", "numpy"),
    Side.KERAS: ("tcn", "keras", "tensorflow", "numpy"),
}
ADVICE = {
    Side.TORCH: "name an interpreter that has it with --interpreter",
    Side.DYNET: "pip install 'bisectorch[comparators]' into an environment, and name its "
    "interpreter with --comparators",
    Side.KERAS: "pip install tensorflow-cpu, then keras-tcn with --no-deps, and name that "
    "interpreter with --comparators",
}


@dataclass(frozen=True)
class Subject:
    """An interpreter and what is put on its path.

    Attributes:
        python: the executable.
        label: what the tables call it.
        tree: a build's directory, or None where the interpreter has it installed.
        environment: variables for the child.
    """

    python: str
    label: str = ""
    tree: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """The child's environment, without the tracker's own path where there is a tree."""
        variables = {**os.environ, **self.environment, "PYTHONHASHSEED": "0"}
        if self.tree is not None:
            variables["PYTHONPATH"] = self.tree
            # Trees are shared and immutable.
            variables["PYTHONDONTWRITEBYTECODE"] = "1"
        return variables


class Bench:
    """Measures jobs and remembers them, so that tables can share.

    Args:
        subjects: the interpreters of each side, tried in order until one has the library.
        benchmarks: the benchmarks' folder; the workloads are in it.
        rounds: how many fresh processes a job.
        core: the core that one-threaded children stay on; None leaves them alone.
        cores: how many this process may use.
        device: where B and the profile are measured: ``cpu`` or ``cuda``.
        extensions: where compiled extensions are kept.
        say: is told what is being done.
    """

    def __init__(
        self,
        subjects: Mapping[Side, Sequence[Subject]],
        benchmarks: Path,
        *,
        rounds: int = 1,
        core: int | None = None,
        cores: int = 1,
        device: str = "cpu",
        extensions: Path | None = None,
        say: Callable[[str], None] = lambda line: None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        if not (benchmarks / "workloads").is_dir():
            raise UsageError(f"{benchmarks} holds no workloads: name the project's benchmarks")
        self.subjects = {side: list(given) for side, given in subjects.items()}
        self.benchmarks = benchmarks.absolute()
        self.rounds = rounds
        self.core = core
        self.cores = cores
        self.device = device
        self.extensions = extensions
        self.say = say
        self.timeout_seconds = timeout_seconds
        self.versions: dict[str, str] = {}
        self._known: dict[Job, Measured] = {}
        self._random = random.Random(90210)

    def measure(self, jobs: Sequence[Job]) -> dict[Job, Measured]:
        """Every job's outcome; those known already are not measured again."""
        wanted = [each for each in dict.fromkeys(jobs) if each not in self._known]
        answers: dict[Job, list[Mapping[str, Any]]] = {each: [] for each in wanted}
        for number in range(self.rounds):
            for each in self._random.sample(wanted, len(wanted)):
                before = answers[each]
                if before and not before[-1].get("figures"):
                    continue  # what failed once is not tried in every round
                what = " ".join(str(value) for name, value in each.arguments if name != "device")
                self.say(
                    f"round {number + 1} of {self.rounds}: {each.side.value} {each.action} {what}"
                )
                before.append(self._run(each))
        for each, given in answers.items():
            self._known[each] = _gather(given)
        return {each: self._known[each] for each in jobs}

    def _run(self, job: Job) -> Mapping[str, Any]:
        """One child; where its side has several interpreters, the first that has the library."""
        subjects = self.subjects.get(job.side, [])
        lacks = True
        answer: Mapping[str, Any] = {}
        while subjects and lacks:
            answer = self._child(subjects[0], job)
            lacks = answer.get("import") in LIBRARIES[job.side]
            if lacks and len(subjects) == 1:
                break
            if lacks:
                subjects.pop(0)
        if lacks:
            what = "numpy" if answer.get("import") == "numpy" else job.side.value
            answer = _missing(f"{what} is not installed: {ADVICE[job.side]}")
        for name, version in answer.get("facts", {}).get("versions", {}).items():
            key = name if job.side is Side.TORCH or name != "Python" else f"{job.side.value} Python"
            if name not in ("torch threads", "numpy") or job.side is Side.TORCH:
                self.versions.setdefault(key, version)
        return answer

    def _child(self, subject: Subject, job: Job) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(prefix="bisectorch-tables-") as scratch:
            target = Path(scratch) / "answer.json"
            variables = subject.variables()
            threads = self.cores if job.threads is None else job.threads
            variables.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
            if self.extensions is not None:
                variables["BISECTORCH_EXTENSIONS"] = str(self.extensions)
            core = -1 if self.core is None or threads > 1 else self.core
            command = [subject.python, "-s", str(CHILD), str(self.benchmarks.parent)]
            command += [self.benchmarks.name, str(core)]
            command += [json.dumps([job.action, dict(job.arguments)]), str(target)]
            try:
                done = subprocess.run(
                    command,
                    env=variables,
                    cwd=scratch,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    check=False,
                    timeout=self.timeout_seconds,
                )
            except subprocess.TimeoutExpired:
                return _missing(f"no answer within {self.timeout_seconds:g} s")
            except OSError as error:
                raise EnvironmentFailure(
                    f"cannot start {subject.python}: {error.strerror or error}; "
                    "name a Python interpreter"
                ) from error
            try:
                answer: dict[str, Any] = json.loads(target.read_text("utf-8"))
            except (OSError, ValueError):
                return _missing(_death(done))
            if job.action == "dynet_functions" and not answer.get("missing"):
                scale = answer["facts"]["scale"]
                seconds = profiles.backward_seconds(done.stdout)
                answer["figures"] = {name: value * scale for name, value in seconds.items()}
                if not seconds:
                    return _missing("DyNet's profiler printed nothing that can be read")
            return answer


def cores_and_threads(environment: Mapping[str, str]) -> tuple[int, str]:
    """How many cores this process may use, and what is wrong with OMP_NUM_THREADS, if it is."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    asked = environment.get("OMP_NUM_THREADS", "")
    if not asked.isdigit() or int(asked) <= cores:
        return cores, ""
    return cores, (
        f"OMP_NUM_THREADS={asked} is above the {cores} cores of this machine: "
        f"rows with many threads are measured with {cores}"
    )


def default_core() -> int | None:
    """The last core that this process may use: the first ones serve interrupts."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def own_python() -> str:
    """The interpreter that runs the tracker."""
    return sys.executable


def _missing(reason: str) -> Mapping[str, Any]:
    return {"missing": {"": reason}}


def _death(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == -9:
        return "the process was killed: too little memory?"
    if done.returncode < 0:
        return f"the process died of signal {-done.returncode}"
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f"the process ended without an answer: {said[-1] if said else done.returncode}"[:300]


def _gather(answers: Sequence[Mapping[str, Any]]) -> Measured:
    figures: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    for answer in answers:
        for name, value in answer.get("figures", {}).items():
            figures.setdefault(name, []).append(float(value))
        missing.update(answer.get("missing", {}))
    facts = answers[0].get("facts", {}) if answers else {}
    return Measured(figures, missing, facts)
