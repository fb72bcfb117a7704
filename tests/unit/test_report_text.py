"""Reports for people: units, foreign text, and the account's table."""

from __future__ import annotations

import io
import json
import math
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.model import Verdict
from bisectorch.report import account, jsonreport, markdown, wording
from bisectorch.report.output import write_log, write_report
from factories import HOSTILE, make_findings, make_hostile_findings, make_session
from hypothesis import given
from hypothesis import strategies as st


def report(form: str, **changes: object) -> str:
    """The usual report with changes to its findings."""
    stream = io.StringIO()
    write_report(replace(make_findings(), **changes), form, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1.24e-5, "seconds", "12.4 µs"),
        (8.3e-9, "seconds", "8.30 ns"),
        (5.74, "seconds", "5.74 s"),
        (0.0941, "seconds", "94.1 ms"),
        (-7.4e-6, "seconds", "-7.40 µs"),
        (0.0, "seconds", "0.00 s"),
        (9.9996e-6, "seconds", "10.0 µs"),
        (-0.099996, "fraction", "-0.100 fraction"),
        (3e-12, "seconds", "0.00300 ns"),
        (3.1e8, "bytes", "296 MiB"),
        (12345.0, "instructions", "12.3 k instructions"),
        (3e9, "instructions", "3.00 G instructions"),
        (math.nan, "seconds", "– s"),
    ],
)
def test_quantities_have_human_units(value: float, unit: str, expected: str) -> None:
    """Nanoseconds to seconds, bytes to gibibytes, others as they are."""
    assert wording.quantity(value, unit) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.2, "0.2 s"),
        (31.0, "31 s"),
        (59.96, "1 min"),
        (412.4, "6 min 52 s"),
        (7260, "2 h 1 min"),
        (math.inf, "–"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    """The two largest units."""
    assert wording.duration(seconds) == expected


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0.972, "97.2 %"), (1.0, "> 99.9 %"), (0.0, "0.0 %"), (1e-6, "< 0.1 %")],
)
def test_a_probability_is_never_certainty(probability: float, expected: str) -> None:
    """No rounding up to 100 %."""
    assert wording.share(probability) == expected


@given(st.text(max_size=60))
def test_foreign_text_cannot_act(text: str) -> None:
    """Whatever the text: one printable line, and nothing that turns the direction of writing."""
    shown = wording.one_line(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
    )


def test_ordinary_foreign_text_stays_as_it_is() -> None:
    """Other scripts and joined emoji are not escaped."""
    for text in ("Zażółć gęślą jaźń", "Ünïcode (#12)", "שלום", "👨\u200d👩\u200d👧 family"):
        assert wording.one_line(text) == text


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_hostile_text_never_reaches_the_terminal(form: str) -> None:
    """No escape sequence, no control character, in any format and in the log's listing."""
    stream = io.StringIO()
    write_report(make_hostile_findings(), form, stream)
    write_log(make_session(make_hostile_findings()), Path("a\x1b[31m.jsonl"), stream)
    shown = stream.getvalue()
    assert {unicodedata.category(c) for c in shown if c != "\n"} & {"Cc"} == set()
    assert "\u202e" not in shown


def test_json_keeps_hostile_text_whole() -> None:
    """Escaped for the wire, not altered."""
    report = jsonreport.report(make_hostile_findings())
    subjects = [culprit["subject"] for culprit in report["workloads"][0]["culprits"]]
    assert HOSTILE in subjects
    assert jsonreport.render(make_hostile_findings()).isascii()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a | b", r"a \| b"),
        ("*bold* _it_ `code`", r"\*bold\* \_it\_ \`code\`"),
        ("<b>&amp;", r"\<b\>\&amp;"),
        ("[x](y)", r"\[x\](y)"),
        ("@team", "@\u2060team"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, expected: str) -> None:
    """Every character that would be markup is escaped, and nobody is notified."""
    assert markdown.text(text) == expected


@given(st.text(max_size=40))
def test_markdown_code_spans_hold_any_text(text: str) -> None:
    """The fence is longer than any run of backticks inside, so nothing gets out."""
    span = markdown.code(text)
    fence = re.match("`*", span).group()
    assert span == "" or f"{fence}`" not in span[len(fence) :]
    assert span.count(fence) == 2 if fence else span == ""


def test_the_accounts_table() -> None:
    """TO, FROM, then each culprit and its parent, oldest first, as the account writes them."""
    findings = make_findings()
    rows = account.table(findings, findings.workloads[0])
    line = findings.range.line
    assert [row.sha for row in rows[:4]] == [line[60].sha, line[0].sha, line[12].sha, line[11].sha]
    assert rows[0].label == f"master ({line[60].sha[:10]}, 2017-06-30)"
    assert rows[1].label == f"v0.1.12 ({line[0].sha[:10]}, 2017-05-01)"
    assert rows[2].label == (
        f"added twice differentiation for a bunch of ops (#1426) ({line[12].sha[:10]}, 2017-05-13)"
    )
    assert [row.label for row in rows[3::2]] == [
        "... its parent",
        f"... the nearest measured before it ({line[30].sha[:10]})",
        f"... the nearest measured before it ({line[44].sha[:10]})",
    ]
    assert rows[2].value / rows[3].value == pytest.approx(1.62)


