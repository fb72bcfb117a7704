"""What the events of a session amount to: the evidence that a search decides on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bisectorch.model import (
    BuildEvent,
    Commit,
    Conditions,
    Count,
    End,
    Event,
    Evidence,
    Explanation,
    MachineState,
    Observation,
    Outcome,
    PathClass,
    Purpose,
    Rebuilds,
    Route,
    Run,
    SideBranch,
    Trace,
    Workload,
)

BuildName = tuple[str, int]
"""A commit's object name, and the salt of one of its builds: 0 for the usual one."""

FreeOfBlocks = Callable[[Mapping[BuildName, Sequence[Run]]], Mapping[BuildName, tuple[float, ...]]]
Logs = Callable[[Sequence[float]], Iterable[float]]
"""Natural logarithms of a metric's values, in their order; finite for those of 0 or less too."""

WEIGHTS = {PathClass.NATIVE: 1.0, PathClass.PYTHON: 1.0, PathClass.IRRELEVANT: 1e-4}
"""How plausible it is that a commit changes a workload; never zero, so never blind."""

EXECUTED, PREPARED, IMPORTED, PRESENT = 1.0, 0.3, 0.05, 1e-3
"""What a Python file weighs by how far a workload reaches it, as ``Trace`` tells; never zero."""

LEAST_WEIGHT = 1e-9
"""No commit weighs less, whatever is said against it: a wrong weight costs time, not the truth."""

FIRST_RUN_SECONDS = 2.0
"""What a run is expected to cost before any has been measured."""


@dataclass(frozen=True)
class Search:
    """One line of commits searched for one workload; ``merge`` names a side branch's merge."""

    workload: Workload
    line: tuple[Commit, ...]
    merge: str = ""


