"""What reports say of the machine, of noise and of instructions; and say nothing without them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.model import (
    BuildEvent,
    Culprit,
    Findings,
    MachineState,
    Noise,
    Observation,
    Outcome,
    Purpose,
    Route,
    Run,
)
from bisectorch.report import account
from bisectorch.report.output import write_log, write_report
from bisectorch.report.told import probes
from factories import make_findings, make_session
from sites import SITE, write_site

FACTS = {"compiler": "GCC 13.3", "threads": "1", "evil": "\x1b[31mred\n"}
STATES = (
    MachineState("0.0", 1.0, 0.31, 2400.0, None),
    MachineState("0.1", 2.0, 1.26, 2600.4, None),
)


def told(findings: Findings, form: str = "text") -> str:
    """The report."""
    stream = io.StringIO()
    write_report(findings, form, stream)
    return stream.getvalue()


def with_culprit(**changes: object) -> Findings:
    """The usual findings, their first culprit changed."""
    findings = make_findings()
    found = findings.workloads[0]
    first: Culprit = replace(found.culprits[0], **changes)  # type: ignore[arg-type]
    found = replace(found, culprits=(first, *found.culprits[1:]))
    return replace(findings, workloads=(found, *findings.workloads[1:]))


def test_conditions_and_states_are_one_line() -> None:
    """Foreign text made harmless, ranges over the blocks, what is not known left out."""
    findings = replace(make_findings(), conditions=FACTS, states=STATES)
    line = account.conditions(findings)
    assert line.startswith("compiler GCC 13.3; threads 1; evil ")
    assert line.endswith("load 0.3–1.3, 2400–2600 MHz")
    assert "\x1b" not in line
    assert "\n" not in line
    assert "measured with" in told(findings)


def test_older_sessions_say_nothing_of_it() -> None:
    """No empty line, no dash."""
    assert account.conditions(make_findings()) == ""
    text = told(make_findings())
    assert "measured with" not in text
    assert "spreads by" not in text
    assert "counted" not in text


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (MachineState("b", 0.0), ""),
        (MachineState("b", 0.0, float("nan"), None, 51.4), "51 °C"),
        (MachineState("b", 0.0, 0.0, 0.0, None), "load 0.0, 0 MHz"),
    ],
)
def test_a_state_is_told_as_far_as_it_is_known(state: MachineState, says: str) -> None:
    """Each part alone."""
    assert account.state_words([state]) == says


def test_instructions_stand_beside_the_effect() -> None:
    """Both changes, and the counts."""
    findings = with_culprit(ratio=1.142, instructions=(8.21e6, 9.187e6))
    found = findings.workloads[0]
    says = account.instructions(found, found.culprits[0])
    assert says == (
        "+14.2 % time, +11.9 % instructions (8.21 M instructions before, 9.19 M instructions after)"
    )
    assert "counted" in told(findings)


def test_noise_is_told_level_by_level() -> None:
    """With that between builds where it was measured."""
    found = make_findings().workloads[0]
    noisy = replace(found, noise=Noise(0.003, 0.004))
    assert account.noise(noisy) == (
        "one run spreads by 0.5 %: 0.3 % inside a process, 0.4 % between processes"
    )
    rebuilt = replace(found, noise=Noise(0.003, 0.004, 0.012))
    assert account.noise(rebuilt).endswith(", 1.2 % between builds")
    assert account.noise(replace(found, noise=Noise(0.0, 0.0))) == ""


def test_every_format_tells_them() -> None:
    """Markdown in words, JSON as values; null and nothing for what was not measured."""
    findings = with_culprit(ratio=1.142, instructions=(8.0e6, 9.0e6))
    found = replace(findings.workloads[0], noise=Noise(0.003, 0.004))
    findings = replace(
        findings,
        conditions={"threads": "1"},
        states=STATES,
        workloads=(found, *findings.workloads[1:]),
    )
    text = told(findings, "markdown")
    assert "Measured with threads 1; load 0.3–1.3, 2400–2600 MHz." in text
    assert "| counted | +14.2 % time, +12.5 % instructions (" in text
    assert "One run spreads by 0.5 %" in text
    report = json.loads(told(findings, "json"))
    assert report["conditions"] == {"threads": "1"}
    assert report["states"][0] == {
        "block": "0.0",
        "at": "1970-01-01T00:00:01Z",
        "load": 0.31,
        "mhz": 2400.0,
        "celsius": None,
    }
    first, second = report["workloads"][:2]
    assert first["noise"] == {"within": 0.003, "between": 0.004, "build": None}
    assert first["culprits"][0]["instructions"] == {"parent": 8e6, "child": 9e6, "ratio": 1.125}
    assert first["culprits"][1]["instructions"] is None
    assert second["noise"] is None


def test_states_do_not_divide_a_probe() -> None:
    """On the site a block of runs is one line, and counts and rebuilds have their own."""
    session = make_session()
    events = [event for event in session.events if not isinstance(event, MachineState)]
    line = session.header.range.line
    run = Run(1.0, "9.0", (1.0,))
    workload = session.header.workloads[0].name
    seen = [Observation(workload, line[i].sha, Outcome.MEASURED, (run,)) for i in (0, 1)]
    noted = [events[0], seen[0], MachineState("9.0", 1.0), seen[1], *events[-4:]]
    lines = probes(replace(session, events=tuple(noted)))
    assert [each.what for each in lines] == ["build", "search", "count", "count", "rebuilds"]
    assert len(lines[1].results) == 2
    assert lines[2].results[0].outcome == "1.23 M instructions"
    assert lines[3].results[0].reason == "killed by SIGILL"
    assert lines[4].results[0].outcome == "3 builds spread by 0.6 %"


def test_builds_of_one_commit_are_told_apart() -> None:
    """On the site and in the log's listing; nothing is said of the usual build."""
    session = make_session()
    sha, workload = session.header.range.line[0].sha, session.header.workloads[0].name
    low, high = (Run(value, "9.0", (value,)) for value in (1.0, 2.0))
    events = (
        BuildEvent(sha, Route.SOURCE, 3.0, "", 1),
        Observation(workload, sha, Outcome.MEASURED, (low,), "", Purpose.REBUILD),
        Observation(workload, sha, Outcome.MEASURED, (high,), "", Purpose.REBUILD, 1),
        BuildEvent(sha, None, 0.0, "gcc failed", 2),
    )
    made, measured, failed = probes(replace(session, events=events))
    assert made.results[0].reason == "build 2"
    assert measured.what == "rebuild"
    assert [(r.value, r.reason) for r in measured.results] == [(1.0, ""), (2.0, "build 2")]
    assert failed.results[0].reason == "build 3: gcc failed"
    stream = io.StringIO()
    write_log(replace(session, events=events), Path("x.jsonl"), stream)
    listed = stream.getvalue().splitlines()[-4:]
    assert ["build 2" in line for line in listed] == [True, False, True, False]
    assert "build 3  gcc failed" in listed[3]


