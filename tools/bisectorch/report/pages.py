"""The published pages: culprits, sessions, workloads and comparisons.

Static HTML that needs no script; scripts of ours only sort, filter and compare what is there.
Nothing is asked of another site.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure

from bisectorch.model import Culprit, Findings, WorkloadFindings
from bisectorch.report import (
    account,
    charts,
    comment,
    drawings,
    exports,
    feeds,
    figures,
    jsonreport,
    junit,
    markdown,
    tables,
    told,
)
from bisectorch.report.compare_pages import Comparisons, SnapshotSource
from bisectorch.report.folder import Folder
from bisectorch.report.parts import File, Made, Parts
from bisectorch.report.render import TEMPLATES, Renderer, largest
from bisectorch.report.site import (
    Entry,
    Problem,
    Site,
    by_commit,
    culprit_path,
    entries,
    figures_path,
    home,
    latest,
    slug,
)
from bisectorch.report.told import Told
from bisectorch.report.workload_pages import WorkloadPages, WorkloadSource

__all__ = [
    "Edition",
    "Entry",
    "Problem",
    "Site",
    "SnapshotSource",
    "WorkloadSource",
    "culprit_path",
    "entries",
    "slug",
    "write_pages",
]

PAGE = 150
"""Commits on one page of the list."""
RECENT = 10
"""Sessions told of on the first page."""
SCRIPTS = ("site.js", "compare.js")


@dataclass(frozen=True)
class Edition:
    """Everything that one publish tells.

    Attributes:
        site: the site's own facts.
        sessions: every session.
        problems: logs that could not be read.
        workloads: what asv's results hold of each workload.
        snapshots: what they hold of each commit.
        stamp: of the program; another one makes every page anew.
    """

    site: Site
    sessions: Sequence[Told] = ()
    problems: Sequence[Problem] = ()
    workloads: Sequence[WorkloadSource] = ()
    snapshots: Sequence[SnapshotSource] = ()
    stamp: str = ""


def write_pages(
    edition: Edition, folder: Folder, prefix: str = "", known: Made | None = None
) -> Made:
    """Write what changed below ``prefix`` in the folder; ``known`` is what the last call returned.

    Raises EnvironmentFailure when the disk refuses.
    """
    return _Pages(edition, Parts(folder, prefix, known or {})).write()


class _Pages:
    """One writing of the pages."""

    def __init__(self, edition: Edition, parts: Parts) -> None:
        self._edition = edition
        self._parts = parts
        self._site = edition.site
        self._render = Renderer(edition.site)
        newest = sorted(edition.sessions, key=lambda t: t.findings.created_seconds, reverse=True)
        self._sessions = tuple(newest)
        self._listed = entries([each.findings for each in newest])
        self._latest = latest(self._listed)
        self._of_commit: dict[str, list[Entry]] = {}
        for entry in self._latest:
            self._of_commit.setdefault(entry.culprit.commit.sha, []).append(entry)
        self._comparisons = Comparisons(self._render, self._site, edition.snapshots, self._sessions)
        self._workloads = WorkloadPages(self._render, self._site, edition.workloads, self._latest)

    def write(self) -> Made:
        """Every part."""
        facts = (self._site.project, self._site.show_commit_url, self._site.address)
        base = f"{self._edition.stamp} {facts}"
        part = self._parts.part
        part("fixed", base, self._fixed)
        around = self._around()
        for each in self._sessions:
            mark = f"{base} {each.mark} {around[each.findings.session]}"
            part(
                f"session {each.findings.session}",
                hashlib.sha256(mark.encode("utf-8", "replace")).hexdigest(),
                lambda each=each: self._session(each),  # type: ignore[misc]
            )
        self._workloads.write(self._parts, base)
        self._comparisons.write(self._parts, base)
        part("lists", "", self._lists)
        del self._parts.made["lists"]  # cheap, and told by everything
        return self._parts.made

    def _around(self) -> Mapping[str, str]:
        """What each session's pages say of other sessions."""
        told_of: dict[str, list[str]] = {t.findings.session: [] for t in self._sessions}
        for index, entry in enumerate(self._listed):
            sides = self._listed[max(0, index - 1) : index + 2]
            others = self._of_commit[entry.culprit.commit.sha]
            compared = self._comparisons.path(entry.culprit.parent.sha, entry.culprit.child.sha)
            names = [side.path for side in (*sides, *others)]
            told_of[entry.findings.session] += [*names, str(compared)]
        for each in self._sessions:
            for found in each.findings.workloads:
                graph = self._site.graph_url(found.workload)
                has_page = self._workloads.has(found.workload.name)
                told_of[each.findings.session].append(f"{graph} {has_page}")
        return {session: " ".join(names) for session, names in told_of.items()}

    def _fixed(self) -> Iterator[File]:
        yield "style.css", self._render.style()
        for name in SCRIPTS:
            yield name, (TEMPLATES / name).read_bytes()

    def _lists(self) -> Iterator[File]:
        """The list of culprits, page by page, the list of sessions, tables and feeds."""
        groups = by_commit(self._listed)
        pages = [groups[i : i + PAGE] for i in range(0, len(groups), PAGE)] or [()]
        names = ["index.html", *(f"page-{number}.html" for number in range(2, len(pages) + 1))]
        for number, (name, shown) in enumerate(zip(names, pages, strict=True)):
            listed = [change.entry for group in shown for change in group]
            yield (
                name,
                self._render(
                    "index.html",
                    name,
                    groups=shown,
                    here="culprits",
                    kinds=sorted({account.kind(entry.culprit) for entry in listed}),
                    largest=largest(listed),
                    names=names,
                    number=number,
                    problems=self._edition.problems if number == 0 else (),
                    recent=self._sessions[:RECENT] if number == 0 else (),
                    sessions=self._sessions,
                    total=len(self._latest),
                    commits=len(groups),
                    workloads=sorted({entry.found.workload.name for entry in listed}),
                ),
            )
        yield (
            "sessions.html",
            self._render(
                "sessions.html",
                "sessions.html",
                sessions=self._sessions,
                problems=self._edition.problems,
                here="sessions",
            ),
        )
        title = f"Culprits of {self._site.project}"
        yield from tables.files(exports.culprits("culprits", title, self._listed))
        yield "feed.xml", feeds.atom(self._listed, self._site)
        yield "feed.json", feeds.json_feed(self._listed, self._site)

    def _session(self, each: Told) -> Iterator[File]:
        """A session's page, its figures and reports, and the pages of its culprits."""
        findings = each.findings
        folder = home(findings)
        yield f"{folder}/report.json", jsonreport.render(findings).encode()
        yield f"{folder}/report.md", markdown.render(findings).encode("utf-8", "replace")
        yield f"{folder}/comment.md", comment.render(findings).encode("utf-8", "replace")
        yield f"{folder}/junit.xml", junit.render(findings).encode("utf-8", "replace")
        yield from tables.files(exports.session_probes(f"{folder}/probes", each))
        pictures: dict[str, Markup] = {}
        for number, found in enumerate(findings.workloads):
            where = figures_path(findings, found)
            drawn = figures.levels_figure(findings, found, self._site.commit_url)
            words = figures.alt_text(findings, found)
            yield from self._figure(pictures, f"{where}/levels", f"levels{number}", drawn, words)
            sums = drawings.waterfall_figure(findings, found, self._site.commit_url)
            if sums is not None:
                words = drawings.waterfall_words(findings, found)
                yield from self._figure(pictures, f"{where}/sums", f"sums{number}", sums, words)
        path = f"{folder}/index.html"
        yield path, self._session_page(each, path, pictures)
        for index, entry in enumerate(self._listed):
            if entry.findings is findings:
                yield from self._culprit(entry, index, pictures)

    def _figure(
        self,
        pictures: dict[str, Markup],
        path: str,
        name: str,
        drawn: Figure,
        words: str,
    ) -> Iterator[File]:
        """A figure as SVG and PNG, and as part of pages under its path."""
        picture = figures.svg(drawn)
        # Escaped where it came from: it is matplotlib's own XML.
        inside = figures.inside_page(picture, name, words)
        pictures[path] = Markup(inside.decode("utf-8"))
        yield f"{path}.svg", picture
        yield f"{path}.png", figures.png(drawn, dpi=110)

    def _session_page(self, each: Told, path: str, pictures: Mapping[str, Markup]) -> bytes:
        findings = each.findings
        return self._render(
            "session.html",
            path,
            findings=findings,
            here="sessions",
            told=each,
            probes=told.probes(each.session),
            expenses=told.expenses(each),
            commits=told.commits(each),
            multiples=self._multiples(each),
            pictures=pictures,
            figures_path=figures_path,
            has_page=self._workloads.has,
            comparison=self._comparisons.path(findings.range.baseline.sha, findings.range.tip.sha),
        )

    def _multiples(self, each: Told) -> Mapping[str, Sequence[tuple[str, Markup]]]:
        """For each workload what was believed after so many runs."""
        shown = {}
        for found in each.findings.workloads:
            chosen = _kinds(each.findings, found)
            shown[found.workload.name] = [
                (
                    f"after {moment.runs} runs",
                    charts.beliefs_chart(moment.change[found.workload.name], chosen),
                )
                for moment in each.course
                if found.workload.name in moment.change
            ]
        return shown

    def _culprit(self, entry: Entry, index: int, pictures: Mapping[str, Markup]) -> Iterator[File]:
        """A culprit's page and the figures that are its own."""
        findings, found, culprit = entry.findings, entry.found, entry.culprit
        where = figures_path(findings, found)
        own = dict(pictures)
        stem = entry.path.removesuffix(".html")
        beliefs = drawings.posterior_figure(findings, found, culprit, self._site.commit_url)
        if beliefs is not None:
            words = drawings.posterior_words(findings, found, culprit)
            yield from self._figure(own, f"{stem}-beliefs", "beliefs", beliefs, words)
        explanation = culprit.explanation
        parts = drawings.operators_figure(explanation) if explanation else None
        if parts is not None and explanation is not None:
            words = drawings.operators_words(explanation)
            yield from self._figure(own, f"{stem}-parts", "parts", parts, words)
        group = [
            other
            for other in self._of_commit[culprit.commit.sha]
            if other.found.workload.name != found.workload.name
        ]
        yield (
            entry.path,
            self._render(
                "culprit.html",
                entry.path,
                entry=entry,
                findings=findings,
                found=found,
                culprit=culprit,
                here="culprits",
                where=where,
                stem=stem,
                pictures=own,
                elsewhere=group,
                explanation=explanation,
                touched=_touched(culprit),
                pull_request=self._site.pull_request(culprit.commit),
                comparison=self._comparisons.path(culprit.parent.sha, culprit.child.sha),
                has_page=self._workloads.has(found.workload.name),
                newer=self._listed[index - 1] if index else None,
                older=self._listed[index + 1] if index + 1 < len(self._listed) else None,
            ),
        )


def _kinds(findings: Findings, found: WorkloadFindings) -> list[str]:
    """For each position of the line what its culprit is, if it has one."""
    kinds = [""] * len(findings.range.line)
    for culprit in found.culprits:
        place = account.position_of(findings, culprit)
        if place is not None:
            kinds[place] = account.kind(culprit)
    return kinds


def _touched(culprit: Culprit) -> Sequence[tuple[str, str]]:
    """Each changed file of the commit, and what the workload has to do with it."""
    known = {
        touched.path: touched
        for touched in (culprit.explanation.touched if culprit.explanation else ())
    }
    rows = []
    for path in dict.fromkeys((*culprit.commit.paths, *known)):
        touched = known.get(path)
        if touched is None:
            words = ""
        elif touched.functions:
            words = f"runs {', '.join(touched.functions[:8])}"
        else:
            words = "executed" if touched.executed else "not executed"
        rows.append((path, words))
    return rows
