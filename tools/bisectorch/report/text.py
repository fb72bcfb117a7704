"""The report for a terminal, which is plain text of a fixed width in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bisectorch.model import Culprit, Findings, Verdict, WorkloadFindings
from bisectorch.report import account, wording
from bisectorch.report.why import facts as reasons
from bisectorch.report.wording import one_line, quantity, short

PIPE_WIDTH = 100
SUBJECT_LIMIT = 300
RUNS_SHOWN = 40

_ASCII = str.maketrans(
    {"µ": "u", "×": "x", "–": "-", "…": "...", "·": "-", "▲": "^", "▼": "v", "─": "-"}
)


def console_for(stream: TextIO, pipe_width: int = PIPE_WIDTH) -> Console:
    """A console as wide as the terminal, or plain text of a fixed width when it is none."""
    terminal = stream.isatty()
    return Console(
        file=stream,
        width=None if terminal else pipe_width,
        color_system="auto" if terminal else None,
        force_terminal=None if terminal else False,
        highlight=False,
        markup=False,
        emoji=False,
    )


def write(findings: Findings, stream: TextIO) -> None:
    """Write the report."""
    write_renderables([renderable(findings)], stream)


def write_renderables(
    parts: Iterable[RenderableType], stream: TextIO, pipe_width: int = PIPE_WIDTH
) -> None:
    """Write anything rich can show; without trailing blanks where it is not a terminal."""
    console = console_for(stream, pipe_width)
    with console.capture() as capture:
        for part in parts:
            console.print(part, crop=False)
    shown = capture.get()
    if not stream.isatty():
        shown = "".join(f"{line.rstrip()}\n" for line in shown.splitlines())
    stream.write(encodable(shown, stream))


def encodable(shown: str, stream: TextIO) -> str:
    """The text with what the stream's encoding lacks written in ASCII."""
    encoding = stream.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        return shown.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return shown


def renderable(findings: Findings) -> RenderableType:
    """The whole report, for any rich console."""
    parts: list[RenderableType] = [_head(findings)]
    for found in findings.workloads:
        parts += ["", *_workload(findings, found)]
    return Group(*parts)


def _head(findings: Findings) -> RenderableType:
    cost = findings.cost
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("session", one_line(findings.session))
    facts.add_row("range", one_line(f"{account.title(findings)}  ({account.span(findings)})"))
    facts.add_row("asked", account.ticket(findings))
    machine = one_line(findings.machine.get("machine", ""))
    facts.add_row("measured on", f"{machine}  {one_line(findings.environment)}".strip())
    facts.add_row(
        "cost",
        f"{wording.count(cost.builds, 'build')}, {wording.count(cost.runs, 'run')}, "
        f"{wording.duration(cost.seconds)}",
    )
    measured_with = account.conditions(findings)
    if measured_with:
        facts.add_row("measured with", measured_with)
    if not findings.finished:
        facts.add_row(
            "unfinished",
            f"cut short; go on with: bisectorch resume {one_line(findings.session)}",
        )
    return facts


def _workload(findings: Findings, found: WorkloadFindings) -> Iterator[RenderableType]:
    style = {Verdict.CULPRITS: "bold", Verdict.NO_CHANGE: "green", Verdict.INCONCLUSIVE: "yellow"}
    yield Text(one_line(found.workload.name), style="bold cyan")
    verdict = Text(account.verdict_line(findings, found), style=style[found.verdict])
    yield Padding(verdict, (0, 2))
    for number, culprit in enumerate(found.culprits, start=1):
        yield ""
        yield from _culprit(findings, found, culprit, number)
    yield ""
    yield Padding(_table(findings, found), (0, 2))
    noise = account.noise(found)
    if noise:
        yield Padding(Text(noise, style="dim"), (0, 2))
    broken = account.broken(findings, found)
    if broken:
        yield ""
        yield Padding(Text(f"{wording.count(len(broken), 'commit')} not measurable"), (0, 2))
        yield Padding(_broken(broken), (0, 4))


