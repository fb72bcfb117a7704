"""Comparisons, histories and the site's own facts."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from bisectorch.report import charts, comparing, histories
from bisectorch.report.comparing import Change, Snapshot, Value
from bisectorch.report.site import RESERVED, Site, by_commit, entries, home
from bisectorch.report.told import expenses, probes
from factories import HOSTILE, make_commit, make_findings
from sites import make_history, make_told, make_workloads


def snapshot(values: dict[str, Value | None], stale: tuple[str, ...] = ()) -> Snapshot:
    """What one machine says of one commit."""
    return Snapshot("c" * 40, 0.0, "m", "e", values, frozenset(stale))


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (Value(1.0, 0.99, 1.01), Value(1.3, 1.29, 1.31), Change.SLOWER),
        (Value(1.3, 1.29, 1.31), Value(1.0, 0.99, 1.01), Change.FASTER),
        (Value(1.0, 0.999, 1.001), Value(1.01, 1.009, 1.011), Change.SMALL),
        (Value(1.0, 0.9, 1.1), Value(1.05, 0.95, 1.15), Change.NONE),
        (Value(1.0), Value(2.0), Change.UNSURE),
        (Value(1.0, 0.9, math.inf), Value(2.0, 1.9, 2.1), Change.UNSURE),
        (Value(0.0, 0.0, 0.0), Value(2.0, 1.9, 2.1), Change.NOT_COMPARABLE),
        (None, Value(2.0, 1.9, 2.1), Change.NOT_COMPARABLE),
    ],
)
def test_each_verdict(old: Value | None, new: Value, change: Change) -> None:
    """Real is not relevant; without an interval nothing is real; a reason for every refusal."""
    (row,) = comparing.compare(snapshot({"x": old}), snapshot({"x": new})).rows
    assert row.change is change
    assert bool(row.reason) == (change is Change.NOT_COMPARABLE)
    assert math.isfinite(row.ratio) == (change is not Change.NOT_COMPARABLE)


def test_what_cannot_be_compared_says_why() -> None:
    """Left out, failed, or of another version; it counts for no mean."""
    before = snapshot({"a": Value(1, 0.9, 1.1), "b": None, "c": Value(1, 0.9, 1.1)}, ("d",))
    after = snapshot({"a": Value(2, 1.9, 2.1), "b": Value(1, 1, 1), "d": Value(9, 8, 10)})
    compared = comparing.compare(before, after)
    reasons = {row.workload: row.reason for row in compared.rows}
    assert reasons == {
        "a": "",
        "b": "failed or left out before",
        "c": "not measured after",
        "d": "another version of the benchmark was measured before",
    }
    assert compared.mean == 2.0


def test_the_interval_covers_a_true_ratio() -> None:
    """Intervals of 99 % of two independent values give one of the ratio of at least as much."""
    dice = random.Random(3)
    hits = 0
    for _ in range(2000):
        sides = []
        for truth, sigma in ((1.0, 0.02), (1.2, 0.05)):
            value = truth * math.exp(dice.gauss(0, sigma))
            half = math.exp(2.576 * sigma)
            sides.append(Value(value, value / half, value * half))
        (row,) = comparing.compare(snapshot({"x": sides[0]}), snapshot({"x": sides[1]})).rows
        hits += row.low <= 1.2 <= row.high
    assert hits / 2000 >= 0.98


def test_machines_are_never_mixed() -> None:
    """Only what one machine measured in one environment is compared; the rest is named."""
    one, two = snapshot({}), replace(snapshot({}), machine="other")
    assert comparing.pairs([one], [two]) == ()
    assert comparing.pairs([one, two], [two]) == ((two, two),)
    told = comparing.only_one_side([one], [two])
    assert told == (
        "m (e) measured only the commit before",
        "other (e) measured only the commit after",
    )


def test_a_new_machine_is_no_step() -> None:
    """Another kernel and another machine begin lines of their own, and are named where."""
    history = make_history(make_workloads()[0].workload)
    changed = histories.changes(history)
    assert [change.place for change in changed] == [30, 20]
    assert "Linux 5.4 → Linux 6.1" in changed[0].what
    assert "bench-2" in changed[1].what
    chart = charts.history_chart(history, [], changed, lambda sha: f"https://x/{sha}")
    assert chart.count('class="change"') == 2
    assert chart.count("<a ") == sum(
        math.isfinite(p.value) for line in history.lines for p in line.points
    )
    assert 'class="line l2"' in chart


def test_many_points_stay_small() -> None:
    """Beyond some thousand points there are no links, and few bytes a point."""
    history = make_history(make_workloads()[0].workload)
    line = history.lines[0]
    points = tuple(replace(line.points[0], place=k, sha=f"{k:040}") for k in range(4000))
    many = replace(history, lines=(replace(line, points=points, levels=()),))
    chart = charts.history_chart(many, [], (), lambda sha: f"https://x/{sha}")
    assert "<a " not in chart
    assert len(chart) < 400_000
    empty = replace(history, lines=())
    assert "Nothing was measured" in charts.history_chart(empty, [], (), lambda sha: None)


def test_hostile_names_stay_text_in_charts() -> None:
    """No markup of theirs, in labels or in words."""
    history = make_history(replace(make_workloads()[0].workload, benchmark=HOSTILE))
    lines = tuple(replace(line, machine=HOSTILE[:60]) for line in history.lines)
    history = replace(history, lines=lines)
    chart = charts.history_chart(history, [], histories.changes(history), lambda sha: None)
    assert "<script" not in chart
    assert "<img" not in chart


@pytest.mark.parametrize("size", [1, 2, 5, 30, 200])
def test_the_medians_interval_covers(size: int) -> None:
    """95 % for large samples; for small ones as much as they can."""
    dice = random.Random(size)
    hits = 0
    for _ in range(600):
        middle, low, high = histories.median_interval([dice.gauss(0, 1) for _ in range(size)])
        assert low <= middle <= high
        hits += low <= 0 <= high
    assert hits / 600 >= (0.93 if size >= 5 else 0.0)


@pytest.mark.parametrize(
    ("url", "subject", "expected"),
    [
        ("https://github.com/o/r/commit/", "Fix (#12)", ("#12", "https://github.com/o/r/pull/12")),
        (
            "https://gitlab.com/g/s/r/-/commit/",
            "Fix (!7)",
            ("!7", "https://gitlab.com/g/s/r/-/merge_requests/7"),
        ),
        ("https://example.org/x/", "Merge pull request #9 from x", ("#9", None)),
        ("https://github.com/o/r/commit/", "no number here", None),
        ("javascript:alert(1)//github.com/o/r/commit/", "Fix (#12)", ("#12", None)),
    ],
)
def test_pull_requests_are_linked(
    url: str, subject: str, expected: tuple[str, str | None] | None
) -> None:
    """Where the forge is known; elsewhere the number alone."""
    assert Site("p", url).pull_request(make_commit(1, subject)) == expected


def test_sessions_do_not_hide_other_pages() -> None:
    """A session called like one of our folders lies elsewhere."""
    for name in RESERVED:
        assert home(replace(make_findings(), session=name)) not in RESERVED


def test_one_change_a_commit_and_workload() -> None:
    """The newest finding stands for the change, older ones are kept beside it."""
    newer, older = make_findings("b"), make_findings("a", 1.0)
    groups = by_commit(entries([newer, older]))
    assert [len(group) for group in groups] == [1, 1, 1]
    assert all(group[0].entry.findings is newer for group in groups)
    assert all(len(group[0].earlier) == 1 for group in groups)


def test_probes_and_costs_add_up() -> None:
    """Every run is in one probe, in order; what builds and runs cost is told apart."""
    told = make_told(make_findings())
    listed = probes(told.session)
    assert [probe.number for probe in listed] == list(range(1, len(listed) + 1))
    lines = {line.what: line for line in expenses(told)}
    assert lines["builds: wheel"].seconds == 12.5
    assert lines["builds: could not be built"].count == 1
    total = sum(line.seconds for line in lines.values())
    assert total == pytest.approx(told.findings.cost.seconds)
