"""A branch watched commit by commit, with real searches and logs over simulated measurements."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bisectorch.asv_plugin.watching import (
    News,
    Study,
    Watch,
    load_state,
    save_state,
)
from bisectorch.bisection import bisect
from bisectorch.build.store import Store
from bisectorch.execute import LocalExecutor
from bisectorch.measure.noise import free_of_blocks, logs
from bisectorch.model import Build, Commit, CommitRange, Findings, Route, Workload
from bisectorch.seams import Provider
from bisectorch.search import BayesSearcher
from fakes import FakeHistory, FakeMeasurer, FakeProvider, FakeRecorder, FakeReporter, session


@dataclass
class LineHistory(FakeHistory):
    """Ranges of one line of commits."""

    line: tuple[Commit, ...] = ()

    def range(self, spec: str) -> CommitRange:
        """From one object name to another."""
        start, end = (self._at(name) for name in spec.split(".."))
        return CommitRange(spec, self.line[start : end + 1])

    def _at(self, name: str) -> int:
        return next(i for i, commit in enumerate(self.line) if commit.sha == name)


@dataclass
class Watched:
    """One branch, and everything that its watch said.

    Attributes:
        line: all commits it will ever have.
        levels: by workload and commit.
        path: where the watch remembers.
        hook: what the hook answers.
        news: what it was told.
        studied: the workloads and commits of each session.
        seconds: what each session is said to have cost.
    """

    line: tuple[Commit, ...]
    levels: Mapping[str, Mapping[str, float]]
    path: Path
    sigma: float = 0.004
    budget_seconds: float | None = None
    hook: bool = True
    now: float = 1_790_000_000.0
    provider: Provider = field(default_factory=FakeProvider)
    news: list[News] = field(default_factory=list)
    studied: list[tuple[int, int]] = field(default_factory=list)
    reporter: FakeReporter = field(default_factory=FakeReporter)
    unimportable: Mapping[str, str] = field(default_factory=dict)
    smallest_step: float = 0.03
    seconds: float = 100.0

    @property
    def workloads(self) -> list[Workload]:
        """By their names."""
        return [Workload(name) for name in self.levels]

    def look(self, position: int, study: Study | None = None) -> bool:
        """One call, the tip being at this position; whether all levels are known up to it."""
        watch = Watch(
            load_state(self.path, "main"),
            lambda state: save_state(self.path, state),
            LineHistory(line=self.line),
            study or self.study,
            self._told,
            self.reporter,
            budget_seconds=self.budget_seconds,
            smallest_step=self.smallest_step,
            now=lambda: self.now,
        )
        return watch.cycle(self.line[position], self.workloads)

    def study(
        self, commits: CommitRange, workloads: Sequence[Workload], left: float | None, stage: str
    ) -> Findings:
        """A real search; its noise is another one each time."""
        self.studied.append((len(commits.line), len(workloads)))
        seed = random.Random(f"{commits.tip.sha} {len(self.studied)}").randrange(1 << 30)
        start = session(commits.line, *workloads, smallest_step=self.smallest_step)
        findings = bisect(
            start,
            history=FakeHistory(),
            provider=self.provider,
            executor=LocalExecutor(self.provider),
            measurer=FakeMeasurer(
                self.levels, sigma=self.sigma, seed=seed, unimportable=self.unimportable
            ),
            searcher=BayesSearcher(self.smallest_step, 0.95),
            recorder=FakeRecorder(),
            reporter=FakeReporter(),
            free_of_blocks=free_of_blocks,
            logs=logs,
        )
        return replace(findings, cost=replace(findings.cost, seconds=self.seconds))

    def _told(self, news: News) -> bool:
        self.news.append(news)
        return self.hook

    @property
    def found(self) -> list[tuple[str, int, str]]:
        """Each change found: workload, position, and the position of what closed it."""
        at = {commit.sha: index for index, commit in enumerate(self.line)}
        known = load_state(self.path, "main").known
        return [
            (each.workload, at[each.commit], str(at[each.closed_by]) if each.closed_by else "")
            for each in known
        ]


def levels_of(
    line: Sequence[Commit], steps: Mapping[int, float], base: float = 5e-6
) -> dict[str, float]:
    """The level of each commit from relative steps by position."""
    level, by_sha = base, {}
    for index, commit in enumerate(line):
        level *= 1 + steps.get(index, 0.0)
        by_sha[commit.sha] = level
    return by_sha


@dataclass
class StoringProvider(FakeProvider):
    """Builds of some size in a real store, which holds no more of them than it may."""

    store: Store = field(default_factory=lambda: Store("store"))
    size: int = 1000

    def provide(self, commit: Commit) -> Build:
        """From the store, or made for it."""
        self.provided.append(commit.sha)
        key = hashlib.sha256(commit.sha.encode()).hexdigest()
        about = {"kind": "source", "what": commit.sha}
        tree = self.store.make(key, lambda tree: self._fill(tree, commit), about)
        return Build(commit.sha, Route.SOURCE, str(tree), "python", key=key, seconds=self.seconds)

    def _fill(self, tree: Path, commit: Commit) -> None:
        (tree / "code.bin").write_bytes(commit.sha.encode() * (self.size // 40))
