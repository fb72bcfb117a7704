"""Tables, feeds, the comment and JUnit: for programs, readers and forges, whatever the text."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from bisectorch.model import Observation, Verdict
from bisectorch.report import comment, exports, feeds, junit, tables
from bisectorch.report.site import Site, entries
from bisectorch.report.tables import Table
from factories import HOSTILE, make_findings, make_hostile_findings
from sites import make_told

ATOM = "{http://www.w3.org/2005/Atom}"
BOTH = entries([make_hostile_findings(), make_findings()])


def test_tables_say_the_same_in_every_form() -> None:
    """Every row in CSV and JSON; unknown numbers are empty or null."""
    table = Table("t", "A <title>", ("a", "b"), ((1.5, "x"), (math.nan, None), (2, True)))
    rows = list(csv.reader(io.StringIO(tables.to_csv(table).decode())))
    assert rows == [["a", "b"], ["1.5", "x"], ["", ""], ["2", "True"]]
    loaded = json.loads(tables.to_json(table))
    assert loaded == {
        "version": 1,
        "title": "A <title>",
        "rows": [{"a": 1.5, "b": "x"}, {"a": None, "b": None}, {"a": 2, "b": True}],
    }
    text = tables.to_markdown(table).decode()
    assert text.startswith("# A \\<title\\>\n\n| a | b |\n")
    assert text.endswith("| 1.5 | x |\n| – | – |\n| 2 | yes |\n")


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "\rx"])
def test_no_spreadsheet_takes_text_for_a_formula(text: str) -> None:
    """A subject that begins like one is shown, not computed."""
    ((_,), (cell,)) = csv.reader(
        io.StringIO(tables.to_csv(Table("t", "t", ("a",), ((text,),))).decode(), newline="")
    )
    assert cell == f"'{text}"


def test_culprits_and_probes_are_whole() -> None:
    """A row a culprit with its interval; a row a commit of every probe, costs adding up."""
    table = exports.culprits("culprits", "t", BOTH)
    assert len(table.rows) == 6
    by_name = dict(zip(table.columns, table.rows[-1], strict=True))
    assert by_name["kind"] == "regression"
    assert by_name["ratio_low"] < by_name["ratio"] < by_name["ratio_high"]
    told = make_told(make_findings())
    probes = exports.session_probes("p", told)
    runs = sum(dict(zip(probes.columns, row, strict=True))["runs"] for row in probes.rows)
    seen = [event for event in told.session.events if isinstance(event, Observation)]
    assert runs == sum(len(event.runs) for event in seen)
    whats = [row[1] for row in probes.rows]
    assert whats[0] == "build"
    assert "descend" in whats
    untils = [row[-1] for row in probes.rows]
    assert untils == sorted(untils)


def test_the_atom_feed_is_one() -> None:
    """Identifiers are distinct and stay; links are absolute where the address is known."""
    site = Site("pytorch", address="https://perf.example.org/pt/")
    feed = ElementTree.fromstring(feeds.atom(BOTH, site))
    assert feed.tag == f"{ATOM}feed"
    items = feed.findall(f"{ATOM}entry")
    ids = [item.findtext(f"{ATOM}id") for item in items]
    assert len(ids) == len(set(ids)) == 6
    for item in items:
        link = item.find(f"{ATOM}link").get("href")
        assert link.startswith("https://perf.example.org/pt/culprits/2025-")
        assert item.findtext(f"{ATOM}updated").endswith("Z")
        assert item.find(f"{ATOM}author/{ATOM}name").text
    again = entries([replace(make_findings("later"), created_seconds=1.9e9)])
    later = ElementTree.fromstring(feeds.atom([*again, *BOTH], site))
    assert {item.findtext(f"{ATOM}id") for item in later.findall(f"{ATOM}entry")} == set(ids)


def test_the_json_feed_is_one() -> None:
    """Version 1.1, the newest first, each culprit once, and valid without any."""
    feed = json.loads(feeds.json_feed(BOTH, Site("p")))
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    dates = [item["date_published"] for item in feed["items"]]
    assert dates == sorted(dates, reverse=True)
    assert {item["tags"][0] for item in feed["items"]} == {"regression", "improvement"}
    assert json.loads(feeds.json_feed([], Site("p")))["items"] == []
    assert ElementTree.fromstring(feeds.atom([], Site("p"))).findall(f"{ATOM}entry") == []


def test_the_comment_is_short_and_safe() -> None:
    """Verdicts first; nobody is notified, nothing is rendered, a forge's limit is kept."""
    text = comment.render(make_findings())
    assert text.startswith("### Performance: ▲ 2 regressions, ▼ 1 improvement\n")
    assert "no change of at least 2.1 %" in text
    hostile = comment.render(make_hostile_findings())
    assert "@everyone" not in hostile
    assert "<script>" not in hostile.replace("\\<script\\>", "")
    assert len(hostile) < 20_000
    usual = make_findings()
    quiet = replace(usual, workloads=usual.workloads[1:2], finished=False)
    assert comment.render(quiet).startswith("### Performance: no culprit\n")
    assert "Unfinished" in comment.render(quiet)


def test_junit_fails_on_regressions_alone() -> None:
    """An improvement passes, what is inconclusive is skipped with its reason."""
    suite = ElementTree.fromstring(junit.render(make_findings()).encode()).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    first, second, third = suite.findall("testcase")
    assert "+62.0 %" in first.find("failure").text
    assert "-42.0 %" not in first.find("failure").text
    assert list(second) == []
    assert "40 more runs" in third.find("skipped").get("message")
    usual = make_findings()
    better = replace(
        usual.workloads[0],
        culprits=tuple(c for c in usual.workloads[0].culprits if not c.is_regression),
        verdict=Verdict.CULPRITS,
    )
    text = junit.render(replace(usual, workloads=(better,)))
    suite = ElementTree.fromstring(text.encode()).find("testsuite")
    assert suite.get("failures") == "0"
    assert "-42.0 %" in suite.findtext("testcase/system-out")


def test_hostile_text_keeps_xml_whole() -> None:
    """Control characters, markup and surrogates are spelt out."""
    text = junit.render(make_hostile_findings())
    suite = ElementTree.fromstring(text.encode()).find("testsuite")
    assert suite.get("name") == "bisectorch <u>old</u>..new"
    assert "\x1b" not in text
    feed = feeds.atom(BOTH, Site(HOSTILE[:200] + "\ud800"))
    assert "window.pwned" in ElementTree.fromstring(feed).findtext(f"{ATOM}title")
