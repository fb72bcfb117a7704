from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from bisectorch.asv_plugin import corroborate as room
from bisectorch.asv_plugin.corroborate import chosen_tool, corroborate, options
from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.measure.counts import Tool
from bisectorch.model import Build, Commit, Count, Findings, Quote, Route, Session, Workload
from factories import make_findings, make_header
from fakes import FakeRecorder, FakeReporter

KERNEL, VALGRIND = Tool("perf events"), Tool("callgrind", "/bin/valgrind", 60.0)


@dataclass
class Counter:
    """Counts by commit, and what was asked."""

    failing: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)

    def counts(self, builds: list[Build], workload: Workload) -> Iterable[Count]:
        """The length of the name, in a way."""
        for build in builds:
            self.asked.append((workload.name, build.sha))
            known = None if build.sha == self.failing else float(int(build.sha[:4], 16) + 1)
            reason = "failed: killed by SIGILL" if known is None else ""
            yield Count(workload.name, build.sha, known, "callgrind", 1.0, reason)


@dataclass
class Provider:
    """Builds everything but what is lost."""

    lost: str = ""

    def quote(self, commit: Commit) -> Quote:
        """Not asked."""
        raise NotImplementedError

    def provide(self, commit: Commit) -> Build:
        """From the store."""
        if commit.sha == self.lost:
            raise Unbuildable("gone")
        return Build(commit.sha, Route.CACHED, "", "python")


def run(
    findings: Findings, counter: Counter, provider: Provider | None = None, *known: Count
) -> tuple[list[Count], FakeReporter]:
    """What was recorded, and what was said."""
    recorder, reporter = FakeRecorder(), FakeReporter()
    session = Session(make_header(findings), known)
    counts = list(
        corroborate(session, findings, counter, provider or Provider(), recorder, reporter)
    )
    assert recorder.events == counts
    return counts, reporter


def sides(findings: Findings) -> set[tuple[str, str]]:
    """Both commits of every culprit of the first workload."""
    found = findings.workloads[0]
    return {
        (found.workload.name, side.sha)
        for culprit in found.culprits
        for side in (culprit.parent, culprit.child)
    }


def test_both_builds_of_every_culprit_are_counted_once() -> None:
    """Of workloads in seconds; what the log knows already is left out."""
    findings = make_findings()
    counter = Counter()
    counts, _ = run(findings, counter)
    assert set(counter.asked) == sides(findings)
    assert len(counter.asked) == len(set(counter.asked))
    again = Counter()
    assert run(findings, again, None, *counts)[0] == []
    assert again.asked == []


@pytest.mark.parametrize(
    "workload",
    [
        Workload("a.time_x", unit="instructions"),
        Workload("a.track_x", unit="seconds", kind="track"),
        Workload("a.timeraw_x"),
        Workload("a.peakmem_x", unit="bytes", kind="peakmemory"),
    ],
)
def test_what_is_not_in_seconds_or_cannot_be_counted_is_left_out(workload: Workload) -> None:
    """Instructions are no second witness to themselves."""
    findings = make_findings()
    found = replace(findings.workloads[0], workload=workload)
    counter = Counter()
    assert run(replace(findings, workloads=(found,)), counter)[0] == []
    assert counter.asked == []


def test_a_count_that_fails_is_kept_with_its_reason() -> None:
    """And a build that is lost is not asked for; the others go on."""
    findings = make_findings()
    first, second = findings.workloads[0].culprits[:2]
    counts, reporter = run(
        findings, Counter(failing=first.child.sha), Provider(lost=second.parent.sha)
    )
    by_sha = {count.sha: count for count in counts}
    assert by_sha[first.child.sha].instructions is None
    assert second.parent.sha not in by_sha
    assert by_sha[second.child.sha].instructions
    assert f"{first.child.sha[:10]} was not counted: failed: killed by SIGILL" in reporter.findings


@pytest.mark.parametrize(
    ("asked", "tool", "chosen"),
    [
        (None, KERNEL, KERNEL),
        (None, VALGRIND, None),
        (None, None, None),
        (True, KERNEL, KERNEL),
        (True, VALGRIND, VALGRIND),
        (False, KERNEL, None),
        (False, None, None),
    ],
)
def test_by_default_it_is_done_where_it_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, asked: bool | None, tool: Tool | None, chosen: Tool | None
) -> None:
    """Whatever was asked for goes before."""
    monkeypatch.setattr(room, "find_tool", lambda: tool or _no_tool())
    header = replace(make_header(make_findings()), options=options(asked))
    assert chosen_tool(header) == chosen


def test_asked_for_and_nothing_there_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and on a machine that a session is resumed on."""
    monkeypatch.setattr(room, "find_tool", _no_tool)
    with pytest.raises(EnvironmentFailure, match="install valgrind"):
        options(True)
    header = replace(make_header(make_findings()), options={"corroborate": "yes"})
    with pytest.raises(EnvironmentFailure, match="install valgrind"):
        chosen_tool(header)


def _no_tool() -> Tool:
    raise EnvironmentFailure("no counters, and valgrind is not installed: install valgrind")
