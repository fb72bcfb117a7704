"""Feeds of culprits: Atom (RFC 4287) and JSON Feed 1.1.

An entry's identifier follows from commit and workload alone, so that a reader shows a culprit
once, however often it is found. Links are absolute where the site's address is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from bisectorch.report import account, wording
from bisectorch.report.jsonreport import instant
from bisectorch.report.site import Entry, Site, slug
from bisectorch.report.wording import one_line

LIMIT = 100
"""A feed holds the newest ones."""

_ATOM = "http://www.w3.org/2005/Atom"
_SUBJECT = 200


def newest(listed: Iterable[Entry]) -> tuple[Entry, ...]:
    """What a feed shows: each commit and workload once, as the latest session has it."""
    latest: dict[tuple[str, str], Entry] = {}
    for entry in sorted(listed, key=lambda e: e.findings.created_seconds):
        latest[entry.culprit.commit.sha, entry.found.workload.name] = entry
    order = sorted(latest.values(), key=lambda e: e.findings.created_seconds, reverse=True)
    return tuple(order[:LIMIT])


def atom(listed: Sequence[Entry], site: Site) -> bytes:
    """The Atom feed."""
    ElementTree.register_namespace("", _ATOM)
    feed = ElementTree.Element(f"{{{_ATOM}}}feed")
    shown = newest(listed)
    _text(feed, "id", _identifier(site, "feed"))
    _text(feed, "title", f"{_plain(site.project)}: culprits")
    _text(feed, "updated", _updated(shown[0]) if shown else "1970-01-01T00:00:00Z")
    _link(feed, "self", _address(site, "feed.xml"))
    _link(feed, "alternate", _address(site, "index.html"))
    for entry in shown:
        node = ElementTree.SubElement(feed, f"{{{_ATOM}}}entry")
        _text(node, "id", _entry_identifier(site, entry))
        _text(node, "title", _title(entry))
        _text(node, "updated", _updated(entry))
        _link(node, "alternate", _address(site, entry.path))
        author = ElementTree.SubElement(node, f"{{{_ATOM}}}author")
        _text(author, "name", _plain(entry.culprit.commit.author) or "unknown")
        _text(node, "summary", _summary(entry))
    return bytes(ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)) + b"\n"


def json_feed(listed: Sequence[Entry], site: Site) -> bytes:
    """The JSON Feed."""
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": f"{_plain(site.project)}: culprits",
        "home_page_url": _address(site, "index.html"),
        "feed_url": _address(site, "feed.json"),
        "items": [
            {
                "id": _entry_identifier(site, entry),
                "url": _address(site, entry.path),
                "title": _title(entry),
                "content_text": _summary(entry),
                "date_published": _updated(entry),
                "authors": [{"name": _plain(entry.culprit.commit.author)}],
                "tags": [account.kind(entry.culprit), _plain(entry.found.workload.name)],
            }
            for entry in newest(listed)
        ],
    }
    return (json.dumps(feed, indent=1) + "\n").encode("ascii")


def _title(entry: Entry) -> str:
    subject = one_line(entry.culprit.commit.subject, _SUBJECT)
    return _plain(f"{wording.percent(entry.culprit.ratio)} {entry.found.workload.name}: {subject}")


def _summary(entry: Entry) -> str:
    culprit, unit = entry.culprit, entry.found.workload.unit
    return _plain(
        f"{account.kind(culprit)} of {entry.found.workload.name} by {culprit.commit.sha[:10]}: "
        f"{wording.quantity(culprit.parent.level, unit)} to "
        f"{wording.quantity(culprit.child.level, unit)}, {wording.percent(culprit.ratio)} "
        f"{wording.percent_interval(culprit.ratio_interval)}, probability "
        f"{wording.share(culprit.probability)}."
    )


def _plain(text: str) -> str:
    """On one line, without what XML cannot hold."""
    return one_line(text).encode("utf-8", "replace").decode("utf-8")


def _updated(entry: Entry) -> str:
    return instant(entry.findings.created_seconds) or "1970-01-01T00:00:00Z"


def _address(site: Site, path: str) -> str:
    return f"{site.address.rstrip('/')}/culprits/{path}" if site.address else path


def _identifier(site: Site, what: str) -> str:
    return f"tag:{slug(site.project).lower() or 'project'}.bisectorch,2025:{what}"


def _entry_identifier(site: Site, entry: Entry) -> str:
    workload = slug(entry.found.workload.name)
    return _identifier(site, f"culprit/{slug(entry.culprit.commit.sha)}/{workload}")


def _text(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}").text = text


def _link(parent: ElementTree.Element, rel: str, href: str) -> None:
    ElementTree.SubElement(parent, f"{{{_ATOM}}}link", {"rel": rel, "href": href})
