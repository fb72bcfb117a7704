"""Beside the times of a culprit, the instructions of its two builds: a second witness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.measure.counts import Tool, find_tool, is_countable
from bisectorch.model import (
    Build,
    Commit,
    Count,
    Culprit,
    Findings,
    Session,
    SessionHeader,
    SideBranch,
    Workload,
)
from bisectorch.seams import Provider, Recorder, Reporter


class Counter(Protocol):
    """Counts the instructions of builds."""

    def counts(self, builds: list[Build], workload: Workload) -> Iterable[Count]:
        """One count of each build, or why there is none."""


CORROBORATE = "corroborate"
"""The session's option: ``yes``, ``no``, or none where nothing was said."""


def options(asked: bool | None) -> dict[str, str]:
    """What was asked for, as a session's options.

    EnvironmentFailure when it was asked for and nothing here can count.
    """
    if asked:
        find_tool()
    return {} if asked is None else {CORROBORATE: "yes" if asked else "no"}


def chosen_tool(header: SessionHeader) -> Tool | None:
    """What to corroborate a session's culprits with, None for not at all.

    By default where a count costs no more than a run, which is where the kernel counts: under
    callgrind importing a large library alone takes tens of seconds, for every culprit twice.
    EnvironmentFailure when it was asked for and nothing here can count.
    """
    asked = header.options.get(CORROBORATE)
    if asked == "no":
        return None
    try:
        tool = find_tool()
    except EnvironmentFailure:
        if asked == "yes":
            raise
        return None
    return tool if asked == "yes" or tool.is_cheap else None


def corroborate(
    session: Session,
    findings: Findings,
    counter: Counter,
    provider: Provider,
    recorder: Recorder,
    reporter: Reporter,
) -> Iterator[Count]:
    """Count both builds of every culprit that was found by its time; yields what was recorded."""
    commits = _commits(session)
    known = {(event.workload, event.sha) for event in session.events if isinstance(event, Count)}
    for found in findings.workloads:
        if not is_countable(found.workload) or found.workload.unit != "seconds":
            continue
        for culprit in found.culprits:
            shas = [sha for sha in _sides(culprit) if (found.workload.name, sha) not in known]
            builds = [build for sha in shas if (build := _build(provider, commits.get(sha)))]
            if not builds:
                continue
            reporter.progress(
                f"{found.workload.name}: counting instructions around {culprit.commit.sha[:10]}"
            )
            for count in counter.counts(builds, found.workload):
                recorder.append(count)
                known.add((count.workload, count.sha))
                if count.reason:
                    reporter.found(f"{count.sha[:10]} was not counted: {count.reason}")
                yield count


def _sides(culprit: Culprit) -> tuple[str, str]:
    return culprit.parent.sha, culprit.child.sha


def _commits(session: Session) -> dict[str, Commit]:
    """The session's commits by name, those inside merges too."""
    lines = [session.header.range.line]
    lines += [event.line for event in session.events if isinstance(event, SideBranch)]
    return {commit.sha: commit for line in lines for commit in line}


def _build(provider: Provider, commit: Commit | None) -> Build | None:
    if commit is None:
        return None
    try:
        return provider.provide(commit)
    except Unbuildable:
        return None  # it was measured, so it was built; the store may have lost it since