class Knowledge:
    """What the events of a session amount to, kept up to date as they happen."""

    def __init__(self, events: Sequence[Event], free_of_blocks: FreeOfBlocks, logs: Logs) -> None:
        self._free_of_blocks = free_of_blocks
        self._logs = logs
        self._freed: dict[str, Mapping[BuildName, tuple[float, ...]]] = {}
        self.observations: dict[str, list[Observation]] = defaultdict(list)
        self.runs: dict[str, dict[BuildName, list[Run]]] = defaultdict(lambda: defaultdict(list))
        self._salts: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._failures: dict[str, dict[str, Observation]] = defaultdict(dict)
        self._unimportable: dict[str, dict[str, Observation]] = defaultdict(dict)
        self.unbuildable: dict[str, str] = {}
        self.not_rebuildable: dict[str, str] = {}
        self.side_branches: dict[tuple[str, str], SideBranch] = {}
        self.traces: dict[tuple[str, str], Trace] = {}
        self.explanations: dict[tuple[str, str, str], Explanation] = {}
        self.conditions: Mapping[str, str] = {}
        self.states: list[MachineState] = []
        self.counts: dict[tuple[str, str], Count] = {}
        self.rebuilds: dict[str, Rebuilds] = {}
        self.events = 0
        self.builds = 0
        self.seconds = 0.0
        self.finished = False
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Take in one event."""
        self.events += 1
        if isinstance(event, Observation):
            self._add_observation(event)
        elif isinstance(event, BuildEvent):
            self.seconds += event.seconds
            if event.reason:
                which = self.not_rebuildable if event.salt else self.unbuildable
                which[event.sha] = event.reason
            elif event.route is not Route.CACHED:
                self.builds += 1
        elif isinstance(event, SideBranch):
            self.side_branches[event.merge, event.workload] = event
        elif isinstance(event, Trace):
            self.traces[event.workload, event.sha] = event
        elif isinstance(event, Explanation):
            self.explanations[event.workload, event.parent, event.child] = event
        elif isinstance(event, End):
            self.finished = True
        else:
            self._add_surroundings(event)

    def _add_surroundings(self, event: Conditions | MachineState | Count | Rebuilds) -> None:
        if isinstance(event, Conditions):
            self.conditions = event.facts
        elif isinstance(event, MachineState):
            self.states.append(event)
        elif isinstance(event, Count):
            self.counts[event.workload, event.sha] = event
            self.seconds += event.seconds
        else:
            self.rebuilds[event.workload] = event
            self.seconds += event.seconds

    def _add_observation(self, event: Observation) -> None:
        self.observations[event.workload].append(event)
        if event.outcome is Outcome.MEASURED:
            self.runs[event.workload][event.sha, event.salt].extend(event.runs)
            self._salts[event.workload][event.sha].add(event.salt)
            for run in event.runs:
                self.seconds += run.seconds
            self._freed.pop(event.workload, None)
            return
        if event.salt:
            # The commit itself was measured, by its usual build.
            self.not_rebuildable[event.sha] = event.reason
            return
        self._failures[event.workload][event.sha] = event
        if event.outcome is Outcome.UNIMPORTABLE:
            self._unimportable[_module(event.workload)][event.sha] = event

    @property
    def run_count(self) -> int:
        """How many runs were measured."""
        return sum(len(runs) for by_build in self.runs.values() for runs in by_build.values())

    def salts(self, workload: Workload, sha: str) -> list[int]:
        """Which builds of the commit were measured, ascending: 0 is the usual one."""
        return sorted(self._salts[workload.name].get(sha, ()))

    def next_salt(self, workload: Workload, sha: str) -> int:
        """The salt of the commit's next build; for another workload it may have been made."""
        return max(self.salts(workload, sha), default=0) + 1

    def freed(self, workload: Workload) -> Mapping[BuildName, tuple[float, ...]]:
        """For each measured build the logarithms of its runs, free of block effects."""
        if workload.name not in self._freed:
            self._freed[workload.name] = self._free_of_blocks(self.runs[workload.name])
        return self._freed[workload.name]

    def values(self, workload: Workload, sha: str) -> tuple[float, ...]:
        """The same for a commit: those of all its builds, the usual one first."""
        freed = self.freed(workload)
        return tuple(x for salt in self.salts(workload, sha) for x in freed[sha, salt])

    def failure(self, workload: Workload, sha: str) -> Observation | None:
        """Why this commit has no run of this workload, or None.

        A commit without a build serves no workload; one that cannot be imported, none of the
        same benchmark file.
        """
        if sha in self._salts[workload.name]:
            return None
        if sha in self.unbuildable:
            return Observation(workload.name, sha, Outcome.UNBUILDABLE, (), self.unbuildable[sha])
        elsewhere = self._unimportable[_module(workload.name)].get(sha)
        return self._failures[workload.name].get(sha) or elsewhere

    def accounts(self, workload: Workload, shas: Iterable[str]) -> tuple[Observation, ...]:
        """The workload's observations as reports show them, in order.

        Values are freed of block effects, as verdicts are reached on them; what is known to fail
        by another workload's attempt is told as well, for each of ``shas``.
        """
        logs = {build: iter(values) for build, values in self.freed(workload).items()}
        own = [
            replace(each, runs=_at(each.runs, logs.get((each.sha, each.salt), iter(()))))
            for each in self.observations[workload.name]
        ]
        tried = {observation.sha for observation in own}
        known = (self.failure(workload, sha) for sha in shas if sha not in tried)
        return (*own, *(replace(each, workload=workload.name) for each in known if each))

    def instructions(
        self, workload: Workload, parent: str, child: str
    ) -> tuple[float, float] | None:
        """What was counted of one call in both builds; None where either count is missing."""
        counts = [self.counts.get((workload.name, sha)) for sha in (parent, child)]
        known = [count.instructions for count in counts if count and count.instructions]
        return (known[0], known[1]) if len(known) == 2 else None

    def pairs(self, search: Search) -> dict[tuple[int, int], tuple[float, ...]]:
        """Confirmations as paired log ratios, one a round, by the positions compared."""
        position = {commit.sha: index for index, commit in enumerate(search.line)}
        every = [r.value for runs in self.runs[search.workload.name].values() for r in runs]
        log_of = dict(zip(every, map(float, self._logs(every)), strict=True))
        blocks: dict[str, dict[int, float]] = defaultdict(dict)
        for observation in self.observations[search.workload.name]:
            if observation.purpose is Purpose.CONFIRM and observation.sha in position:
                for run in observation.runs:
                    blocks[run.block][position[observation.sha]] = log_of[run.value]
        ratios: dict[tuple[int, int], list[float]] = defaultdict(list)
        for sides in blocks.values():
            if len(sides) == 2:
                left, right = sorted(sides)
                ratios[left, right].append(sides[right] - sides[left])
        return {pair: tuple(values) for pair, values in ratios.items()}

    def _weights(self, search: Search) -> tuple[float, ...]:
        traces = [t for (name, _), t in self.traces.items() if name == search.workload.name]
        return weights_of(search.line, traces)

    def evidence(self, search: Search) -> Evidence:
        """All that is known for one search, costs left out."""
        runs = [run for r in self.runs[search.workload.name].values() for run in r]
        rebuilds = self.rebuilds.get(search.workload.name)
        return Evidence(
            size=len(search.line),
            weights=self._weights(search),
            values={
                index: values
                for index, commit in enumerate(search.line)
                if (values := self.values(search.workload, commit.sha))
            },
            failed=frozenset(
                index
                for index, commit in enumerate(search.line)
                if self.failure(search.workload, commit.sha) is not None
            ),
            pairs=self.pairs(search),
            one_build=len({commit.fingerprint for commit in search.line}) == 1,
            build_seconds=(0.0,) * len(search.line),
            run_seconds=sum(r.seconds for r in runs) / len(runs) if runs else FIRST_RUN_SECONDS,
            spent_seconds=self.seconds,
            build_sigma=rebuilds.sigma if rebuilds else None,
            builds=self._builds(search),
        )

    def _builds(self, search: Search) -> dict[int, tuple[int, ...]]:
        """For each position of several builds, the salt of the build of each of its values."""
        runs = self.runs[search.workload.name]
        found = {}
        for index, commit in enumerate(search.line):
            salts = self.salts(search.workload, commit.sha)
            if len(salts) > 1:
                found[index] = tuple(salt for salt in salts for _ in runs[commit.sha, salt])
        return found


