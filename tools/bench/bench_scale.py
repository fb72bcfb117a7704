"""Long runs, many builders and faults against their bars.

    python tools/bench/bench_scale.py [PART ...]

PART is one of rounds, model, faults, log, watch, alone, pair (all by default). ``alone`` and
``pair`` bisect the native test history with one and with two builders, each some minutes of an idle
machine with two cores; the bar that compares them is told once both have been run.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rows import BUILD, Rows

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS)]

IDLE_SECONDS = 20
"""What each build of the native history waits with its core idle, as for a slow disk."""

BUILD_SECONDS = 35 * 60.0
"""One native build of PyTorch."""

RUNS, SAMPLES = 1_000_000, 40
"""Of the long log: a hundred workloads on five hundred commits, twenty runs each."""


def rounds(rows: Rows) -> None:
    """Rounds of seven builds on 512 commits, after the one of both ends, to one culprit."""
    from bisectorch.model import Decision, Evidence
    from bisectorch.search import BayesSearcher
    from bisectorch.search.simulate import Setting, World, draw, search

    @dataclass
    class Rounds(World):
        """Counts the decisions that had something built."""

        made: list[int] = field(default_factory=list)

        def quotes(self) -> tuple[float, ...]:
            built = self.builds - sum(self.made)
            self.made += [built] if built else []
            return super().quotes()

    class Noting(BayesSearcher):
        """Notes at which decision the culprit stood, whatever is looked for after it."""

        world: Rounds
        found_after = 0

        def decide(self, evidence: Evidence, batch: int) -> Decision:
            decision = super().decide(evidence, batch)
            stands = any(step.confirmed and len(step.credible) == 1 for step in decision.steps)
            if stands and not self.found_after:
                self.found_after = len(self.world.made)
            return decision

    setting = Setting(size=512, ratios=(0.2,), sigma=0.02, build_seconds=2100.0, run_seconds=2.0)
    for width, bar in ((1, None), (7, 3.3)):
        taken, right, builds = [], 0, []
        for seed in range(40):
            world = Rounds(draw(setting, seed))
            searcher = Noting(0.05, 0.95)
            searcher.world = world
            trial = search(world, searcher, batch=width)
            right += trial.credible == ((world.drawn.positions[0],),)
            taken.append(searcher.found_after - 1)
            builds.append(trial.builds)
        mean = sum(taken) / len(taken)
        name = f"W = {width}: rounds of cuts to one culprit of 512 commits"
        if bar is None:
            rows.note(name, f"{mean:.1f}")
        else:
            rows.add(name, mean, bar, at_least=False)
        rows.add(f"W = {width}: right, of 40", right, 40, at_least=True)
        rows.note(
            f"W = {width}: builds, the look for hidden pairs included", f"{sum(builds) / 40:.1f}"
        )


def model(rows: Rows) -> None:
    """The figures of docs/scale.md: rounds, native builds and hours by range and builders."""
    from bisectorch.search import BayesSearcher
    from bisectorch.search.simulate import Setting, World, draw, search

    @dataclass
    class Native(World):
        """Counts what is compiled, and the rounds in which anything is."""

        made: list[int] = field(default_factory=list)

        def quotes(self) -> tuple[float, ...]:
            compiled = len(self._states) + len(self.failed) - sum(self.made)
            self.made += [compiled] if compiled else []
            return super().quotes()

    steps = (0.2, 0.1, -0.15, 0.3, -0.08)
    trials = 2
    for size, count in ((385, 1), (20_000, 1), (20_000, 5), (100_000, 5)):
        for width in (1, 2, 4, 7, 16, 32, 64):
            sums = [0.0] * 5
            for seed in range(trials):
                setting = Setting(
                    size=size,
                    ratios=steps[:count],
                    sigma=0.01,
                    unbuildable=0.02,
                    build_seconds=BUILD_SECONDS,
                    python_seconds=0.2,
                    run_seconds=2.0,
                )
                world = Native(draw(setting, seed))
                trial = search(world, BayesSearcher(0.03, 0.95), batch=width)
                world.quotes()
                wall = len(world.made) * BUILD_SECONDS + world.runs * setting.run_seconds
                named = sum(any(t in c for c in trial.credible) for t in world.drawn.positions)
                each = (len(world.made), sum(world.made), world.runs, wall / 3600, named / count)
                sums = [a + b / trials for a, b in zip(sums, each, strict=True)]
            made, built, runs, hours, share = sums
            rows.note(
                f"{size} commits, {count} culprits, W = {width}",
                f"{made:.1f} rounds, {built:.0f} builds, {runs:.0f} runs, {hours:.1f} h, "
                f"{share:.0%} named",
            )


def faults(rows: Rows) -> None:
    """The fault suite at every sixteenth change to the disk."""
    library = BUILD / "shim.so"
    BUILD.mkdir(parents=True, exist_ok=True)
    source = TESTS / "faults" / "shim.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, TESTS / "faults" / "sweep.py", "--every", "16"],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "FAULT_SHIM": str(library),
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "faults")]),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        check=False,
    )
    said = json.loads(done.stdout)
    wrong: list[str] = said["wrong"]
    rows.add("faults injected", sum(said["faults"].values()), 300, at_least=True)
    for what in ("lost", "counted twice", "found"):
        count = sum(f": {what}" in each for each in wrong)
        rows.add(f"faults after which something was {what}", count, 0, at_least=False)
    rows.add("faults after which anything was wrong", len(wrong), 0, at_least=False)


def log(rows: Rows) -> None:
    """Reading a million runs back, in a process of its own."""
    with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
        path = Path(folder) / "long.jsonl"
        _write_long_log(path)
        size = path.stat().st_size
        done = subprocess.run(
            [sys.executable, __file__, "resume", str(path)], stdout=subprocess.PIPE, check=True
        )
    seconds, processor, most_bytes, count = json.loads(done.stdout)
    rows.note("log: size", f"{size / 1e9:.2f} GB")
    rows.add("log: observations", count, RUNS, at_least=True)
    rows.add("log: resume, seconds", seconds, 5.0, at_least=False)
    rows.note("log: resume, seconds of a processor", f"{processor:.2f}")
    rows.add("log: resume, GB of memory", most_bytes / 1e9, 1.0, at_least=False)


def _write_long_log(path: Path) -> None:
    from bisectorch.model import Observation, Outcome, Run, Workload
    from bisectorch.report import record
    from fakes import line, session

    commits = line(500)
    workloads = [Workload(f"suite.Case{i // 4}.time_it", (str(i % 4),), i % 4) for i in range(100)]
    header = session(commits, *workloads).header
    record.SessionLog.create(path, header).close()
    dice = random.Random(1)
    block = 0
    with path.open("ab") as file:
        for workload in workloads:
            for first in range(0, len(commits), 10):
                for turn in range(RUNS // len(workloads) // len(commits)):
                    block += 1
                    for commit in commits[first : first + 10]:
                        level = 1e-5 * dice.uniform(0.97, 1.03)
                        samples = tuple(level * dice.uniform(1, 1.01) for _ in range(SAMPLES))
                        began = 1.79e9 + block
                        run = Run(min(samples), f"{block}.{turn}", samples, 1000, began, 0.3125)
                        seen = Observation(workload.name, commit.sha, Outcome.MEASURED, (run,))
                        file.write(record._encode(record._line(seen)))


def resume(path: str) -> None:
    """What ``bisectorch resume`` does before it asks the search; prints what it took."""
    from bisectorch.knowledge import Knowledge, Search
    from bisectorch.measure.noise import free_of_blocks, logs
    from bisectorch.report.record import SessionLog

    began, used = time.perf_counter(), time.process_time()
    with SessionLog.reopen(Path(path)) as reopened:
        session = reopened.session
        assert session is not None
        knowledge = Knowledge(session.events, free_of_blocks, logs)
        knowledge.evidence(Search(session.header.workloads[0], session.header.range.line))
        seconds, processor = time.perf_counter() - began, time.process_time() - used
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([seconds, processor, most, knowledge.run_count]))  # noqa: T201


def watch(rows: Rows) -> None:
    """Two hundred looks at a branch that moves commit by commit, with a real store."""
    from bisectorch.build.store import Store
    from fakes import line
    from watched import StoringProvider, Watched, levels_of

    commits = line(200)
    steps = {
        13: 0.15,
        37: -0.08,
        61: 0.06,
        62: 0.2,
        90: 1 / 1.2 - 1,
        118: 0.05,
        150: 0.3,
        151: -0.1,
    }
    other = {61: 0.1, 175: -0.2}
    cap = 2_000_000
    with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
        provider = StoringProvider(
            store=Store(Path(folder) / "store", most_bytes=cap), size=100_000
        )
        branch = Watched(
            commits,
            {"a.time_a": levels_of(commits, steps), "b.time_b": levels_of(commits, other),
             "c.time_c": levels_of(commits, {})},
            Path(folder) / "main.json",
            sigma=0.006,
            provider=provider,
        )  # fmt: skip
        most = 0
        for position in range(len(commits)):
            branch.look(position)
            most = max(most, sum(entry.bytes for entry in provider.store.entries()))
            provider.store.release()
        found = [(name, at) for name, at, _ in branch.found]
    true = [("a.time_a", at) for at in steps] + [("b.time_b", at) for at in other]
    rows.note("watch: looks", str(len(commits)))
    rows.add(
        f"watch: true changes found, of {len(true)}",
        len(set(found) & set(true)),
        len(true),
        at_least=True,
    )
    rows.add("watch: found twice", len(found) - len(set(found)), 0, at_least=False)
    rows.add("watch: invented", len(set(found) - set(true)), 0, at_least=False)
    rows.add("watch: the store at its largest, MB", most / 1e6, cap / 1e6, at_least=False)


def alone(rows: Rows) -> None:
    """The native history with one builder."""
    _native(rows, 1)


def pair(rows: Rows) -> None:
    """The native history with two."""
    _native(rows, 2)


def _native(rows: Rows, workers: int) -> None:
    from nativehistory import BUILD_COMMAND, CULPRITS, make_history, write_native_project

    with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
        root = Path(folder)
        story = make_history(root / "history")
        idle = f"python -c 'import time; time.sleep({IDLE_SECONDS})'"
        config = write_native_project(
            root / "project", story, root / "store", build_command=[idle, *BUILD_COMMAND]
        )
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "bisectorch", "bisect", story.range, "-b", "track_cost",
             "--format", "json", "--dask", f"local:{workers}", "--config", config],
            env={**os.environ, "HOME": str(root), "GIT_CONFIG_COUNT": "1",
                 "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always",
                 "PYENV_ROOT": os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")},
            stdout=subprocess.PIPE,
            check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        names = {sha: label for label, sha in story.shas.items()}
        report = json.loads(done.stdout)
        found = {names[c["commit"]] for c in report["workloads"][0]["culprits"]}
    rows.note(f"native history, {workers} builders: seconds", f"{seconds:.0f}")
    rows.note(f"native history, {workers} builders: builds", str(report["cost"]["builds"]))
    wrong = len(found ^ set(CULPRITS))
    rows.add(f"native history, {workers} builders: wrong culprits", wrong, 0, at_least=False)
    kept = BUILD / "scale-native.json"
    BUILD.mkdir(parents=True, exist_ok=True)
    known = json.loads(kept.read_text()) if kept.exists() else {}
    known[str(workers)] = seconds
    kept.write_text(json.dumps(known))
    if {"1", "2"} <= known.keys():
        rows.add(
            "native history: two builders over one", known["2"] / known["1"], 0.65, at_least=False
        )


def _scratch() -> Path:
    """On a disk, not in memory."""
    folder = BUILD / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


PARTS: dict[str, Callable[[Rows], None]] = {
    part.__name__: part for part in (rounds, model, faults, log, watch, alone, pair)
}


def main() -> int:
    """Run the parts asked for, print the rows."""
    asked = sys.argv[1:] or list(PARTS)
    if asked[0] == "resume":
        resume(asked[1])
        return 0
    rows = Rows("scale" if len(asked) == len(PARTS) else f"scale-{'-'.join(asked)}")
    for part in asked:
        PARTS[part](rows)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
