"""The seams: what a room offers to the loop, as protocols with a fake for each in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from bisectorch.model import (
    Block,
    Build,
    Commit,
    CommitRange,
    Conditions,
    Decision,
    Event,
    Evidence,
    Explanation,
    Judged,
    MachineState,
    Observation,
    Purpose,
    Quote,
    Trace,
    TreeFile,
    Workload,
)


class History(Protocol):
    """The commits of a repository."""

    def range(self, spec: str) -> CommitRange:
        """Resolve ``FROM..TO`` along first parents; UsageError when it names nothing to search."""

    def side_branch(self, merge: Commit) -> tuple[Commit, ...]:
        """The merge base, then the commits that ``merge`` brought in, oldest first."""


class Trees(Protocol):
    """The tracked files of a commit."""

    def files(self, sha: str) -> tuple[TreeFile, ...]:
        """Every tracked file of the commit, by path."""

    def contents(self, blobs: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each blob's bytes, in any order."""


class Provider(Protocol):
    """Usable builds, by the cheapest exact route."""

    def quote(self, commit: Commit) -> Quote:
        """The cheapest route and its expected cost; no work is done."""

    def provide(self, commit: Commit) -> Build:
        """Make the build; Unbuildable when this commit has none."""


class Rebuilder(Protocol):
    """More builds of a commit, of the same code in other layouts."""

    def rebuild_quote(self, commit: Commit, salt: int) -> Quote:
        """The expected cost of the build in the layout of ``salt``; no work is done."""

    def rebuild(self, commit: Commit, salt: int) -> Build:
        """Make it, or find it again; Unbuildable when it cannot be made."""


class Measurer(Protocol):
    """Runs of builds, interleaved on one core."""

    def measure(
        self,
        builds: Sequence[Build],
        workload: Workload,
        runs: int,
        block: str,
        purpose: Purpose,
    ) -> Iterator[Observation]:
        """Measure each build in ``runs`` rounds of fresh processes; a round is one block.

        Yields one observation a build and round as soon as the round ends; its one run carries
        the block ``f"{block}.{round}"``. A build that fails yields its outcome once and is left
        out of the rounds that follow.
        """


class BlockMeasurer(Protocol):
    """Blocks of several workloads, the builds of each interleaved on one core."""

    def measure_in_turn(self, blocks: Sequence[Block]) -> Iterator[Observation]:
        """Measure each block, in any order.

        Yields the observations of a block, one a build, as soon as it has been measured; what
        runs of different blocks may share is the start of their build's process.
        """


class Judge(Protocol):
    """Decides whether two builds differ. Pure."""

    def judge(self, log_ratios: Sequence[Sequence[float]]) -> tuple[Judged, ...]:
        """One answer a workload from its paired log ratios, one a block, in order.

        All workloads are judged together, because what is called DIFFERENT depends on how many
        were asked.
        """

    def overall(self, log_ratios: Sequence[Sequence[float]]) -> tuple[float, float, float]:
        """The mean over workloads of their mean log ratios, and its interval; NaN for none."""


class Gauge(Protocol):
    """Reads the machine, beside the measurements."""

    def conditions(self, build: Build, workload: Workload) -> Conditions:
        """What the session measures with, told by a process of this build."""

    def state(self, block: str) -> MachineState:
        """How the machine is as this block ends."""


class Searcher(Protocol):
    """Decides what to measure next, and when it is enough. Pure."""

    def decide(self, evidence: Evidence, batch: int) -> Decision:
        """At most ``batch`` positions to probe next, or a verdict."""


class Executor(Protocol):
    """Where builds are made."""

    @property
    def width(self) -> int:
        """How many builds are made at the same time."""

    def build(self, commits: Sequence[Commit]) -> Iterator[tuple[Commit, Build | Exception]]:
        """Make these builds, yielding each with its build or its Unbuildable as it ends."""


class Tracer(Protocol):
    """Tells which files a workload reaches."""

    def trace(self, build: Build, workload: Workload, paths: Sequence[str] = ()) -> Trace | None:
        """Which files of the build it reaches; None when it cannot be looked into.

        ``paths``: the repository's files of which it matters whether they are imported at all.
        """


class Explainer(Protocol):
    """Says why builds differ on a workload."""

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
        """Why the workload differs; the explanation's ``reason`` says why it cannot be told."""


class Recorder(Protocol):
    """The session log: an event is on disk when the call returns."""

    def append(self, event: Event) -> None:
        """Write one event durably; EnvironmentFailure when the disk refuses."""


class Reporter(Protocol):
    """Tells a person how the session goes."""

    def progress(self, message: str) -> None:
        """What is being done now."""

    def found(self, message: str) -> None:
        """Something that stands: a confirmed culprit, or a commit that cannot be used."""