def test_ends_named_by_their_object_names() -> None:
    """Forty digits are abbreviated, and the table says which end is which."""
    usual = make_findings()
    line = usual.range.line
    spec = f"{line[0].sha}..{line[-1].sha[:12]}"
    findings = replace(usual, range=replace(usual.range, spec=spec))
    rows = account.table(findings, findings.workloads[0])
    assert rows[0].label.startswith(f"TO ({line[-1].sha[:10]}")
    assert rows[1].label.startswith(f"FROM ({line[0].sha[:10]}")
    assert account.title(findings) == f"{line[0].sha[:10]}..{line[-1].sha[:12]}"
    assert jsonreport.report(findings)["range"]["spec"] == spec


def test_every_fact_of_a_culprit_is_in_the_text() -> None:
    """What the issue asks of the report, one by one."""
    text = report("text")
    culprit = make_findings().workloads[0].culprits[1]
    for fact in (
        culprit.commit.sha,
        "2017-05-13",
        "Ada Contributor",
        "added twice differentiation for a bunch of ops (#1426)",
        "×1.620 [1.596, 1.646]",
        "+5.15 µs [+4.94, +5.36] µs",
        "> 99.9 %",
        "this commit alone",
        "one of these 3 commits",
        "before        8.30 µs",
        culprit.command,
        "no change of at least 2.1 % (95 %)",
        "inconclusive: about 40 more runs (5 min) would tell",
        "unimportable: ImportError",
    ):
        assert fact in text, fact


def test_a_command_is_never_wrapped() -> None:
    """It can be pasted from the report, however narrow that is."""
    found = make_findings().workloads[0]
    long = replace(found.culprits[0], command="bisectorch bisect " + "x" * 300)
    text = report("text", workloads=(replace(found, culprits=(long,)),))
    assert long.command in text


def test_a_pipe_gets_plain_lines_of_a_fixed_width() -> None:
    """100 columns but for commands, without colour and without trailing blanks."""
    text = report("text")
    assert "\x1b" not in text
    for line in text.splitlines():
        assert line == line.rstrip()
        assert len(line) <= 100 or "reproduce" in line


def test_a_terminal_gets_colour_and_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colour underlines what words and signs already say."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    write_report(make_findings(), "text", stream)
    shown = stream.getvalue()
    assert "\x1b[1;31m▲ regression" in shown
    bare = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert all(len(line) <= 70 or "reproduce" in line for line in bare.splitlines())


def test_an_encoding_without_our_signs_is_no_fault() -> None:
    """A C locale gets ASCII."""
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="ascii")
    for form in ("text", "markdown"):
        write_report(make_hostile_findings(), form, stream)
    stream.flush()
    assert b"us" in data.getvalue()
    assert b"x1.620" in data.getvalue()


def test_an_unfinished_session_says_how_to_go_on() -> None:
    """In both formats for people."""
    for form in ("text", "markdown"):
        assert "bisectorch resume 2025-11-29-0642-1f3a" in report(form, finished=False)
        assert "bisectorch resume" not in report(form)


def test_a_workload_without_a_measurement_is_reported() -> None:
    """No posterior, no runs, no limit: every format still writes."""
    found = make_findings().workloads[2]
    empty = replace(
        found,
        verdict=Verdict.INCONCLUSIVE,
        observations=(),
        posterior=None,
        limit=math.inf,
        needed="FROM cannot be measured",
    )
    for form in ("text", "markdown", "json"):
        assert "FROM cannot be measured" in report(form, workloads=(empty,))
    assert json.loads(report("json", workloads=(empty,)))["workloads"][0]["limit"] is None


def test_the_json_report_has_the_documented_keys() -> None:
    """The keys that programs are promised."""
    data = json.loads(report("json"))
    assert data["version"] == jsonreport.VERSION == 1
    assert {"range", "workloads", "cost", "session", "machine", "environment"} <= set(data)
    assert set(data["cost"]) == {"builds", "runs", "seconds"}
    workload = data["workloads"][0]
    assert workload["benchmark"] == "linear.Linear.time_backward(1, 10)"
    assert workload["verdict"] == "culprits"
    culprit = workload["culprits"][0]
    assert {
        "commit",
        "ratio",
        "ratio_interval",
        "probability",
        "credible_set",
        "merge",
        "subject",
        "author",
        "date",
        "delta",
        "parent",
        "child",
        "command",
    } <= set(culprit)
    assert culprit["merge"] == make_findings().range.line[45].sha
    assert [w["verdict"] for w in data["workloads"]] == ["culprits", "no change", "inconclusive"]