def _broken(broken: tuple[account.Broken, ...]) -> Table:
    lines = Table.grid(padding=(0, 2))
    for item in broken:
        lines.add_row(
            short(item.commit.sha),
            Text(one_line(item.why, SUBJECT_LIMIT)),
            Text(one_line(item.commit.subject, 60), style="dim"),
        )
    return lines


def _culprit(
    findings: Findings, found: WorkloadFindings, culprit: Culprit, number: int
) -> Iterator[RenderableType]:
    worse = culprit.is_regression
    head = Text.assemble(
        f"{number}. ",
        (
            f"{'▲' if worse else '▼'} {account.kind(culprit)}  ",
            "bold red" if worse else "bold green",
        ),
        (f"{wording.percent(culprit.ratio)}  ", "bold"),
        one_line(culprit.commit.subject, SUBJECT_LIMIT),
    )
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True, min_width=12)
    facts.add_column(overflow="fold")
    for name, value in _facts(findings, found, culprit):
        facts.add_row(name, Text(value))
    yield Padding(head, (0, 2))
    yield Padding(facts, (0, 5))
    # Never wrapped: a command with a line break in it cannot be pasted.
    yield Text.assemble(
        " " * 5,
        ("reproduce     ", "dim"),
        one_line(culprit.command),
        no_wrap=True,
        overflow="ignore",
    )


def _facts(
    findings: Findings, found: WorkloadFindings, culprit: Culprit
) -> Iterator[tuple[str, str]]:
    commit, unit = culprit.commit, found.workload.unit
    confidence = f"({findings.confidence * 100:g} %)"
    yield "commit", one_line(f"{commit.sha}  {wording.day(commit.date_seconds)}  {commit.author}")
    if culprit.merge is not None:
        yield (
            "merged by",
            one_line(f"{short(culprit.merge.sha)}  {culprit.merge.subject}", SUBJECT_LIMIT),
        )
    yield (
        "effect",
        f"{wording.times(culprit.ratio)} {wording.times_interval(culprit.ratio_interval)}, "
        f"{wording.percent_interval(culprit.ratio_interval)} {confidence}",
    )
    yield (
        "",
        f"{quantity(culprit.delta, unit, sign=True)} "
        f"{wording.interval(*culprit.delta_interval, unit, sign=True)}",
    )
    counted = account.instructions(found, culprit)
    if counted:
        yield "counted", counted
    yield "probability", wording.share(culprit.probability)
    yield from _credible(findings, found, culprit)
    for name, side in (("before", culprit.parent), ("after", culprit.child)):
        runs = side.values[:RUNS_SHOWN]
        more = len(side.values) - len(runs)
        yield (
            name,
            f"{quantity(side.level, unit)} at {short(side.sha)}; "
            f"{wording.count(len(side.values), 'run')}: {wording.quantities(runs, unit)}"
            + (f" and {more} more" if more else ""),
        )
    if culprit.explanation is not None:
        for name, words in reasons(culprit.explanation):
            yield name, one_line(words, SUBJECT_LIMIT)


def _credible(
    findings: Findings, found: WorkloadFindings, culprit: Culprit
) -> Iterator[tuple[str, str]]:
    commits = account.credible_commits(findings, found, culprit)
    if len(commits) == 1:
        yield "credible set", "this commit alone"
        return
    yield "credible set", f"one of these {len(commits)} commits"
    for sha, commit, why in commits:
        subject = commit.subject if commit else ""
        yield "", one_line(f"{short(sha)}  {why or subject}", 120)


def _table(findings: Findings, found: WorkloadFindings) -> Table:
    unit = found.workload.unit
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("commit", overflow="fold")
    table.add_column("time" if unit == "seconds" else one_line(unit), justify="right", no_wrap=True)
    for row in account.table(findings, found):
        table.add_row(Text(one_line(row.label, SUBJECT_LIMIT)), quantity(row.value, unit))
    return table
