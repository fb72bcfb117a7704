"""Reports and logs, written to a stream in the format asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from rich.table import Table
from rich.text import Text

from bisectorch.model import (
    BuildEvent,
    Conditions,
    Count,
    End,
    Event,
    Explanation,
    Findings,
    MachineState,
    Observation,
    Rebuilds,
    Session,
    SideBranch,
    Trace,
    Workload,
)
from bisectorch.report import account, comment, jsonreport, junit, markdown, text, wording
from bisectorch.report.wording import one_line, short

FORMATS = ("text", "markdown", "json")
SESSION_FORMATS = (*FORMATS, "comment", "junit")
"""What a session can be told as: for a pull request and for CI too."""
LOG_PIPE_WIDTH = 160
"""So that in a pipe an event is a line, for grep and its like."""


def write_report(findings: Findings, form: str, stream: TextIO) -> None:
    """Write the findings in one of ``SESSION_FORMATS``."""
    if form == "comment":
        stream.write(text.encodable(comment.render(findings), stream))
    elif form == "junit":
        stream.write(text.encodable(junit.render(findings), stream))
    elif form == "json":
        stream.write(jsonreport.render(findings))
    elif form == "markdown":
        stream.write(text.encodable(markdown.render(findings), stream))
    else:
        text.write(findings, stream)


def write_log(session: Session, path: Path, stream: TextIO) -> None:
    """Write a session's log for people: one line a build or an observation, in order."""
    header = session.header
    workloads = {workload.name: workload for workload in header.workloads}
    subjects = {commit.sha: commit.subject for commit in header.range.line}
    for event in session.events:
        if isinstance(event, SideBranch):
            subjects.update({commit.sha: commit.subject for commit in event.line})
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True, justify="right", style="dim")
    lines.add_column(no_wrap=True)
    lines.add_column(no_wrap=True, style="cyan")
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    lines.add_column(no_wrap=True, overflow="ellipsis", style="dim")
    for number, event in enumerate(session.events, start=1):
        what, sha, result, detail = _event(event, workloads)
        subject = one_line(subjects.get(_sha(event), ""), 60)
        lines.add_row(str(number), what, sha, result, Text(one_line(detail, 200)), Text(subject))
    head = (
        f"{one_line(str(path))}\n{one_line(header.range.spec)}, begun "
        f"{wording.moment(header.created_seconds)}, {wording.count(len(session.events), 'event')}"
    )
    text.write_renderables([Text(head), lines], stream, pipe_width=LOG_PIPE_WIDTH)


def _sha(event: Event) -> str:
    if isinstance(event, SideBranch):
        return event.merge
    if isinstance(event, Explanation):
        return event.child
    return "" if isinstance(event, End | Conditions | MachineState) else event.sha


def _event(event: Event, workloads: dict[str, Workload]) -> tuple[str, str, str, str]:
    """What happened, to which commit, what came of it, and the rest."""
    if isinstance(event, BuildEvent):
        outcome = event.route.value if event.route else "failed"
        detail = wording.duration(event.seconds), wording.which_build(event.salt), event.reason
        return "build", short(event.sha), outcome, "  ".join(filter(None, detail))
    if isinstance(event, SideBranch):
        commits = wording.count(len(event.line) - 1, "commit")
        return "descend", short(event.merge), commits, event.workload
    if isinstance(event, End):
        return "end", "", "", f"after {wording.duration(event.seconds)}"
    if isinstance(event, Trace):
        files = wording.count(len(event.executed), "file")
        return "trace", short(event.sha), f"{files} executed", event.workload
    if isinstance(event, Explanation):
        what = "nothing" if event.reason else wording.share(event.explained)
        why = event.reason or ", ".join(cause.name for cause in event.causes[:3])
        return "explain", short(event.child), f"{what} explained", f"{event.workload}  {why}"
    if isinstance(event, Conditions):
        return "conditions", "", "", ", ".join(f"{k} {v}" for k, v in event.facts.items())
    if isinstance(event, MachineState):
        return "machine", "", "", f"block {event.block}: {account.state_words([event])}"
    if isinstance(event, Count):
        known = event.instructions is not None
        said = wording.quantity(event.instructions or 0.0, "instructions") if known else "failed"
        return "count", short(event.sha), said, f"{event.workload}  {event.reason}".rstrip()
    if isinstance(event, Rebuilds):
        said = f"builds spread by {wording.share_of(event.sigma)}"
        return "rebuilds", short(event.sha), said, event.workload
    return _observation(event, workloads)


def _observation(event: Observation, workloads: dict[str, Workload]) -> tuple[str, str, str, str]:
    known = workloads.get(event.workload)
    result = event.outcome.value
    if event.runs:
        result = wording.quantities([run.value for run in event.runs], known.unit if known else "")
    said = event.workload, wording.which_build(event.salt), event.reason
    detail = "  ".join(filter(None, said))
    return event.purpose.value, short(event.sha), result, detail
