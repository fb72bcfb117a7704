"""The report for programs: JSON, documented in docs/report-schema.md and versioned."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

from bisectorch.model import Commit, Culprit, Findings, MachineState, Noise, Side, WorkloadFindings
from bisectorch.report import account
from bisectorch.report.why import values

VERSION = 1
"""Grows when a field changes its meaning or goes; new fields alone do not change it."""


def render(findings: Findings) -> str:
    """The report as text: ASCII only, so that it is harmless on any terminal."""
    return json.dumps(report(findings), indent=2, allow_nan=False) + "\n"


def report(findings: Findings) -> dict[str, Any]:
    """The report as plain values; numbers that are not known are None."""
    line = findings.range
    return {
        "version": VERSION,
        "session": findings.session,
        "created": instant(findings.created_seconds),
        "finished": findings.finished,
        "range": {
            "spec": line.spec,
            "from": _commit(line.baseline),
            "to": _commit(line.tip),
            "commits": len(line.line) - 1,
        },
        "smallest_step": _number(findings.smallest_step),
        "confidence": _number(findings.confidence),
        "machine": dict(findings.machine),
        "environment": findings.environment,
        "cost": {
            "builds": findings.cost.builds,
            "runs": findings.cost.runs,
            "seconds": _number(findings.cost.seconds),
        },
        "conditions": dict(findings.conditions),
        "states": [_state(state) for state in findings.states],
        "workloads": [_workload(findings, found) for found in findings.workloads],
    }


def _workload(findings: Findings, found: WorkloadFindings) -> dict[str, Any]:
    workload = found.workload
    return {
        "benchmark": workload.name,
        "unit": workload.unit,
        "kind": workload.kind,
        "benchmark_version": workload.version,
        "verdict": found.verdict.value,
        "summary": account.verdict_line(findings, found),
        "limit": _number(found.limit),
        "needed": found.needed,
        "noise": _noise(found.noise),
        "culprits": [_culprit(culprit, workload.unit) for culprit in found.culprits],
        "table": [
            {"label": row.label, "commit": row.sha, "value": _number(row.value)}
            for row in account.table(findings, found)
        ],
        "measured": [
            {
                "commit": point.commit.sha,
                "position": point.position,
                "level": _number(point.level),
                "level_interval": [_number(bound) for bound in point.level_interval],
                "runs": [_number(value) for value in point.values],
            }
            for point in account.measured(findings, found)
        ],
        "broken": [
            {"commit": item.commit.sha, "outcome": item.outcome.value, "reason": item.reason}
            for item in account.broken(findings, found)
        ],
    }


def _culprit(culprit: Culprit, unit: str) -> dict[str, Any]:
    return {
        "kind": account.kind(culprit),
        "commit": culprit.commit.sha,
        "subject": culprit.commit.subject,
        "author": culprit.commit.author,
        "date": instant(culprit.commit.date_seconds),
        "merge": culprit.merge.sha if culprit.merge else None,
        "ratio": _number(culprit.ratio),
        "ratio_interval": [_number(bound) for bound in culprit.ratio_interval],
        "delta": _number(culprit.delta),
        "delta_interval": [_number(bound) for bound in culprit.delta_interval],
        "unit": unit,
        "probability": _number(culprit.probability),
        "credible_set": list(culprit.credible_set),
        "parent": _side(culprit.parent),
        "child": _side(culprit.child),
        "command": culprit.command,
        "instructions": _instructions(culprit.instructions),
        "explanation": values(culprit.explanation) if culprit.explanation else None,
    }


def _instructions(counts: tuple[float, float] | None) -> dict[str, float | None] | None:
    if counts is None:
        return None
    parent, child = counts
    ratio = child / parent if parent else math.nan
    return {"parent": _number(parent), "child": _number(child), "ratio": _number(ratio)}


def _noise(noise: Noise | None) -> dict[str, float | None] | None:
    if noise is None:
        return None
    build = math.nan if noise.build is None else noise.build
    return {
        "within": _number(noise.within),
        "between": _number(noise.between),
        "build": _number(build),
    }


def _state(state: MachineState) -> dict[str, Any]:
    return {
        "block": state.block,
        "at": instant(state.seconds),
        **{
            name: None if value is None else _number(value)
            for name, value in (
                ("load", state.load),
                ("mhz", state.mhz),
                ("celsius", state.celsius),
            )
        },
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "commit": side.sha,
        "level": _number(side.level),
        "runs": [_number(value) for value in side.values],
    }


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "commit": commit.sha,
        "subject": commit.subject,
        "author": commit.author,
        "date": instant(commit.date_seconds),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def instant(seconds: float) -> str | None:
    """An instant as RFC 3339 writes it, in UTC; None outside the calendar."""
    try:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
