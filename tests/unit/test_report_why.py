"""Explanations in words, as tables, as markdown and as JSON; foreign text stays text."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from bisectorch.model import Cause, CodeChange, Difference, Explanation, Findings, SpentIn
from bisectorch.report import account, jsonreport, markdown, text, why
from bisectorch.report.whyreport import as_markdown, write_explanations
from factories import HOSTILE, make_explanation, make_findings


@pytest.fixture
def explanation() -> Explanation:
    """Of the usual session's first culprit: 73 and 15 % of +5.1 µs."""
    found = make_findings().workloads[0]
    return make_explanation(found.culprits[0], found.workload)


def explained_findings() -> Findings:
    """The usual session with its first culprit explained."""
    findings = make_findings()
    found = findings.workloads[0]
    first = replace(
        found.culprits[0], explanation=make_explanation(found.culprits[0], found.workload)
    )
    found = replace(found, culprits=(first, *found.culprits[1:]))
    return replace(findings, workloads=(found, *findings.workloads[1:]))


def written(found: list[Explanation], form: str) -> str:
    """What goes into a pipe."""
    stream = io.StringIO()
    write_explanations(found, form, stream)
    return stream.getvalue()


def test_the_text_names_causes_shares_and_the_rest(explanation: Explanation) -> None:
    """Largest first, each with its place, its parts, and what is left over."""
    shown = written([explanation], "text")
    assert "of which 88 % is explained" in shown
    order = [shown.index(word) for word in ("Linear.backward", "Linear.forward", "unexplained")]
    assert order == sorted(order)
    assert "torch/nn/_functions/linear.py:16" in shown
    assert "Python function now, in place of AddmmBackward0" in shown
    assert "0 → 1" in shown
    assert "changed and executed: Linear.backward, Linear.forward" in shown
    assert "docs/source/nn.rst" in shown
    assert "not executed" in shown
    assert "its cost is subtracted" in shown


def test_the_json_can_be_added_up(explanation: Explanation) -> None:
    """Versioned, with the sums that follow from it."""
    report = json.loads(written([explanation], "json"))
    assert report["version"] == 1
    (found,) = report["explanations"]
    total = sum(cause["seconds"] for cause in found["causes"])
    assert total == pytest.approx(found["explained_seconds"])
    assert total + found["unexplained_seconds"] == pytest.approx(found["step_seconds"])
    assert found["explained"] == pytest.approx(0.88)
    assert found["causes"][0]["kind"] == "python"
    assert found["causes"][0]["change"] == "new"
    assert found["causes"][0]["parts"][0]["instructions"] is None


def test_the_markdown_is_a_table(explanation: Explanation) -> None:
    """A row a cause and one for the rest."""
    shown = written([explanation], "markdown")
    assert shown.startswith("## `linear.Linear.time_backward(1, 10)`")
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(rows) == 4
    assert rows[1].startswith("| `Linear.backward` `torch/nn/_functions/linear.py:16` |")
    assert rows[-1].startswith("| unexplained |")


def test_no_explanation_tells_its_reason(explanation: Explanation) -> None:
    """In every form, without a table of nothing."""
    blind = Explanation(
        explanation.workload, "a" * 40, "b" * 40, reason="aaaaaaaaaa in setup: KeyError"
    )
    for form in ("text", "markdown", "json"):
        shown = written([blind], form)
        assert "in setup: KeyError" in shown
        assert "nan" not in shown.lower()
    assert list(why.facts(blind)) == [("why", "not explained: aaaaaaaaaa in setup: KeyError")]
    assert why.first_cause(blind) == ""


def test_what_ran_is_listed_where_nothing_was_divided(explanation: Explanation) -> None:
    """A memory benchmark's functions."""
    listed = replace(explanation, causes=(), reason="bytes are measured, not time")
    shown = written([listed], "text")
    assert "bytes are measured" in shown
    assert "Product.apply" in shown


def test_foreign_text_stays_text(explanation: Explanation) -> None:
    """Names, reasons and notes that attack what shows them."""
    row = Difference(HOSTILE, SpentIn.PYTHON, HOSTILE, 1, CodeChange.NEW, (0, 1), (0, 1e-6))
    cause = Cause(
        HOSTILE, SpentIn.PYTHON, HOSTILE, 1, CodeChange.NEW, 1e-6, 0.2, (0, 1), HOSTILE, (row,)
    )
    hostile = replace(explanation, causes=(cause,), notes=(HOSTILE,), reason=HOSTILE)
    shown = written([hostile], "text")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    marked = as_markdown(hostile)
    assert "\n<img" not in marked
    assert "\u202e" not in marked
    for line in marked.splitlines():
        if line.startswith("| "):
            assert line.endswith(" |")
    json.loads(written([hostile], "json"))


def test_every_report_of_a_session_tells_why() -> None:
    """Text, markdown and JSON have it from the culprit."""
    findings = explained_findings()
    stream = io.StringIO()
    text.write(findings, stream)
    line = next(each for each in stream.getvalue().splitlines() if " why " in each)
    assert "73 %  Linear.backward (torch/nn/_functions/linear.py:16): Python function" in line
    assert "12 %  unexplained" in stream.getvalue()
    assert "| why | 73 %  Linear.backward" in markdown.render(findings)
    culprits = jsonreport.report(findings)["workloads"][0]["culprits"]
    assert culprits[0]["explanation"]["causes"][0]["name"] == "Linear.backward"
    assert culprits[1]["explanation"] is None


def test_one_line_for_the_first_cause(explanation: Explanation) -> None:
    """As the loop tells it."""
    line = account.cause_line(explanation.causes[0], explanation.step_seconds)
    assert line.startswith(
        "Linear.backward (torch/nn/_functions/linear.py:16): Python function now"
    )
    assert line.endswith("calls 0 -> 1")


def test_shares_beyond_the_step_explain_no_more(explanation: Explanation) -> None:
    """130 % is as good as 70 %, and nothing is below zero."""
    first = explanation.causes[0]

    def share(of_step: float) -> float:
        seconds = of_step * explanation.step_seconds
        return replace(explanation, causes=(replace(first, seconds=seconds),)).explained

    assert share(0.7) == pytest.approx(0.7)
    assert share(1.3) == pytest.approx(0.7)
    assert share(2.5) == 0
    assert share(-0.2) == 0
    assert replace(explanation, level_seconds=(1.0, 1.0)).explained == 0
