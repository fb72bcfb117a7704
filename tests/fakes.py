"""A first-class fake for each seam: real behaviour, no processes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bisectorch.errors import Unbuildable
from bisectorch.model import (
    Block,
    Build,
    Commit,
    CommitRange,
    Event,
    Observation,
    Outcome,
    PathClass,
    Purpose,
    Quote,
    Route,
    Run,
    Session,
    SessionHeader,
    Workload,
)


def sha_of(name: object) -> str:
    """A full object name made from a readable one."""
    return (str(name).encode().hex() + "0" * 40)[:40]


def commit(
    name: object,
    parents: Sequence[str] = (),
    path_class: PathClass = PathClass.PYTHON,
    subject: str | None = None,
) -> Commit:
    """A commit with a readable name."""
    return Commit(
        sha=sha_of(name),
        parents=tuple(parents),
        author="A. Author",
        date_seconds=1_500_000_000,
        subject=subject or f"Change {name}",
        paths=("torch/nn/modules/linear.py",),
        path_class=path_class,
    )


def line(count: int, prefix: str = "c") -> tuple[Commit, ...]:
    """A straight line of commits."""
    shas = [sha_of(f"{prefix}{i:03d}") for i in range(count)]
    return tuple(
        commit(f"{prefix}{i:03d}", parents=[shas[i - 1]] if i else []) for i in range(count)
    )


def session(
    commits: Sequence[Commit], *workloads: Workload, smallest_step: float = 0.03, **more: object
) -> Session:
    """A session that has not begun."""
    header = SessionHeader(
        session="20170801-120000-abcd",
        created_seconds=1_500_000_000.0,
        range=CommitRange("FROM..TO", tuple(commits)),
        workloads=workloads or (Workload("linear.Linear.time_forward", ("1", "10"), 0),),
        smallest_step=smallest_step,
        confidence=0.95,
        budget_seconds=None,
        machine={"machine": "bench"},
        environment="fake-py3.11",
        python="3.11",
        project="fake",
    )
    return Session(header=SessionHeader(**{**header.__dict__, **more}), events=())  # type: ignore[arg-type]


@dataclass
class FakeHistory:
    """Side branches by merge."""

    sides: Mapping[str, tuple[Commit, ...]] = field(default_factory=dict)

    def range(self, spec: str) -> CommitRange:
        """Not asked by the loop."""
        raise NotImplementedError

    def side_branch(self, merge: Commit) -> tuple[Commit, ...]:
        """The side line given."""
        return self.sides[merge.sha]


@dataclass
class FakeProvider:
    """Builds everything but what is broken, and counts."""

    broken: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.2
    provided: list[str] = field(default_factory=list)

    def quote(self, commit: Commit) -> Quote:
        """Always an overlay."""
        return Quote(commit.sha, Route.OVERLAY, self.seconds)

    def provide(self, commit: Commit) -> Build:
        """A build with nothing in it."""
        self.provided.append(commit.sha)
        if commit.sha in self.broken:
            raise Unbuildable(self.broken[commit.sha])
        return Build(commit.sha, Route.OVERLAY, "", "python", seconds=self.seconds)


@dataclass
class FakeRebuilder:
    """Builds every commit again but what is broken, and counts; what was made is there."""

    broken: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 5.0
    rebuilt: list[tuple[str, int]] = field(default_factory=list)

    def rebuild_quote(self, commit: Commit, salt: int) -> Quote:
        """Nothing for what is there."""
        if (commit.sha, salt) in self.rebuilt:
            return Quote(commit.sha, Route.CACHED, 0.0)
        return Quote(commit.sha, Route.SOURCE, self.seconds)

    def rebuild(self, commit: Commit, salt: int) -> Build:
        """A build with nothing in it, found by commit and salt."""
        if commit.sha in self.broken:
            raise Unbuildable(self.broken[commit.sha])
        is_there = (commit.sha, salt) in self.rebuilt
        if not is_there:
            self.rebuilt.append((commit.sha, salt))
        route = Route.CACHED if is_there else Route.SOURCE
        seconds = 0.0 if is_there else self.seconds
        return Build(commit.sha, route, "", "python", seconds=seconds, salt=salt)


def build_name(sha: str, salt: int) -> str:
    """How fakes call a build: by its commit, and by its salt where it is not the usual one."""
    return f"{sha} {salt}" if salt else sha


@dataclass
class FakeMeasurer:
    """Levels by workload and commit, with run noise and a drift that a block shares.

    Builds may have levels of their own, and faults, by ``build_name``.

    ``stop_after`` raises KeyboardInterrupt before that many runs have been made, as a person
    would.
    """

    levels: Mapping[str, Mapping[str, float]]
    sigma: float = 0.01
    drift: float = 0.05
    unimportable: Mapping[str, str] = field(default_factory=dict)
    seed: int = 1
    stop_after: int | None = None
    made: int = 0
    together: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def measure_in_turn(self, blocks: Sequence[Block]) -> Iterator[Observation]:
        """A round of each, the last first, and a note of what was asked together."""
        self.together.append(tuple(block.workload.name for block in blocks))
        for block in reversed(blocks):
            yield from self.measure(block.builds, block.workload, 1, block.name, block.purpose)

    def measure(
        self,
        builds: Sequence[Build],
        workload: Workload,
        runs: int,
        block: str,
        purpose: Purpose,
    ) -> Iterator[Observation]:
        """Runs in rounds; each round has a drift of its own."""
        alive = []
        for build in builds:
            name = build_name(build.sha, build.salt)
            if name in self.unimportable:
                reason = self.unimportable[name]
                yield Observation(
                    workload.name, build.sha, Outcome.UNIMPORTABLE, (), reason, purpose, build.salt
                )
            else:
                alive.append(build)
        for turn in range(runs):
            shift = self._random.gauss(0, self.drift)
            for build in alive:
                if self.stop_after is not None and self.made >= self.stop_after:
                    raise KeyboardInterrupt
                self.made += 1
                levels = self.levels[workload.name]
                level = levels.get(build_name(build.sha, build.salt)) or levels[build.sha]
                value = level * math.exp(shift + self._random.gauss(0, self.sigma))
                run = Run(value, f"{block}.{turn}", (value,), 1, 0.0, 1.5)
                yield Observation(
                    workload.name, build.sha, Outcome.MEASURED, (run,), "", purpose, build.salt
                )


class FakeRecorder:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, event: Event) -> None:
        """Kept in order."""
        self.events.append(event)


class FakeReporter:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.findings: list[str] = []

    def progress(self, message: str) -> None:
        """Kept in order."""
        self.said.append(message)

    def found(self, message: str) -> None:
        """Kept in order."""
        self.findings.append(message)
