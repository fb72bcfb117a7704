"""The published site's own facts: where each page lies, and where its links lead.

Paths are permalinks: the same session, commit or workload has the same path in every publish.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from bisectorch.model import Commit, Culprit, Findings, Workload, WorkloadFindings
from bisectorch.report import account

RESERVED = frozenset({"workloads", "compare"})
"""Folders of ours that no session's may hide."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_GITHUB = re.compile(r"(https?://[^/]+/[^/]+/[^/]+)/commits?/?")
_GITLAB = re.compile(r"(https?://.+)/-/commit/?")
_NUMBER = re.compile(r"\((?:#|!)(\d{1,9})\)|\bpull request #(\d{1,9})\b", re.IGNORECASE)


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
        address: where the site's root will be served, for feeds; empty when that is not known.
        tags: the names of releases and other tags, by commit.
        places: where each commit stands in the history.
    """

    project: str
    show_commit_url: str = ""
    graph_url: Callable[[Workload], str | None] = lambda workload: None
    address: str = ""
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict)

    def commit_url(self, sha: str) -> str | None:
        """The commit's page in the project's forge, where there is one."""
        if urlsplit(self.show_commit_url).scheme not in {"http", "https"}:
            return None
        return self.show_commit_url + quote(sha, safe="")

    def pull_request(self, commit: Commit) -> tuple[str, str | None] | None:
        """The pull or merge request that the subject names: what it is called, and its page."""
        found = _NUMBER.search(commit.subject[:500])
        if not found:
            return None
        number = found[1] or found[2]
        if forge := _GITLAB.fullmatch(self.show_commit_url):
            return f"!{number}", f"{forge[1]}/-/merge_requests/{number}"
        if forge := _GITHUB.fullmatch(self.show_commit_url):
            return f"#{number}", f"{forge[1]}/pull/{number}"
        return f"#{number}", None

    def label(self, sha: str) -> str:
        """The commit's tags in one line; empty where it has none."""
        return ", ".join(self.tags.get(sha, ()))


@dataclass(frozen=True)
class Entry:
    """One culprit on the site, with its page's path below the pages' folder."""

    findings: Findings
    found: WorkloadFindings
    culprit: Culprit
    path: str


def slug(text: str) -> str:
    """A name for a file or folder that stays the same for the same text and is safe anywhere."""
    safe = _UNSAFE.sub("-", text).strip("-.")
    if text and safe == text and len(safe) <= 80:
        return safe
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{safe[:80]}-{mark}".lstrip("-")


def home(findings: Findings) -> str:
    """The folder of a session."""
    name = slug(findings.session)
    return f"{name}-session" if name in RESERVED else name


def figures_path(findings: Findings, found: WorkloadFindings) -> str:
    """The folder of a session's workload: its figures and culprits."""
    return f"{home(findings)}/{slug(found.workload.name)}"


def culprit_path(findings: Findings, found: WorkloadFindings, culprit: Culprit) -> str:
    """Where a culprit's page lies below the pages' folder; it never moves."""
    return f"{figures_path(findings, found)}/{slug(culprit.commit.sha)}.html"


def workload_path(name: str) -> str:
    """Where a workload's page lies, by its name with parameters."""
    return f"workloads/{slug(name)}.html"


def comparison_path(before: str, after: str) -> str:
    """Where the comparison of two commits lies."""
    return f"compare/{slug(before[:12])}-{slug(after[:12])}.html"


def entries(sessions: Sequence[Findings]) -> tuple[Entry, ...]:
    """The culprits of all sessions in the sessions' order, the newest commits first."""
    return tuple(
        Entry(findings, found, culprit, culprit_path(findings, found, culprit))
        for findings in sessions
        for found in findings.workloads
        for culprit in reversed(account.chronological(findings, found))
    )


@dataclass(frozen=True)
class Change:
    """What one commit did to one workload: the latest finding, and earlier sessions' findings."""

    entry: Entry
    earlier: tuple[Entry, ...] = ()


def by_commit(listed: Sequence[Entry]) -> tuple[tuple[Change, ...], ...]:
    """The culprits grouped by commit, the newest commit first; a change a workload.

    ``listed`` has the newest session first.
    """
    groups: dict[str, dict[str, list[Entry]]] = {}
    for entry in listed:
        group = groups.setdefault(entry.culprit.commit.sha, {})
        group.setdefault(entry.found.workload.name, []).append(entry)
    changes = [
        tuple(Change(found[0], tuple(found[1:])) for found in group.values())
        for group in groups.values()
    ]
    changes.sort(key=lambda group: group[0].entry.culprit.commit.date_seconds, reverse=True)
    return tuple(changes)


def latest(listed: Sequence[Entry]) -> tuple[Entry, ...]:
    """Each commit's change of each workload once, as the newest session found it."""
    return tuple(change.entry for group in by_commit(listed) for change in group)
