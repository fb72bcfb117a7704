"""The published pages: the list of culprits, a page a session, and a page a culprit.

Static HTML with one style sheet, no script and no request off the site. Text from commits,
authors, machines and logs is foreign: templates escape it, and marks that act instead of
showing are spelt out.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
from markupsafe import Markup

from bisectorch.errors import EnvironmentFailure
from bisectorch.model import Culprit, Findings, Verdict, Workload, WorkloadFindings
from bisectorch.report import account, figures, jsonreport, markdown, wording
from bisectorch.report.wording import one_line

TITLE_LIMIT = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Problem:
    """A session log that could not be published, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Site:
    """What the pages are about and where their links lead.

    Attributes:
        project: the project's name.
        show_commit_url: a commit's page is this followed by its object name; only http and
            https are linked to.
        graph_url: the page of a workload's graph, relative to the site's root; None for none.
    """

    project: str
    show_commit_url: str = ""
    graph_url: Callable[[Workload], str | None] = lambda workload: None

    def commit_url(self, sha: str) -> str | None:
        """The commit's page in the project's forge, where there is one."""
        if urlsplit(self.show_commit_url).scheme not in {"http", "https"}:
            return None
        return self.show_commit_url + quote(sha, safe="")


@dataclass(frozen=True)
class Entry:
    """One culprit on the site, with its page's path below the pages' folder."""

    findings: Findings
    found: WorkloadFindings
    culprit: Culprit
    path: str


@dataclass(frozen=True)
class Bar:
    """An effect and its interval as places on a scale from 0 to 100, with no change at 50."""

    low: float
    middle: float
    high: float


def write_pages(
    directory: Path,
    sessions: Sequence[Findings],
    site: Site,
    problems: Sequence[Problem] = (),
) -> tuple[Path, ...]:
    """Write the pages into ``directory`` and return what was written, the list of culprits first.

    ``index.html`` lists the culprits; ``<session>/index.html`` shows a session, beside
    ``report.json``, ``report.md`` and a figure a workload;
    ``<session>/<workload>/<commit>.html`` shows a culprit. Raises EnvironmentFailure when the
    disk refuses.
    """
    newest_first = sorted(sessions, key=lambda findings: findings.created_seconds, reverse=True)
    files = _files(newest_first, site, problems)
    written = []
    for name, content in files:
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise EnvironmentFailure(f"cannot write {path}: {error.strerror or error}") from error
        written.append(path)
    return tuple(written)


def slug(text: str) -> str:
    """A name for a file or folder that stays the same for the same text and is safe anywhere."""
    safe = _UNSAFE.sub("-", text).strip("-.")
    if text and safe == text and len(safe) <= 80:
        return safe
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{safe[:80]}-{mark}".lstrip("-")


def culprit_path(findings: Findings, found: WorkloadFindings, culprit: Culprit) -> str:
    """Where a culprit's page lies below the pages' folder; it never moves."""
    parts = (findings.session, found.workload.name, culprit.commit.sha)
    return f"{'/'.join(map(slug, parts))}.html"


def entries(sessions: Sequence[Findings]) -> tuple[Entry, ...]:
    """The culprits of all sessions in the sessions' order, the newest commits first."""
    return tuple(
        Entry(findings, found, culprit, culprit_path(findings, found, culprit))
        for findings in sessions
        for found in findings.workloads
        for culprit in reversed(account.chronological(findings, found))
    )


def _files(
    sessions: Sequence[Findings], site: Site, problems: Sequence[Problem]
) -> Iterator[tuple[str, bytes]]:
    """Every file of the pages: its path and its bytes."""
    listed = entries(sessions)
    render = _Renderer(site)
    yield (
        "index.html",
        render(
            "index.html",
            "",
            entries=listed,
            sessions=sessions,
            problems=problems,
            largest=_largest(listed),
        ),
    )
    yield "style.css", render.style()
    for findings in sessions:
        home = slug(findings.session)
        yield f"{home}/report.json", jsonreport.render(findings).encode()
        yield f"{home}/report.md", markdown.render(findings).encode()
        for found in findings.workloads:
            drawn = figures.svg(figures.levels_figure(findings, found))
            yield f"{home}/{slug(found.workload.name)}/levels.svg", drawn
        path = f"{home}/index.html"
        yield path, render("session.html", path, findings=findings)
    for index, entry in enumerate(listed):
        yield (
            entry.path,
            render(
                "culprit.html",
                entry.path,
                entry=entry,
                findings=entry.findings,
                found=entry.found,
                culprit=entry.culprit,
                newer=listed[index - 1] if index else None,
                older=listed[index + 1] if index + 1 < len(listed) else None,
            ),
        )


class _Renderer:
    """The templates with the words and facts they use."""

    def __init__(self, site: Site) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("bisectorch.report", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self._environment.filters.update(
            breakable=breakable, foreign=foreign, title=_title, slug=slug
        )
        self._environment.globals.update(
            account=account,
            alt_text=figures.alt_text,
            bar=_bar,
            culprit_path=culprit_path,
            runs_bars=_runs_places,
            site=site,
            Verdict=Verdict,
            wording=wording,
        )

    def __call__(self, template: str, path: str, **facts: Any) -> bytes:
        """One page; ``path`` is where it lies below the pages' folder."""
        root = "../" * path.count("/")
        page = self._environment.get_template(template).render(root=root, **facts)
        return page.encode("utf-8", "replace")

    def style(self) -> bytes:
        """The style sheet."""
        return (
            self._environment.get_template("style.css")
            .render(light=figures.LIGHT, dark=figures.DARK)
            .encode()
        )


def foreign(text: str, limit: int | None = None) -> Markup:
    """Foreign text as HTML that shows it: escaped, on one line, its direction kept to itself."""
    return Markup("<bdi>{}</bdi>").format(one_line(text, limit))


def breakable(text: str, limit: int | None = None) -> Markup:
    """A dotted name as HTML that may break after its dots."""
    pieces = one_line(text, limit).split(".")
    return Markup("<bdi>{}</bdi>").format(Markup(".<wbr>").join(pieces))


def _title(text: str) -> str:
    return one_line(text, TITLE_LIMIT)


def _largest(listed: Sequence[Entry]) -> float:
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


def _bar(culprit: Culprit, largest: float) -> Bar:
    """Where the effect and its interval lie on a logarithmic scale around no change."""

    def place(ratio: float) -> float:
        log = math.log(ratio) if 0 < ratio < math.inf else math.copysign(largest, ratio - 1)
        return round(50 + 46 * max(-1.0, min(1.0, log / (largest or 1.0))), 2)

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
