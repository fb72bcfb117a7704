"""The report of a comparison against files that people have read.

After a change that is meant, rewrite them with ``UPDATE_GOLDEN=1 pytest tests/golden`` and read
the difference before committing it.
"""

from __future__ import annotations

import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.model import Comparison, Cost, Judgement, Side, Versus, Workload
from bisectorch.report.output import FORMATS
from bisectorch.report.versus import SORTS, Layout, summary, write_versus
from fakes import commit

GOLDEN = Path(__file__).with_name("versus")
OLD, NEW = commit("v1.0", subject="Release 1.0"), commit("new", subject="Fuse | the `loop`")
NOBODY = Side("", (), math.nan)


def comparison(
    name: str,
    judgement: Judgement,
    ratio: float,
    *,
    half: float = 0.01,
    unit: str = "seconds",
    level: float = 2e-6,
    relevant: bool = False,
) -> Comparison:
    """One workload measured on both sides."""
    return Comparison(
        Workload(name, unit=unit),
        judgement,
        ratio,
        (ratio * (1 - half), ratio * (1 + half)),
        0.0001 if judgement is Judgement.DIFFERENT else 0.5,
        Side(OLD.sha, (level, level), level),
        Side(NEW.sha, (level * ratio, level * ratio), level * ratio),
        relevant,
    )


def versus() -> Versus:
    """Each kind of answer once."""
    broken = replace(
        comparison("mod.time_broken", Judgement.UNKNOWN, 1.0),
        ratio=math.nan,
        ratio_interval=(0.0, math.inf),
        after=NOBODY,
        is_relevant=True,
        reason="new side failed: ValueError: bad \x1b[31m value (mod.py:3)",
    )
    return Versus(
        session="20300101-120000-abcd",
        old=OLD,
        new=NEW,
        names=("v1.0", "working tree"),
        comparisons=(
            comparison("mod.time_same", Judgement.SAME, 0.9997, half=0.0003),
            comparison("mod.time_slower", Judgement.DIFFERENT, 1.31, relevant=True),
            comparison("mod.time_unknown", Judgement.UNKNOWN, 1.02, half=0.03),
            broken,
            comparison("mod.time_a_little", Judgement.DIFFERENT, 1.015, half=0.002),
            comparison(
                "mod.peakmem_less",
                Judgement.DIFFERENT,
                0.5,
                unit="bytes",
                level=3e8,
                relevant=True,
            ),
        ),
        mean_ratio=0.93,
        mean_interval=(0.92, 0.94),
        smallest_step=0.02,
        confidence=0.95,
        false_rate=0.01,
        cost=Cost(2, 88, 93.4),
        machine={"machine": "bench"},
        environment="bisectorch-py3.11",
        created_seconds=1_893_499_200.0,
        finished=True,
    )


def written(form: str, layout: Layout, found: Versus) -> str:
    """The report as text."""
    stream = io.StringIO()
    write_versus(found, form, stream, layout)
    return stream.getvalue()


CASES = {
    "usual.txt": ("text", Layout(), True),
    "split.txt": ("text", Layout(split=True, sort="name"), True),
    "changed.md": ("markdown", Layout(only_changed=True), True),
    "split.md": ("markdown", Layout(split=True), False),
    "usual.json": ("json", Layout(), False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_report_is_as_it_was_read(name: str) -> None:
    """Every layout, byte for byte."""
    form, layout, finished = CASES[name]
    actual = written(form, layout, replace(versus(), finished=finished))
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(actual, encoding="utf-8")
    assert actual == path.read_text(encoding="utf-8"), (
        f"{name} has changed; if that is meant: UPDATE_GOLDEN=1 pytest tests/golden"
    )


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("sort", SORTS)
def test_nothing_foreign_acts_on_a_terminal(form: str, sort: str) -> None:
    """An escape that a benchmark's exception holds is shown, not obeyed."""
    assert "\x1b" not in written(form, Layout(sort=sort), versus())


def test_json_is_in_the_order_of_discovery_and_holds_no_nan() -> None:
    """Whatever the table shows."""
    values = json.loads(written("json", Layout(only_changed=True), versus()))
    names = [each["benchmark"] for each in values["workloads"]]
    assert names == [each.workload.name for each in versus().comparisons]
    assert values["workloads"][3]["ratio"] is None
    assert values["workloads"][3]["worse"]
    assert values["got_worse"]


def test_a_single_workload_has_no_mean() -> None:
    """It would say the same thing again."""
    alone = replace(versus(), comparisons=versus().comparisons[:1])
    assert "geometric" not in written("text", Layout(), alone)
    assert summary(alone) == "1 workload: 0 worse, 0 better, 1 same within 2 %, 0 unknown"


def test_nothing_that_changed_leaves_an_empty_table_out() -> None:
    """Only the summary is left."""
    alone = replace(versus(), comparisons=versus().comparisons[:1])
    assert "verdict" not in written("text", Layout(only_changed=True), alone)
