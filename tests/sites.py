"""Whole sites for the tests of pages: sessions, histories, snapshots, hostile or usual."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bisectorch.model import (
    Cause,
    CodeChange,
    Difference,
    Explanation,
    Findings,
    SpentIn,
    TouchedFile,
    Workload,
)
from bisectorch.report.compare_pages import SnapshotSource, source_name
from bisectorch.report.comparing import Snapshot, Value
from bisectorch.report.folder import Folder
from bisectorch.report.histories import History, Line, Point, levels
from bisectorch.report.pages import Edition, Problem, Site, write_pages
from bisectorch.report.told import Moment, Told
from bisectorch.report.workload_pages import WorkloadSource
from factories import HOSTILE, make_range, make_session

SITE = Site("pytorch", "https://example.org/commit/", lambda w: f"index.html#{w.benchmark}")
STAGES = ("'preprocess'", "'forward'", "'total'")
MACHINES = ("bench-1", "bench-2")


def make_explanation(findings: Findings, index: int = 0, text: str = "") -> Explanation:
    """Why the culprit of this number changed the first workload; ``text`` is put everywhere."""
    found = findings.workloads[0]
    culprit = found.culprits[index]
    step = culprit.delta
    name = text or "Linear.forward"
    return Explanation(
        found.workload.name,
        culprit.parent.sha,
        culprit.child.sha,
        (culprit.parent.level, culprit.child.level),
        (culprit.parent.level * 3, culprit.child.level * 3),
        causes=(
            Cause(
                name,
                SpentIn.PYTHON,
                text or "torch/nn/modules/linear.py",
                52,
                CodeChange.CHANGED,
                0.74 * step,
                0.74,
                (1.0, 3.0),
                text or "Python function now, in place of AddmmBackward0",
            ),
            Cause(
                "aten::addmm",
                SpentIn.OPERATOR,
                "",
                0,
                CodeChange.COMPILED,
                0.12 * step,
                0.12,
                (1.0, 1.0),
            ),
        ),
        operators=tuple(
            Difference(
                text or f"aten::op{k}",
                SpentIn.OPERATOR,
                self_seconds=(1e-6 * (k + 1), 1e-6 * (k + 1) + step / (k + 2)),
                calls=(1.0, 1.0),
            )
            for k in range(5)
        ),
        touched=(
            TouchedFile("torch/nn/functional.py", True, (text or "linear",)),
            TouchedFile("docs/nn.rst", False),
        ),
        methods=("cProfile", "torch.profiler"),
        notes=(text or "the profiler trebles the time of a call",),
    )


def explained(findings: Findings, text: str = "") -> Findings:
    """The same findings with the first culprit of the first workload explained."""
    first, *rest = findings.workloads
    culprits = list(first.culprits)
    culprits[0] = replace(culprits[0], explanation=make_explanation(findings, 0, text))
    return replace(findings, workloads=(replace(first, culprits=tuple(culprits)), *rest))


def make_told(findings: Findings) -> Told:
    """The session behind these findings, and what was believed at four moments."""
    course = []
    for k in range(1, 5):
        change = {
            found.workload.name: tuple(p * k / 4 for p in found.posterior.change)
            for found in findings.workloads
            if found.posterior is not None
        }
        course.append(Moment(25 * k, 4 * k, change))
    mark = f"{findings.session} {findings.finished} {len(findings.workloads)}"
    return Told(make_session(findings), findings, tuple(course), mark)


def make_history(workload: Workload, base: float = 8.3e-6, seed: int = 1) -> History:
    """Two machines, the first of which gets another kernel on its way."""
    line = make_range().line
    dice = random.Random(f"{workload.name} {seed}")
    told = []
    for machine, first, last, kernel, factor in (
        (MACHINES[0], 0, 30, "Linux 5.4", 1.0),
        (MACHINES[0], 30, 61, "Linux 6.1", 1.06),
        (MACHINES[1], 20, 61, "Linux 6.1", 0.7),
    ):
        points = []
        for place in range(first, last):
            level = base * factor * (1.31 if place >= 33 else 1.0)
            value = level * math.exp(0.01 * (sum(dice.random() for _ in range(12)) - 6))
            if place == 25:
                value = math.nan
            commit = line[place]
            points.append(
                Point(
                    commit.sha,
                    place,
                    commit.date_seconds,
                    value,
                    value * 0.985,
                    value * 1.015,
                    10,
                    1.76e9 + place,
                )
            )
        bounds = [(first, min(33, last)), (max(33, first), last)]
        facts = {"machine": machine, "os": kernel, "python": "3.11"}
        told.append(Line(machine, "py3.11", facts, tuple(points), levels(points, bounds)))
    return History(workload, tuple(told))


def make_workloads(extra: Sequence[Workload] = ()) -> tuple[WorkloadSource, ...]:
    """The usual workloads, one split into stages, and whatever else is asked for."""
    usual = [
        Workload("linear.Linear.time_backward", ("1", "10"), 0),
        Workload("linear.Linear.time_forward", ("1", "10"), 0),
        *extra,
    ]
    sources = [
        WorkloadSource(w, ("batch", "features"), w.name, 1.1e-5, lambda w=w: make_history(w))
        for w in usual
    ]
    for index, stage in enumerate(STAGES):
        workload = Workload("labeler.Stages.time_forward", (stage,), index)
        sources.append(
            WorkloadSource(
                workload,
                ("stage",),
                stage,
                0.1 * (index + 1),
                lambda w=workload, i=index: make_history(w, 0.1 * (i + 1)),
            )
        )
    return tuple(sources)


def make_snapshots() -> tuple[SnapshotSource, ...]:
    """Values of every fifth commit, and of those around a culprit, on two machines."""
    line = make_range().line
    sources = []
    for machine in MACHINES:
        for place in sorted({*range(0, 61, 5), 11, 12, 33}):
            if machine == MACHINES[1] and place < 20:
                continue
            commit = line[place]
            snapshot = Snapshot(
                commit.sha,
                commit.date_seconds,
                machine,
                "py3.11",
                _values(place, machine),
                frozenset({"old.time_it"}) if place > 40 else frozenset(),
            )
            sources.append(
                SnapshotSource(
                    source_name(machine, commit.sha, "py3.11"),
                    commit.sha,
                    commit.date_seconds,
                    place,
                    machine,
                    "py3.11",
                    f"{machine} {place}",
                    lambda s=snapshot: s,
                )
            )
    return tuple(sources)


def _values(place: int, machine: str) -> dict[str, Value | None]:
    slow = 1.31 if place >= 33 else 1.0
    half = 0.7 if machine == MACHINES[1] else 1.0
    values: dict[str, Value | None] = {
        "linear.Linear.time_backward(1, 10)": _value(8.3e-6 * slow * half, 0.01),
        "linear.Linear.time_forward(1, 10)": _value(7.8e-6 * half, 0.02),
        "small.time_it": _value(1e-3 * (1.0 + place * 1e-4), 0.0001),
        "single.time_it": Value(0.5 + place / 1000),
        "memory.peakmem_it": Value(3.1e8 / slow, 3.0e8 / slow, 3.2e8 / slow, "bytes"),
        "zero.track_it": Value(0.0, 0.0, 0.0, "objects"),
        "broken.time_it": None if place > 30 else _value(1.0, 0.1),
    }
    if place <= 40:
        values["old.time_it"] = _value(2.0, 0.01)
    return values


def _value(middle: float, width: float) -> Value:
    return Value(middle, middle * (1 - width), middle * (1 + width))


def make_edition(
    sessions: Sequence[Findings],
    site: Site = SITE,
    problems: Sequence[Problem] = (),
    *,
    results: bool = True,
) -> Edition:
    """Everything that one publish tells; without ``results`` the sessions alone."""
    line = make_range().line
    if results and not site.tags:
        tags = {line[10].sha: ["v0.1.11"], line[30].sha: ["v0.1.12"], line[60].sha: ["v0.2.0"]}
        site = replace(site, tags=tags)
    return Edition(
        replace(site, places={commit.sha: place for place, commit in enumerate(line)}),
        tuple(map(make_told, sessions)),
        problems,
        make_workloads() if results else (),
        make_snapshots() if results else (),
    )


def write_site(
    directory: Path,
    sessions: Sequence[Findings],
    site: Site = SITE,
    problems: Sequence[Problem] = (),
    *,
    results: bool = True,
) -> list[Path]:
    """Write the pages into ``directory``; every file, the list of culprits first."""
    folder = Folder(directory)
    write_pages(make_edition(sessions, site, problems, results=results), folder)
    names = sorted(folder.names, key=lambda name: (name != "index.html", name))
    return [directory / name for name in names]


def hostile_workload() -> Workload:
    """A benchmark whose name and parameters attack what shows them."""
    return Workload(f"evil.{HOSTILE[:400]}", ("'<b>\"'", "'../../etc'"), 0)
