"""The published pages: links that lead somewhere, text that stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bisectorch.errors import EnvironmentFailure
from bisectorch.model import Findings
from bisectorch.report import wording
from bisectorch.report.folder import Folder
from bisectorch.report.pages import Problem, Site, _Pages, entries, slug, write_pages
from bisectorch.report.parts import Made, Parts
from factories import CREATED, HOSTILE, make_findings, make_hostile_findings
from sites import SITE, explained, make_edition, write_site

VOID = {"meta", "link", "img", "br", "wbr", "input", "hr"}


class Page(HTMLParser):
    """A page's elements and text; fails on tags that do not match."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert not self._open, f"{path}: {self._open} never closed"

    def handle_starttag(self, tag: str, attrs: list) -> None:
        """An element opens."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        """An element of SVG that closes itself."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """An element closes: the last one that opened."""
        assert self._open.pop() == tag, f"{self.path}: </{tag}>"

    def handle_data(self, data: str) -> None:
        """Text that a reader sees."""
        self.text += data

    def urls(self) -> Iterator[str]:
        """Everything the page refers to."""
        for _, attributes in self.elements:
            for name in ("href", "src", "srcset"):
                if name in attributes:
                    yield attributes[name]


def publish(
    directory: Path, sessions: list[Findings], *args: object, results: bool = False
) -> list[Page]:
    """The parsed pages of these sessions; with ``results`` those of asv's results too."""
    written = write_site(directory / "culprits", sessions, *(args or (SITE,)), results=results)
    return [Page(path) for path in written if path.suffix == ".html"]


def own_links(page: Page) -> list[str]:
    """Links to pages of culprits."""
    return [url for url in page.urls() if re.search(r"^[^:]*/[0-9a-f]{40}\.html$", url)]


def test_every_culprit_is_in_the_list_under_its_commit(tmp_path: Path) -> None:
    """The newest commit first; what an earlier session found too is one more link."""
    earlier = make_findings("a", CREATED - 1e6)
    index, *pages = publish(tmp_path, [earlier, make_findings()])
    newest, older = (
        [entry.path for entry in entries([findings])] for findings in (make_findings(), earlier)
    )
    by_date = sorted(
        zip(newest, older, entries([make_findings()]), strict=True),
        key=lambda both: -both[2].culprit.commit.date_seconds,
    )
    expected = [path for new, old, _ in by_date for path in (new, new, old)]
    assert own_links(index) == expected
    assert "3 changes" in index.text
    assert len([page for page in pages if re.fullmatch("[0-9a-f]{40}", page.path.stem)]) == 6


def test_one_commit_found_for_two_workloads_is_one_group(tmp_path: Path) -> None:
    """Its subject stands once, with a row a workload."""
    usual = make_findings()
    first = usual.workloads[0]
    other = replace(first.workload, benchmark="linear.Linear.time_forward")
    again = replace(first, workload=other, culprits=first.culprits[:1])
    index, *_ = publish(tmp_path, [replace(usual, workloads=(first, again))])
    subject = first.culprits[0].commit.subject
    assert index.text.count(subject) == 1
    assert "2 workloads" in index.text
    rows = [a for tag, a in index.elements if tag == "tr" and a.get("class") == "effect-row"]
    assert len(rows) == 4
    groups = [tag for tag, _ in index.elements if tag == "tbody"]
    assert len(groups) == 3 + 1  # and that of the sessions


def test_every_link_inside_the_site_leads_somewhere(tmp_path: Path) -> None:
    """No page refers to a file that was not written, nor to anything outside but commits."""
    (tmp_path / "index.html").write_text("asv's own")
    for page in publish(tmp_path, [make_findings(), make_hostile_findings()], results=True):
        for url in page.urls():
            parts = urlsplit(url)
            if parts.scheme in {"https", "data"}:
                assert url.startswith(("https://example.org/commit/", "data:,"))
            elif parts.path:
                target = (page.path.parent / unquote(parts.path)).resolve()
                assert target.is_file(), f"{page.path}: {url}"
                assert target.is_relative_to(tmp_path)


