"""The tables that the site offers for download."""

from __future__ import annotations

from collections.abc import Iterable

from bisectorch.report import account
from bisectorch.report.histories import History
from bisectorch.report.jsonreport import instant
from bisectorch.report.site import Entry
from bisectorch.report.tables import Table
from bisectorch.report.told import Told, probes


def culprits(name: str, title: str, listed: Iterable[Entry]) -> Table:
    """Every culprit with its effect."""
    return Table(
        name,
        title,
        (
            "kind",
            "commit",
            "date",
            "subject",
            "author",
            "workload",
            "unit",
            "ratio",
            "ratio_low",
            "ratio_high",
            "delta",
            "before",
            "after",
            "probability",
            "credible_set_size",
            "session",
            "page",
        ),
        tuple(
            (
                account.kind(entry.culprit),
                entry.culprit.commit.sha,
                instant(entry.culprit.commit.date_seconds),
                entry.culprit.commit.subject,
                entry.culprit.commit.author,
                entry.found.workload.name,
                entry.found.workload.unit,
                entry.culprit.ratio,
                *entry.culprit.ratio_interval,
                entry.culprit.delta,
                entry.culprit.parent.level,
                entry.culprit.child.level,
                entry.culprit.probability,
                len(entry.culprit.credible_set),
                entry.findings.session,
                entry.path,
            )
            for entry in listed
        ),
    )


def session_probes(name: str, told: Told) -> Table:
    """What a session did, in order: a row a commit of a probe."""
    return Table(
        name,
        f"Probes of session {told.findings.session}",
        (
            "probe",
            "what",
            "workload",
            "commit",
            "outcome",
            "median",
            "runs",
            "reason",
            "probe_seconds",
            "until_seconds",
        ),
        tuple(
            (
                probe.number,
                probe.what,
                probe.workload,
                result.sha,
                result.outcome,
                result.value,
                result.runs,
                result.reason,
                probe.seconds,
                probe.until,
            )
            for probe in probes(told.session)
            for result in probe.results
        ),
    )


def history(name: str, told: History) -> Table:
    """Every measured value of a workload, as asv's results have it."""
    return Table(
        name,
        f"History of {told.workload.name}",
        (
            "commit",
            "date",
            "machine",
            "environment",
            "unit",
            "value",
            "low_99",
            "high_99",
            "samples",
            "measured",
        ),
        tuple(
            (
                point.sha,
                instant(point.date_seconds),
                line.machine,
                line.environment,
                told.workload.unit,
                point.value,
                point.low,
                point.high,
                point.count,
                instant(point.measured_seconds) if point.measured_seconds else None,
            )
            for line in told.lines
            for point in line.points
        ),
    )
