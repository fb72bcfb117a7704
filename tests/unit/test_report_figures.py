"""Figures: the same bytes, legible in dark and light, nothing hidden."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.report import figures
from factories import make_findings, make_hostile_findings, make_range, make_workload_findings
from matplotlib.collections import PathCollection

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """A missing glyph or a squeezed layout is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def draw() -> bytes:
    """The usual figure."""
    findings = make_findings()
    return figures.svg(figures.levels_figure(findings, findings.workloads[0]))


def texts(data: bytes) -> list[str]:
    """Everything written in an SVG."""
    return [element.text or "" for element in ElementTree.fromstring(data).iter(f"{SVG}text")]


def test_the_same_findings_give_the_same_bytes() -> None:
    """Drawn twice, after other figures, as SVG and PNG; and in another process."""
    first = draw()
    findings = make_findings()
    figure = figures.levels_figure(findings, findings.workloads[0])
    picture = figures.png(figure)
    assert figures.svg(figure) == first
    assert figures.png(figure) == picture
    code = "import sys, test_report_figures as t; sys.stdout.buffer.write(t.draw())"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent)])
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
        capture_output=True,
        check=True,
    )
    assert other.stdout == first


def test_the_picture_is_a_png() -> None:
    """For places that show no SVG."""
    findings = make_findings()
    figure = figures.levels_figure(findings, findings.workloads[1])
    assert figures.png(figure).startswith(b"\x89PNG")


def test_every_run_and_every_gap_is_drawn() -> None:
    """As many points as runs, a tick for each unmeasured commit, a cross for each broken one."""
    findings = make_findings()
    found = findings.workloads[0]
    figure = figures.levels_figure(findings, found)
    drawn = {
        str(artist.get_label()): len(artist.get_offsets())
        for artist in figure.axes[0].collections
        if isinstance(artist, PathCollection)
    }
    runs = sum(len(seen.runs) for seen in found.observations)
    commits = {seen.sha for seen in found.observations}
    assert drawn["one run"] == runs
    assert drawn["not measurable"] == 3
    assert drawn["not measured"] == len(findings.range.line) - len(commits)


def test_culprits_are_told_by_sign_and_words() -> None:
    """Arrow, effect and object name stand at each culprit; colour only repeats them."""
    shown = texts(draw())
    for culprit in make_findings().workloads[0].culprits:
        arrow = "▲" if culprit.ratio > 1 else "▼"
        assert any(t.startswith(arrow) and culprit.commit.sha[:7] in t for t in shown)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("palette", [figures.LIGHT, figures.DARK], ids=["light", "dark"])
def test_colours_stand_out(palette: dict[str, str]) -> None:
    """Text at 4.5 to 1 against the ground, marks too."""
    for name, colour in palette.items():
        if name not in {"ground", "grid", "band"}:
            high, low = sorted((luminance(colour), luminance(palette["ground"])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, name


def test_dark_recolours_every_colour_used() -> None:
    """No colour of the figure is left light for a reader who prefers dark."""
    data = draw().decode()
    used = set(re.findall(r'style="[^"]*(?:fill|stroke): (#[0-9a-f]{6})', data))
    assert used
    assert used <= set(figures.LIGHT.values())
    assert set(figures.LIGHT) == set(figures.DARK)
    assert "prefers-color-scheme:dark" in data


def test_hostile_names_are_only_text() -> None:
    """Markup, formulas and unknown glyphs neither break the drawing nor get out of it."""
    findings = make_hostile_findings()
    found = findings.workloads[0]
    workload = replace(found.workload, benchmark="x$\\frac{</text><script>", params=("🦥",))
    data = figures.svg(figures.levels_figure(findings, replace(found, workload=workload)))
    tree = ElementTree.fromstring(data)
    assert not list(tree.iter(f"{SVG}script"))
    assert any("$\\frac{</text><script>" in text for text in texts(data))


@pytest.mark.parametrize("size", [2, 3, 61, 462])
def test_ranges_of_any_length(size: int) -> None:
    """Two commits or hundreds: the ends are named and the names do not overlap."""
    findings = replace(make_findings(), range=make_range(size))
    line = findings.range.line
    steps = {1: 1.2} if size < 13 else {12: 1.62, 20: 9.0}
    found = make_workload_findings(line, findings.workloads[0].workload, steps=steps)
    figure = figures.levels_figure(findings, found)
    axes = figure.axes[0]
    labels = [tick for tick in axes.get_xticklabels() if tick.get_text()]
    assert labels[0].get_text() == line[0].sha[:7]
    assert labels[-1].get_text() == line[-1].sha[:7]
    boxes = sorted(tick.get_window_extent().extents[[0, 2]].tolist() for tick in labels)
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize(("ratio", "scale"), [(1.5, "linear"), (30.0, "log")])
def test_axes_are_readable_at_any_ratio(ratio: float, scale: str) -> None:
    """Several numbers stand at the axis, and every run lies inside it."""
    findings = make_findings()
    line = findings.range.line
    found = make_workload_findings(line, findings.workloads[0].workload, steps={20: ratio})
    axes = figures.levels_figure(findings, found).axes[0]
    low, high = axes.get_ylim()
    assert axes.get_yscale() == scale
    assert sum(low <= tick <= high for tick in axes.get_yticks()) >= 3
    runs = [run.value * 1e6 for seen in found.observations for run in seen.runs]
    assert low < min(runs)
    assert max(runs) < high


def test_many_culprits_do_not_overlap() -> None:
    """Labels of neighbours go into rows."""
    findings = make_findings()
    steps = {20: 1.2, 22: 1.2, 24: 0.7, 26: 1.3}
    found = make_workload_findings(findings.range.line, findings.workloads[0].workload, steps=steps)
    figure = figures.levels_figure(findings, found)
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 4
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])


def test_nothing_measured_is_drawn_as_such() -> None:
    """An empty search has a figure that says so."""
    findings = make_findings()
    found = replace(findings.workloads[2], observations=(), posterior=None)
    assert "nothing was measured" in texts(figures.svg(figures.levels_figure(findings, found)))


def test_the_alternative_text_tells_what_is_seen() -> None:
    """How much was measured, each step, and what could not be measured."""
    findings = make_findings()
    text = figures.alt_text(findings, findings.workloads[0])
    assert "91 runs of 13 commits" in text
    assert "+62.0 %" in text
    assert "3 commits could not be measured" in text
    assert "no change of at least 2.1 %" in figures.alt_text(findings, findings.workloads[1])


def test_figures_are_saved_one_a_workload(tmp_path: Path) -> None:
    """The ending chooses the format; a wrong one and a full disk are told in one line."""
    figures.save_figure(make_findings(), tmp_path / "levels.svg")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["levels-2.svg", "levels-3.svg", "levels.svg"]
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        figures.save_figure(make_findings(), tmp_path / "levels.gif")
    with pytest.raises(EnvironmentFailure, match="cannot write"):
        figures.save_figure(make_findings(), tmp_path / "none" / "levels.png")
