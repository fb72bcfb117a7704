"""A short session over a real log and a real store, told what it reported as it goes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisectorch.bisection import bisect
from bisectorch.build.failures import Failures
from bisectorch.build.learned import Learned
from bisectorch.build.store import Store
from bisectorch.errors import LogError, Unbuildable
from bisectorch.execute import LocalExecutor
from bisectorch.measure.noise import free_of_blocks, logs
from bisectorch.model import (
    Build,
    Commit,
    Event,
    Findings,
    Observation,
    Purpose,
    Quote,
    Route,
    Session,
    Workload,
)
from bisectorch.report.record import SessionLog, load, log_path
from bisectorch.search import BayesSearcher
from fakes import FakeHistory, FakeMeasurer, FakeReporter, line, session

WORKLOAD = Workload("linear.Linear.time_forward", ("1", "10"), 0)
COMMITS = line(8)
BROKEN, SLOWER = 4, 5
"""Positions: the culprit lies beside a commit that has no build."""
TRUTH = ((COMMITS[BROKEN].sha, COMMITS[SLOWER].sha),)
"""The credible set of each culprit."""
LEVELS = {c.sha: 5e-6 * (1.4 if i >= SLOWER else 1.0) for i, c in enumerate(COMMITS)}
NATIVE = b"native code " * 1000

Tell = Callable[[str], None]


class PartialBuild(Exception):
    """A build was handed out that is not whole."""


def files_of(commit: Commit) -> Mapping[str, bytes]:
    """What a whole build of the commit holds."""
    return {
        "pkg/__init__.py": f"NAME = {commit.sha!r}\n".encode(),
        "pkg/inner/data.bin": commit.sha.encode() * 500,
    }


@dataclass
class StoreProvider:
    """Builds as the ladder makes them: a native one in the store, each commit's laid over it."""

    store: Store

    def __post_init__(self) -> None:
        self._failures = Failures(self.store.root / "failures")
        self._learned = Learned(self.store.root / "learned.jsonl")

    def quote(self, commit: Commit) -> Quote:
        """Cheap, so that many commits are built."""
        return Quote(commit.sha, Route.OVERLAY, 0.2)

    def provide(self, commit: Commit) -> Build:
        """The commit's tree, or the reason why it has none."""
        known = self._failures.reason(commit.sha, {})
        if known is None and commit == COMMITS[BROKEN]:
            known = "gcc failed"
            self._failures.add(commit.sha, known, {}, stopped=False)
        if known is not None:
            raise Unbuildable(known)
        native = hashlib.sha256(b"native").hexdigest()

        def make_native(tree: Path) -> None:
            (tree / "native.bin").write_bytes(NATIVE)
            self._learned.add("source", 1.0)

        base = self.store.make(native, make_native, {"kind": "source", "what": "native"})

        def make(tree: Path) -> None:
            for name, content in files_of(commit).items():
                path = tree / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            (tree / "native.bin").symlink_to(os.path.relpath(base / "native.bin", tree))

        key = hashlib.sha256(commit.sha.encode()).hexdigest()
        about = {"kind": "overlay", "what": commit.sha, "base": native}
        tree = self.store.make(key, make, about)
        return Build(commit.sha, Route.OVERLAY, str(tree), "python", key=key, seconds=0.2)


class CheckingMeasurer(FakeMeasurer):
    """Measures only what is whole."""

    def measure(
        self, builds: Sequence[Build], workload: Workload, runs: int, block: str, purpose: Purpose
    ) -> Iterator[Observation]:
        """Look at every file first."""
        for build in builds:
            wanted = {**files_of(_commit(build.sha)), "native.bin": NATIVE}
            for name, content in wanted.items():
                path = Path(build.tree, name)
                if not path.is_file() or path.read_bytes() != content:
                    raise PartialBuild(f"{name} of {build.sha[:10]}")
        return super().measure(builds, workload, runs, block, purpose)


@dataclass
class TellingLog:
    """Appends, and tells each event once the log has taken it."""

    log: SessionLog
    tell: Tell

    def append(self, event: Event) -> None:
        """On disk, then told."""
        self.log.append(event)
        if (name := name_of(event)) is not None:
            self.tell(name)


def name_of(event: Event) -> str | None:
    """What tells an observation from all others of the session."""
    if not isinstance(event, Observation):
        return None
    return f"{event.workload} {event.sha} {event.outcome.value} {event.runs}"


def rehearse(root: Path, tell: Tell, seed: int) -> Findings:
    """Begin the session beneath ``root``, or go on with it."""
    path = log_path(root / "sessions", "rehearsal")
    start = session(COMMITS, WORKLOAD)
    try:
        log = SessionLog.reopen(path)
    except LogError:
        # One without a header is for the user to delete: nothing was measured.
        if path.exists():
            path.unlink()
        log = SessionLog.create(path, start.header)
    with log:
        known = load(path)
        provider = StoreProvider(Store(root / "store", most_bytes=1 << 20))
        return bisect(
            Session(start.header, known.events),
            history=FakeHistory(),
            provider=provider,
            executor=LocalExecutor(provider),
            measurer=CheckingMeasurer({WORKLOAD.name: LEVELS}, sigma=0.004, seed=seed),
            searcher=BayesSearcher(0.05, 0.95, cells=4),
            recorder=TellingLog(log, tell),
            reporter=FakeReporter(),
            free_of_blocks=free_of_blocks,
            logs=logs,
            clock=lambda: 0.0,
        )


def culprits(findings: Findings) -> tuple[tuple[str, ...], ...]:
    """The credible set of each culprit."""
    return tuple(c.credible_set for c in findings.workloads[0].culprits)


def _commit(sha: str) -> Commit:
    return next(commit for commit in COMMITS if commit.sha == sha)
