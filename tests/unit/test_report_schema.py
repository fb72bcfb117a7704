"""The documented formats are the formats written."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemas
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


GOLDEN = Path(__file__).parents[1] / "golden"


def checker(name: str) -> jsonschema.Draft202012Validator:
    """The schema that the docs publish, which has to be a schema."""
    schema = json.loads((schemas.SCHEMAS / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def holes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every field of every object and list in a value is."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from holes(inner, (*path, key))


@pytest.mark.parametrize("name", schemas.ALL)
def test_the_published_schemas_are_those_of_the_code(name: str) -> None:
    """``python tests/schemas.py`` writes them."""
    assert (schemas.SCHEMAS / name).read_text(encoding="utf-8") == schemas.text(name)


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("report.json", "report/usual.json"),
        ("report.json", "report/hostile.json"),
        ("versus.json", "versus/usual.json"),
    ],
)
def test_reports_fit_their_schema(name: str, example: str) -> None:
    """And no longer do so when a field they must have is gone."""
    text = (GOLDEN / example).read_text(encoding="utf-8")
    check = checker(name)
    check.validate(json.loads(text))
    free = {"machine", "conditions"}  # whatever the machine says of itself
    alike = {
        tuple("*" if isinstance(key, int) else key for key in path): path
        for path in holes(json.loads(text))
    }
    for path in alike.values():
        if isinstance(path[-1], int) or free & set(path[:-1]) or "explanation" in path[:-1]:
            continue
        broken = json.loads(text)
        inner = broken
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        assert not check.is_valid(broken), path


def test_every_line_of_a_log_fits_its_schema(tmp_path: Path) -> None:
    """Whatever events there are, and nothing that is no event."""
    session = make_session()
    path = record.log_path(tmp_path, session.header.session)
    with record.SessionLog.create(path, session.header) as log:
        for event in session.events:
            log.append(event)
    check = checker("session-log.json")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 1
    for line in lines:
        check.validate(line)
    for line in ({}, {"unheard_of": {}}, {"build": {}}, {**lines[1], **lines[-1], "end": 1}):
        assert not check.is_valid(line), line