def test_the_site_tells_them(tmp_path: Path) -> None:
    """A session's page its conditions and noise, a culprit's its counts; foreign text escaped."""
    findings = with_culprit(ratio=1.142, instructions=(8.0e6, 9.0e6))
    found = replace(findings.workloads[0], noise=Noise(0.003, 0.004, 0.012))
    findings = replace(
        findings,
        conditions={"compiler": "<b>GCC</b>"},
        states=STATES,
        workloads=(found, *findings.workloads[1:]),
    )
    written = write_site(tmp_path / "culprits", [findings], SITE)
    pages = {path: path.read_text("utf-8") for path in written if path.suffix == ".html"}
    [session] = [text for text in pages.values() if "measured with" in text]
    assert "compiler &lt;b&gt;GCC&lt;/b&gt;; load 0.3–1.3, 2400–2600 MHz" in session
    assert "1.2 % between builds" in session
    [culprit] = [text for text in pages.values() if "+14.2 % time, +12.5 % instructions" in text]
    assert "8.00 M instructions before, 9.00 M instructions after" in culprit
    plain = write_site(tmp_path / "plain", [make_findings()], SITE)
    texts = [path.read_text("utf-8") for path in plain if path.suffix == ".html"]
    assert not [text for text in texts if "measured with" in text or "spreads by" in text]
