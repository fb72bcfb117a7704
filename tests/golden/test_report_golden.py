"""Reports and pages against files that people have read.

After a change that is meant, rewrite them with ``UPDATE_GOLDEN=1 pytest tests/golden`` and read
the difference before committing it.
"""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.model import Findings
from bisectorch.report.output import write_log, write_report
from bisectorch.report.pages import Problem, entries
from bisectorch.report.site import comparison_path, workload_path
from factories import CREATED, make_findings, make_hostile_findings, make_range, make_session
from sites import explained, write_site

GOLDEN = Path(__file__).with_name("report")


def check(name: str, actual: str) -> None:
    """The text is the golden file's, byte for byte; or the file is rewritten when asked."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(actual, encoding="utf-8")
    assert actual == path.read_text(encoding="utf-8"), (
        f"{name} has changed; if that is meant: UPDATE_GOLDEN=1 pytest tests/golden"
    )


def rounded(text: str) -> str:
    """JSON without the last digits, in which mathematical libraries may differ."""
    return json.dumps(json.loads(text, parse_float=lambda n: float(f"{float(n):.9g}")), indent=1)


def report(findings: Findings, form: str) -> str:
    """The report as it goes into a pipe."""
    stream = io.StringIO()
    write_report(findings, form, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "findings"), [("usual", make_findings()), ("hostile", make_hostile_findings())]
)
@pytest.mark.parametrize(
    ("form", "ending"), [("text", "txt"), ("markdown", "md"), ("json", "json")]
)
def test_reports(name: str, findings: Findings, form: str, ending: str) -> None:
    """Each format of the usual session and of one whose every text is hostile."""
    text = report(findings, form)
    check(f"{name}.{ending}", rounded(text) if form == "json" else text)


def test_the_log_listing() -> None:
    """A line for each of the first events of every kind."""
    session = make_session()
    stream = io.StringIO()
    events = (*session.events[:12], *session.events[-12:])
    write_log(replace(session, events=events), Path("sessions/usual.jsonl"), stream)
    check("log.txt", stream.getvalue())


EXPLAINED, UNSURE, _ = entries([make_findings()])
KINDS = (
    "index.html",
    "sessions.html",
    f"{make_findings().session}/index.html",
    f"{make_findings().session}/comment.md",
    f"{make_findings().session}/junit.xml",
    EXPLAINED.path,
    UNSURE.path,
    "workloads/index.html",
    workload_path("linear.Linear.time_backward(1, 10)"),
    workload_path("labeler.Stages.time_forward('total')"),
    "compare/index.html",
    comparison_path(make_range().line[11].sha, make_range().line[12].sha),
    "feed.xml",
    "feed.json",
    "culprits.csv",
    "culprits.md",
    "style.css",
)
"""A page of each kind, and each kind of export."""

_FIGURE = re.compile(r'(<svg role="group" aria-label="[^"]*")[^>]*>.*?</svg>', re.DOTALL)
"""Drawn by matplotlib, whose versions draw a little differently."""


def test_pages(tmp_path: Path) -> None:
    """A page of each kind, with a log left out; figures stand for themselves in their words."""
    usual = explained(make_findings())
    earlier = replace(
        make_findings("20251101-120000-ab12", CREATED - 2e6),
        workloads=usual.workloads[1:],
        finished=False,
    )
    problem = Problem("torn.jsonl", "torn.jsonl, line 3 is corrupt (trailing comma)")
    written = write_site(tmp_path, [earlier, usual], problems=[problem])
    assert {tmp_path / name for name in KINDS} <= set(written)
    for name in KINDS:
        text = (tmp_path / name).read_bytes().decode("utf-8")
        check(f"pages/{name}", _FIGURE.sub(r"\1/>", text).replace("\r\n", "\n"))
