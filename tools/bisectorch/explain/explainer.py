"""Two builds and a workload to an explanation: pairs of fresh processes, sampled in turn."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisectorch.explain.assembly import Pair, Question, assemble, is_settled
from bisectorch.explain.process import Blind, Looker
from bisectorch.explain.profile import Profile, read
from bisectorch.explain.reach import reached
from bisectorch.model import Build, Explanation, Trace, Workload

START_SECONDS = 300.0
"""How long importing the project may take."""

SLOWER = 30.0
"""How many times longer than the workload may take a command of the child may take."""

PAIR_SECONDS = 1.5

SAMPLE_SECONDS = 0.008
FEWEST_SAMPLES, MOST_SAMPLES = 5, 30
LONG_CALL_SECONDS = 0.5
"""Of a call that takes longer, one sample a pair is taken."""

FEWEST_PAIRS, MOST_PAIRS = 2, 10
MOST_DESCRIBED = 200
"""Changed files whose functions are looked at though the workload does not execute them."""

ENOUGH_SECONDS = 60.0
"""No further pair is begun after this long."""


class ProfilingExplainer:
    """Explains steps by looking into fresh processes of both builds (seams.Explainer)."""

    def __init__(
        self,
        benchmark_dir: Path,
        *,
        core: int | None = None,
        pairs: int = MOST_PAIRS,
        seconds: float = PAIR_SECONDS,
        attributes: Mapping[str, object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Choose how to look; nothing is started yet.

        Args:
            benchmark_dir: asv's benchmark directory.
            core: the core to run on; the last one this process may use by default.
            pairs: how many pairs of fresh processes at most; fewer where they agree, or take long.
            seconds: how long the samples of one pair go on, unless the fewest take longer.
            attributes: asv's benchmark attributes that override the benchmarks' own.
            clock: seconds that never run backwards, for tests.
        """
        self._benchmark_dir = str(Path(benchmark_dir).absolute())
        self._core = core if core is not None else _last_core()
        self._pairs = pairs
        self._seconds = seconds
        self._attributes = {k: v for k, v in (attributes or {}).items() if k != "cpu_affinity"}
        self._clock = clock

    def explain(
        self,
        parent: Build,
        child: Build,
        workload: Workload,
        *,
        levels: tuple[float, float] | None = None,
        paths: Sequence[str] = (),
        compiled_differs: bool = True,
    ) -> Explanation:
        """Why ``workload`` differs between the builds; its ``reason`` says why it cannot be told.

        Args:
            parent: the build before.
            child: the build after.
            workload: what to look into.
            levels: seconds of a call in each, where that was measured well; else the samples
                taken between the profiled ones tell.
            paths: the repository's files that differ, to line up with what was executed.
            compiled_differs: whether the builds' compiled files may differ.

        Raises EnvironmentFailure when an interpreter cannot be started, or lacks asv_runner.
        """
        nothing = Explanation(workload.name, parent.sha, child.sha)
        if parent.tree == child.tree and parent.python == child.python:
            return replace(nothing, reason="both commits have the same files: nothing can differ")
        question = Question(nothing, workload, levels, tuple(paths), compiled_differs)
        pairs: list[Pair] = []
        began = self._clock()
        try:
            while True:
                pairs.append(self._pair(parent, child, workload, len(pairs)))
                late = self._clock() - began > ENOUGH_SECONDS
                if not late and len(pairs) < min(FEWEST_PAIRS, self._pairs):
                    continue
                if len(pairs) <= FEWEST_PAIRS:
                    files = self._describe(parent, child, pairs, paths)
                if late or len(pairs) >= self._pairs or is_settled(question, pairs, files):
                    return assemble(question, pairs, files)
        except Blind as blind:
            return replace(nothing, reason=str(blind))

    def trace(self, build: Build, workload: Workload, paths: Sequence[str] = ()) -> Trace | None:
        """Which files of a build a workload reaches; None when it cannot be looked into.

        ``paths``: the repository's files of which it matters whether they are imported at all.
        """
        try:
            with Looker(build, self._core) as looker:
                self._load(looker, workload)
                profile = read(looker.ask("finish", START_SECONDS))
        except Blind:
            return None
        return reached(profile, build, workload.name, paths)

    def _load(self, looker: Looker, workload: Workload) -> float:
        """Have the workload imported and set up; seconds of a call."""
        suffix = "" if workload.param_index is None else f"-{workload.param_index}"
        seen = looker.ask(
            "load",
            START_SECONDS + SLOWER * workload.timeout_seconds,
            benchmark_dir=self._benchmark_dir,
            name=workload.benchmark + suffix,
            attributes=self._attributes,
            tree=looker.build.tree,
        )
        return float(seen["seconds"])

    def _pair(self, parent: Build, child: Build, workload: Workload, turn: int) -> Pair:
        """Both builds alive at once on one core, sampled in turn; the first pair tells operators.

        Which of them goes first changes with every sample, so that drift favours neither.
        """
        timeout = SLOWER * workload.timeout_seconds
        with contextlib.ExitStack() as stack:
            lookers = [stack.enter_context(Looker(b, self._core)) for b in (parent, child)]
            seconds = max([self._load(looker, workload) for looker in lookers])
            for number in range(_samples(seconds, self._seconds)):
                for looker in lookers if (number + turn) % 2 == 0 else lookers[::-1]:
                    looker.ask("sample", timeout)
            seen = [looker.ask("finish", timeout) for looker in lookers]
            # Last, because PyTorch's profiler may leave something behind.
            told = [_operators(looker, timeout) if turn == 0 else ({}, "") for looker in lookers]
        profiles = [read(each, rows) for each, (rows, _) in zip(seen, told, strict=True)]
        return Pair(
            (profiles[0], profiles[1]),
            (tuple(seen[0]["plain"]), tuple(seen[1]["plain"])),
            next((fault for _, fault in told if fault), ""),
        )

    def _describe(
        self, parent: Build, child: Build, pairs: Sequence[Pair], touched: Sequence[str]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """What files define in each build, as its own interpreter reads them.

        Those that are executed, and of those that the commit touched a bounded number.
        """
        profiles: list[Profile] = [profile for pair in pairs for profile in pair.profiles]
        wanted = {path for profile in profiles for path in profile.executed}
        wanted.update([path for path in touched if path.endswith(".py")][:MOST_DESCRIBED])
        paths = sorted(wanted)
        found = []
        for build in (parent, child):
            with Looker(build, None) as looker:
                found.append(looker.ask("describe", START_SECONDS, tree=build.tree, paths=paths))
        return found[0], found[1]


def _operators(looker: Looker, timeout_seconds: float) -> tuple[Mapping[str, Any], str]:
    """PyTorch's rows, or why there are none."""
    try:
        rows: Mapping[str, Any] = looker.ask("operators", timeout_seconds)
        return rows, ""
    except Blind as blind:
        return {}, str(blind)


def _samples(call_seconds: float, pair_seconds: float) -> int:
    """How many samples of each build a pair takes, a profiled sample taking about two more."""
    if call_seconds > LONG_CALL_SECONDS:
        return 1
    both = 2 * 3 * max(call_seconds, SAMPLE_SECONDS)
    return max(FEWEST_SAMPLES, min(MOST_SAMPLES, int(pair_seconds / both)))


def _last_core() -> int | None:
    """The core that measuring takes too, where this system can pin."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return max(os.sched_getaffinity(0))
