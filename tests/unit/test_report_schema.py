"""The documented formats are the formats written."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from bisectorch import model
from bisectorch.report import jsonreport, record
from factories import make_findings, make_session

TEXT = (Path(__file__).parents[2] / "docs" / "report-schema.md").read_text(encoding="utf-8")
REPORT, LOG = TEXT.split("## The session log")
NAMES = re.compile(r"`([a-z_]+)`")


def documented(title: str) -> set[str]:
    """The keys of a table: what stands in its first column under this heading."""
    section = REPORT.split(title, 1)[1].split("\n##", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in NAMES.findall(row)}


def test_every_key_of_the_report_is_documented() -> None:
    """And no other key is promised."""
    report: dict[str, Any] = json.loads(jsonreport.render(make_findings()))
    workload = report["workloads"][0]
    assert documented("## The report") == set(report)
    assert documented("### A workload") == set(workload)
    assert documented("### A culprit") == set(workload["culprits"][0])
    inner = [
        *report["range"],
        *report["range"]["from"],
        *report["cost"],
        *workload["table"][0],
        *workload["measured"][0],
        *workload["broken"][0],
        *workload["culprits"][0]["parent"],
    ]
    assert set(inner) <= set(NAMES.findall(REPORT))


def test_every_field_of_the_log_is_documented() -> None:
    """Header, events, commits, workloads and runs."""
    types = (
        model.SessionHeader,
        model.CommitRange,
        model.Commit,
        model.Workload,
        model.BuildEvent,
        model.Observation,
        model.Run,
        model.SideBranch,
        model.Trace,
        model.Explanation,
        model.Cause,
        model.Difference,
        model.TouchedFile,
        model.Conditions,
        model.MachineState,
        model.Count,
        model.Rebuilds,
        model.End,
    )
    fields = {field.name for kind in types for field in dataclasses.fields(kind)}
    assert fields <= set(NAMES.findall(LOG))


def test_every_value_of_the_log_is_documented() -> None:
    """Routes, outcomes and purposes by their written names."""
    kinds = (model.Route, model.Outcome, model.Purpose, model.SpentIn, model.CodeChange)
    for kind in kinds:
        for member in kind:
            assert f"`{member.value}`" in TEXT, member


def test_the_documented_versions_are_the_written_ones() -> None:
    """Both parts name the version that the code writes."""
    assert f"Version {jsonreport.VERSION}." in REPORT
    assert f"Version {record.VERSION}." in LOG
    assert f'"bisectorch_log": {record.VERSION}' in LOG
    assert make_session().header.session
