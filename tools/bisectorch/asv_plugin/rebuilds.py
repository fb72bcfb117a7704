"""How far builds of one commit spread: FROM, built several times over and measured side by side."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Protocol

from bisectorch.errors import Unbuildable, UsageError
from bisectorch.measure.noise import between_builds
from bisectorch.model import Build, Commit, Outcome, Purpose, Rebuilds, Run, Session, Workload
from bisectorch.seams import Measurer, Rebuilder, Recorder, Reporter

REBUILDS = "rebuilds"
"""The session's option: how many."""

FEWEST, ROUNDS = 2, 6


class Sources(Rebuilder, Protocol):
    """Builds a commit, and builds it again in other layouts."""

    @property
    def compiles(self) -> bool:
        """Whether commits are built from source, and by nothing else."""

    def provide(self, commit: Commit) -> Build:
        """The usual build."""


def refuse_needless(count: int, ladder: Sources) -> None:
    """UsageError where rebuilds would tell nothing."""
    if count and count < FEWEST:
        raise UsageError(f"--rebuilds {count} shows no spread; write {FEWEST} or more")
    if count and not ladder.compiles:
        raise UsageError(
            "--rebuilds needs builds from source alone: nothing is compiled here, or wheels are "
            "used, which cannot be built again"
        )


def measure_rebuilds(
    session: Session,
    ladder: Sources,
    measurer: Measurer,
    recorder: Recorder,
    reporter: Reporter,
) -> Iterator[Rebuilds]:
    """Build FROM as often as the session asks, measure each workload; yields what was recorded.

    Workloads that the session's events tell of already are left out. Nothing is yielded where
    FROM cannot be built or measured: the search will say so.
    """
    count = int(session.header.options.get(REBUILDS, "0"))
    known = {event.workload for event in session.events if isinstance(event, Rebuilds)}
    wanted = [each for each in session.header.workloads if each.name not in known]
    if not count or not wanted:
        return
    baseline = session.header.range.baseline
    began = time.monotonic()
    try:
        builds = [ladder.provide(baseline)]
        for salt in range(1, count + 1):
            reporter.progress(f"building {baseline.sha[:10]} again ({salt} of {count})")
            builds.append(ladder.rebuild(baseline, salt))
    except Unbuildable as error:
        reporter.found(f"{baseline.sha[:10]} cannot be built again: {error.reason}")
        return
    for workload in wanted:
        reporter.progress(f"{workload.name}: measuring {len(builds)} builds of one commit")
        measured = _measured(builds, workload, measurer)
        if len(measured) == len(builds):
            levels, sigma = between_builds(measured)
            seconds = time.monotonic() - began
            rebuilds = Rebuilds(workload.name, baseline.sha, levels, ROUNDS, sigma, seconds)
            recorder.append(rebuilds)
            reporter.found(f"{workload.name}: builds of one commit spread by {sigma:.2%}")
            yield rebuilds
        began = time.monotonic()


def _measured(builds: list[Build], workload: Workload, measurer: Measurer) -> dict[int, list[Run]]:
    """Each build's runs by its salt; without those of builds that fail."""
    runs: dict[int, list[Run]] = defaultdict(list)
    for seen in measurer.measure(builds, workload, ROUNDS, "rebuilds", Purpose.REPEAT):
        if seen.outcome is Outcome.MEASURED:
            runs[seen.salt].extend(seen.runs)
    return dict(runs)
