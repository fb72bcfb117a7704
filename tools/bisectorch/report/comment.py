"""A summary fit for a comment on a pull request: the verdicts, one table, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from bisectorch.model import Findings
from bisectorch.report import account, wording
from bisectorch.report.markdown import block, code, table, text
from bisectorch.report.wording import quantity, short

SHOWN = 20
"""Culprits in the table; the rest are counted."""


def render(findings: Findings) -> str:
    """The comment; it stays below a forge's limit of 65,536 characters."""
    return "\n\n".join(_parts(findings)) + "\n"


def _parts(findings: Findings) -> Iterator[str]:
    found = [(f, culprit) for f in findings.workloads for culprit in f.culprits]
    worse = sum(culprit.is_regression for _, culprit in found)
    better = len(found) - worse
    if found:
        counts = [
            *([f"▲ {wording.count(worse, 'regression')}"] if worse else []),
            *([f"▼ {wording.count(better, 'improvement')}"] if better else []),
        ]
        yield f"### Performance: {', '.join(counts)}"
    else:
        yield "### Performance: no culprit"
    yield (
        f"{text(account.title(findings))}, {account.span(findings)}; {account.ticket(findings)}; "
        f"on {code(findings.machine.get('machine', 'an unnamed machine'))}."
        + ("" if findings.finished else " **Unfinished**: the session was cut short.")
    )
    if found:
        found.sort(key=lambda pair: abs(pair[1].ratio - 1), reverse=True)
        yield table(
            ("", "change", "workload", "commit", "before → after"),
            (
                (
                    "▲" if culprit.is_regression else "▼",
                    f"**{wording.percent(culprit.ratio)}** "
                    f"{wording.percent_interval(culprit.ratio_interval)}",
                    code(f.workload.name),
                    f"{code(short(culprit.commit.sha))} {text(culprit.commit.subject[:80])}",
                    f"{quantity(culprit.parent.level, f.workload.unit)} → "
                    f"{quantity(culprit.child.level, f.workload.unit)}",
                )
                for f, culprit in found[:SHOWN]
            ),
        )
        if len(found) > SHOWN:
            yield f"… and {len(found) - SHOWN} more."
    quiet = [f for f in findings.workloads if not f.culprits]
    if quiet:
        lines = (
            f"- {code(f.workload.name)}: {text(account.verdict_line(findings, f))}"
            for f in quiet[:SHOWN]
        )
        yield "\n".join(lines)
    if found:
        largest = found[0][1]
        yield (
            "<details><summary>Reproduce the largest</summary>\n\n"
            f"{block(largest.command)}\n\n</details>"
        )
