"""The report as markdown, fit for an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from bisectorch.model import Culprit, Findings, WorkloadFindings
from bisectorch.report import account, wording
from bisectorch.report.why import facts as reasons
from bisectorch.report.wording import one_line, quantity, short

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")
_FENCE = re.compile(r"`+")
SUBJECT_LIMIT = 300


def text(foreign: str) -> str:
    """Foreign text that markdown shows as it is, inside a line: no markup, nobody mentioned."""
    escaped = _SPECIAL.sub(r"\\\1", one_line(foreign, SUBJECT_LIMIT))
    # A word joiner, which shows nothing: forges notify whoever is named after a bare "@".
    return escaped.replace("@", "@\u2060")


def code(foreign: str) -> str:
    """Foreign text as a code span, with a longer fence than any it holds; safe in a table."""
    plain = one_line(foreign, 2000).replace("|", "\\|")
    if not plain.strip():
        return ""
    longest = max(map(len, _FENCE.findall(plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def block(foreign: str) -> str:
    """Foreign text as a block of code."""
    plain = one_line(foreign)
    fence = "`" * max(3, max(map(len, _FENCE.findall(plain)), default=0) + 1)
    return f"{fence}console\n{plain}\n{fence}"


def render(findings: Findings) -> str:
    """The whole report."""
    return "\n\n".join(_parts(findings)) + "\n"


def _parts(findings: Findings) -> Iterator[str]:
    cost = findings.cost
    yield f"# {text(account.title(findings))}"
    yield (
        f"{account.span(findings)}; {account.ticket(findings)}; "
        f"{wording.count(cost.builds, 'build')}, {wording.count(cost.runs, 'run')}, "
        f"{wording.duration(cost.seconds)}; session {code(findings.session)} on "
        f"{code(findings.machine.get('machine', 'an unnamed machine'))}, "
        f"{code(findings.environment)}."
    )
    measured_with = account.conditions(findings)
    if measured_with:
        yield f"Measured with {text(measured_with)}."
    if not findings.finished:
        yield (
            f"**Unfinished**: the session was cut short; "
            f"{code(f'bisectorch resume {findings.session}')} goes on with it."
        )
    for found in findings.workloads:
        yield from _workload(findings, found)


def _workload(findings: Findings, found: WorkloadFindings) -> Iterator[str]:
    unit = found.workload.unit
    yield f"## {code(found.workload.name)}"
    verdict = account.verdict_line(findings, found)
    yield f"**{text(verdict[:1].upper() + verdict[1:])}**"
    for number, culprit in enumerate(found.culprits, start=1):
        yield from _culprit(findings, found, culprit, number)
    yield table(
        ("commit", "time" if unit == "seconds" else text(unit)),
        ((text(row.label), quantity(row.value, unit)) for row in account.table(findings, found)),
        right=(1,),
    )
    noise = account.noise(found)
    if noise:
        yield f"{noise[:1].upper()}{noise[1:]}."
    broken = account.broken(findings, found)
    if broken:
        yield f"{wording.count(len(broken), 'commit')} not measurable:"
        yield "\n".join(
            f"- {code(short(item.commit.sha))} {text(item.why)}"
            + (f" ({text(item.commit.subject)})" if item.commit.subject else "")
            for item in broken
        )


def _culprit(
    findings: Findings, found: WorkloadFindings, culprit: Culprit, number: int
) -> Iterator[str]:
    commit, unit = culprit.commit, found.workload.unit
    yield (
        f"### {number}. {wording.percent(culprit.ratio)} {account.kind(culprit)}: "
        f"{text(commit.subject)}"
    )
    rows = [
        (
            "commit",
            f"{code(commit.sha)}, {wording.day(commit.date_seconds)}, {text(commit.author)}",
        ),
        (
            "effect",
            f"{wording.times(culprit.ratio)} {wording.times_interval(culprit.ratio_interval)}; "
            f"{wording.percent_interval(culprit.ratio_interval)}; "
            f"{quantity(culprit.delta, unit, sign=True)} "
            f"{wording.interval(*culprit.delta_interval, unit, sign=True)}",
        ),
        *([("counted", counted)] if (counted := account.instructions(found, culprit)) else []),
        ("probability", wording.share(culprit.probability)),
        (
            "credible set",
            ", ".join(
                code(short(sha)) + (f" ({text(why)})" if why else "")
                for sha, _, why in account.credible_commits(findings, found, culprit)
            ),
        ),
        *(
            (
                name,
                f"{quantity(side.level, unit)} at {code(short(side.sha))}; "
                f"{wording.count(len(side.values), 'run')}: "
                f"{wording.quantities(side.values, unit)}",
            )
            for name, side in (("before", culprit.parent), ("after", culprit.child))
        ),
    ]
    if culprit.merge is not None:
        merge = culprit.merge
        rows.insert(1, ("merged by", f"{code(short(merge.sha))} {text(merge.subject)}"))
    if culprit.explanation is not None:
        rows += [(name, text(words)) for name, words in reasons(culprit.explanation)]
    yield table(("", ""), rows)
    yield block(culprit.command)


def table(
    heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: tuple[int, ...] = ()
) -> str:
    """A table of cells that are markdown already; ``right`` names columns of numbers."""
    rule = ("--:" if column in right else "---" for column in range(len(heads)))
    lines = [heads, tuple(rule), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
