"""The templates, with the words and facts they use.

Text from commits, authors, machines and logs is foreign: templates escape it, and marks that act
instead of showing are spelt out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from bisectorch.model import Culprit, PathClass, Verdict
from bisectorch.report import account, figures, site, told, wording
from bisectorch.report.comparing import Change
from bisectorch.report.wording import one_line

TITLE_LIMIT = 120
TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Bar:
    """An effect and its interval as places on a scale from 0 to 100, with no change at 50."""

    low: float
    middle: float
    high: float


class Renderer:
    """Makes pages of one site."""

    def __init__(self, of: site.Site) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self._environment.filters.update(
            breakable=breakable, foreign=foreign, title=_title, slug=site.slug
        )
        self._environment.globals.update(
            account=account,
            bar=bar,
            Change=Change,
            culprit_path=site.culprit_path,
            home=site.home,
            isfinite=math.isfinite,
            PathClass=PathClass,
            runs_bars=_runs_places,
            site=of,
            told_of=told,
            Verdict=Verdict,
            wording=wording,
            workload_path=site.workload_path,
        )

    def __call__(self, template: str, path: str, **facts: Any) -> bytes:
        """One page; ``path`` is where it lies below the pages' folder."""
        root = "../" * path.count("/")
        page = self._environment.get_template(template).render(root=root, **facts)
        return page.encode("utf-8", "replace")

    def style(self) -> bytes:
        """The style sheet."""
        template = self._environment.get_template("style.css")
        return template.render(light=figures.LIGHT, dark=figures.DARK).encode()


def foreign(text: str, limit: int | None = None) -> Markup:
    """Foreign text as HTML that shows it: escaped, on one line, its direction kept to itself."""
    return Markup("<bdi>{}</bdi>").format(one_line(text, limit))


def breakable(text: str, limit: int | None = None) -> Markup:
    """A dotted name as HTML that may break after its dots."""
    pieces = one_line(text, limit).split(".")
    return Markup("<bdi>{}</bdi>").format(Markup(".<wbr>").join(pieces))


def _title(text: str) -> str:
    return one_line(text, TITLE_LIMIT)


def largest(listed: Sequence[site.Entry]) -> float:
    """The largest logarithm that the bars of a list must hold."""
    return max(
        (
            abs(math.log(bound))
            for entry in listed
            for bound in entry.culprit.ratio_interval
            if 0 < bound < math.inf
        ),
        default=1.0,
    )


def bar(culprit: Culprit, limit: float) -> Bar:
    """Where the effect and its interval lie on a logarithmic scale around no change."""

    def place(ratio: float) -> float:
        log = math.log(ratio) if 0 < ratio < math.inf else math.copysign(limit, ratio - 1)
        return round(50 + 46 * max(-1.0, min(1.0, log / (limit or 1.0))), 2)

    low, high = culprit.ratio_interval
    return Bar(place(low), place(culprit.ratio), place(high))


def _runs_places(culprit: Culprit) -> Mapping[str, tuple[float, ...]]:
    """Where the runs and levels of both sides lie on one scale from 0 to 100."""
    sides = {"before": culprit.parent, "after": culprit.child}
    values = [v for side in sides.values() for v in (*side.values, side.level) if math.isfinite(v)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    width = (high - low) or 1.0
    return {
        name: tuple(
            round(3 + 94 * (value - low) / width, 2)
            for value in (side.level, *side.values)
            if math.isfinite(value)
        )
        for name, side in sides.items()
    }