def weights_of(line: Iterable[Commit], traces: Sequence[Trace] = ()) -> tuple[float, ...]:
    """How plausible it is for each commit that it changes a workload, at least ``LEAST_WEIGHT``.

    By what it changes, for Python files by whether the workload runs them as far as ``traces``
    tell, and by what the user said beforehand.
    """
    return tuple(max(LEAST_WEIGHT, commit.prior * _own_weight(commit, traces)) for commit in line)


def _own_weight(commit: Commit, traces: Sequence[Trace]) -> float:
    if commit.path_class is PathClass.PYTHON:
        return reach_weight([path for path in commit.paths if path.endswith(".py")], traces)
    return WEIGHTS[commit.path_class]


def reach_weight(paths: Iterable[str], traces: Sequence[Trace]) -> float:
    """How plausible it is that a commit that changes these Python files moves the workload.

    The largest weight of its files; a file's is the largest over the builds that were traced. One
    that a traced build does not have weighs as if it were executed: a range may bring and take
    away the very file that matters. Without a trace nothing is said against a commit.
    """
    if not traces:
        return EXECUTED
    return max((_file_weight(path, trace) for path in paths for trace in traces), default=PRESENT)


def _file_weight(path: str, trace: Trace) -> float:
    for files, weight in (
        (trace.executed, EXECUTED),
        (trace.prepared, PREPARED),
        (trace.imported, IMPORTED),
        (trace.present, PRESENT),
    ):
        if path in files:
            return weight
    return EXECUTED


def _module(workload: str) -> str:
    """The benchmark file of a workload: what one of them cannot import, none of them can."""
    return workload.split(".", 1)[0]


def _at(runs: Sequence[Run], logs: Iterator[float]) -> tuple[Run, ...]:
    """The runs at the next levels; those of 0 or less, which have no logarithm, as they are."""
    return tuple(
        replace(run, value=math.exp(log)) if run.value > 0 else run
        for run, log in zip(runs, logs, strict=False)
    )