def test_pages_need_no_script_and_no_network(tmp_path: Path) -> None:
    """Scripts are files of ours; no event handler, no target of a form, nothing from elsewhere."""
    for page in publish(tmp_path, [make_findings(), make_hostile_findings()], results=True):
        for tag, attributes in page.elements:
            assert tag not in {"iframe", "object", "embed", "base"}
            assert not [name for name in attributes if name.startswith("on")]
            assert not {"action", "formaction"} & attributes.keys()
            if tag == "script":
                assert re.fullmatch(r"(\.\./)*(site|compare)\.js", attributes["src"])
            if tag in {"img", "link", "script"}:
                source = attributes.get("src") or attributes.get("href", "")
                assert not urlsplit(source).netloc
    style = (tmp_path / "culprits" / "style.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    """The subject stands on its page whole, spelt out, with no element born from it."""
    usual = publish(tmp_path / "usual", [make_findings()])
    pages = publish(tmp_path / "hostile", [make_hostile_findings()])
    shown = wording.one_line(HOSTILE)
    assert any(shown in page.text for page in pages)
    assert "{{ 7*7 }}" in pages[0].text
    allowed = {tag for page in usual for tag, _ in page.elements}
    assert {tag for page in pages for tag, _ in page.elements} <= allowed
    for page in pages:
        assert "\u202e" not in page.path.read_text(encoding="utf-8")
        assert "\x1b" not in page.path.read_text(encoding="utf-8")


@pytest.mark.parametrize("url", ["javascript:alert(1)//", "data:text/html,", "#", "", "//x/"])
def test_only_web_addresses_are_linked_to(tmp_path: Path, url: str) -> None:
    """show_commit_url cannot smuggle in a script, and may be missing."""
    pages = publish(tmp_path, [make_findings()], Site("p", url))
    for page in pages:
        assert not [link for link in page.urls() if re.search("[0-9a-f]{40}$", link)]


def test_a_culprits_page_holds_every_fact(tmp_path: Path) -> None:
    """Effect, interval, probability, runs, credible set, command, links and neighbours."""
    findings = make_findings()
    culprit = findings.workloads[0].culprits[2]
    (page,) = [
        page for page in publish(tmp_path, [findings]) if page.path.stem == culprit.commit.sha
    ]
    for fact in (
        "+31.0 %",
        "[+29.0, +33.1] %",
        "×1.310",
        "97.2 %",
        "one of 3 commits",
        culprit.commit.author,
        culprit.command,
        "cannot import name 'matmul'",
        "... the nearest measured before it",
        "bench-1",
        "7 runs: 13.",
        "master (",
    ):
        assert fact in page.text, fact
    urls = list(page.urls())
    assert f"https://example.org/commit/{culprit.commit.sha}" in urls
    assert "../../../index.html#linear.Linear.time_backward" in urls
    around = [a for tag, a in page.elements if tag == "a" and a.get("rel") in {"prev", "next"}]
    assert [Path(a["href"]).stem for a in around] == [
        findings.workloads[0].culprits[0].commit.sha,
        findings.workloads[0].culprits[1].commit.sha,
    ]
    words = [a.get("aria-label", "") for tag, a in page.elements if tag == "svg"]
    assert any("91 runs of 13 commits" in each and "+31.0 %" in each for each in words)
    assert "https://example.org/commit/" in "".join(
        a.get("xlink:href", "") for tag, a in page.elements if tag == "a"
    )
    assert "#1935" in page.text
    assert "torch/nn/functional.py" in page.text


def test_sessions_without_culprits_and_broken_logs_are_listed(tmp_path: Path) -> None:
    """No change and inconclusive are answers; a log left out is said so."""
    usual = make_findings()
    quiet = replace(usual, workloads=usual.workloads[1:], finished=False)
    index, *_ = publish(tmp_path, [quiet], SITE, [Problem("<b>.jsonl", "line 3 is corrupt")])
    for fact in (
        "No culprit in 1 session.",
        "no change of at least 2.1 % (95 %)",
        "inconclusive: about 40 more runs",
        "unfinished",
        "<b>.jsonl",
        "line 3 is corrupt",
    ):
        assert fact in index.text, fact


def test_a_site_without_sessions_says_how_to_begin(tmp_path: Path) -> None:
    """The page exists before anything is bisected."""
    index, *_ = publish(tmp_path, [])
    assert "bisectorch bisect" in index.text


def test_reports_lie_beside_the_session(tmp_path: Path) -> None:
    """JSON and markdown, for programs and for pasting."""
    publish(tmp_path, [make_findings()])
    home = tmp_path / "culprits" / make_findings().session
    assert (home / "report.json").read_text().startswith('{\n  "version": 1')
    assert (home / "report.md").read_text(encoding="utf-8").startswith("# v0.1.12..master")
    assert (home / "comment.md").read_text(encoding="utf-8").startswith("### Performance: ")
    assert "<testsuites>" in (home / "junit.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    ["../../etc/passwd", "", ".", "..", "a/b", "a\\b", "a\0b", "é" * 300, "a b", "CON?", "-x"],
)
def test_slugs_are_safe_and_distinct(text: str) -> None:
    """No slug leaves its folder, and different texts have different slugs."""
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}", slug(text))
    assert slug(text) == slug(text)
    assert slug(text) != slug(text + "x")
    assert slug("a b") != slug("a-b") == "a-b"


def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    """A file where the folder should be stands for it."""
    (tmp_path / "culprits").write_text("")
    with pytest.raises(EnvironmentFailure, match="cannot write"):
        publish(tmp_path, [])


def test_pages_are_deterministic(tmp_path: Path) -> None:
    """The same sessions give the same bytes."""
    one = write_site(tmp_path / "1", [make_findings()])
    two = write_site(tmp_path / "2", [make_findings()])
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_an_explained_culprit_names_its_first_cause(tmp_path: Path) -> None:
    """What grew, its share, what stays unexplained, and which changed files ran."""
    findings = explained(make_findings())
    culprit = findings.workloads[0].culprits[0]
    (page,) = [
        page for page in publish(tmp_path, [findings]) if page.path.stem == culprit.commit.sha
    ]
    why = page.text.partition("Why")[2]
    for fact in ("Linear.forward", "74 %", "unexplained", "14 %", "1 → 3", "not executed"):
        assert fact in why, fact
    assert any("aten::op0" in a.get("aria-label", "") for tag, a in page.elements if tag == "svg")


def written(tmp_path: Path, findings: list[Findings], known: Made) -> tuple[Folder, Made]:
    """One more publish into the same folder."""
    folder = Folder(tmp_path)
    edition = make_edition(findings, results=False)
    return folder, write_pages(edition, folder, "culprits/", known)


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    """A new session costs its own pages, its neighbours' and the lists."""
    earlier = make_findings("a", CREATED - 1e6)
    first, known = written(tmp_path, [earlier], {})
    again, known = written(tmp_path, [earlier], known)
    assert again.written == 0
    assert again.names == first.names
    more, known = written(tmp_path, [earlier, make_findings()], known)
    new = make_findings().session
    fresh = {name for name in more.names if name.startswith(f"culprits/{new}/")}
    assert len(fresh) > 20
    assert more.written <= len(fresh) + 25
    (tmp_path / "culprits" / new / "report.json").unlink()
    healed, _ = written(tmp_path, [earlier, make_findings()], known)
    assert (tmp_path / "culprits" / new / "report.json").is_file()
    assert healed.written == 1


def test_long_lists_are_split(tmp_path: Path) -> None:
    """No page outgrows what a reader wants to load; every culprit is on one of them."""
    sessions = []
    for number in range(60):
        usual = make_findings(f"s{number:02}", CREATED + number)
        first = usual.workloads[0]
        culprits = tuple(
            replace(c, commit=replace(c.commit, sha=f"{number:02}{c.commit.sha[2:]}"))
            for c in first.culprits
        )
        sessions.append(replace(usual, workloads=(replace(first, culprits=culprits),)))
    edition = make_edition(sessions, results=False)
    names = [name for name, _ in _Pages(edition, Parts(Folder(tmp_path), "", {}))._lists()]
    contents = dict(_Pages(edition, Parts(Folder(tmp_path), "", {}))._lists())
    assert [name for name in names if name.endswith(".html")][:2] == ["index.html", "page-2.html"]
    assert all(len(content) < 500_000 for content in contents.values())
    rows = sum(contents[name].count(b"effect-row") for name in ("index.html", "page-2.html"))
    assert rows == 180
    assert b"page-2.html" in contents["index.html"]
