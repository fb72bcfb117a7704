"""``bisect --releases``: search the releases of a package index first, then offer the commits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from bisectorch.asv_plugin.workshop import Workshop
from bisectorch.build import release_versions
from bisectorch.errors import UsageError
from bisectorch.history import ReleaseHistory
from bisectorch.model import Findings


def on_releases(workshop: Workshop) -> Workshop:
    """The same workshop, on the releases that are both tagged and in the package index.

    Their wheels come by the ladder's WHEEL route, so each is proven to be the tagged commit's.
    UsageError where asv.conf.json does not say where wheels come from.
    """
    sources = workshop.settings.wheels
    if sources is None or not sources.releases:
        raise UsageError(
            "--releases needs to know whose: add to asv.conf.json's section bisectorch "
            '"wheels": {"project": "torch"}'
        )
    with tempfile.TemporaryDirectory() as scratch:
        listed = release_versions(sources, workshop.environment.python_executable, Path(scratch))
    final = {version for text in listed if (version := _final(text)) is not None}
    tagged: dict[str, str] = {}
    for sha, tags in workshop.history.tags().items():
        for tag in tags:
            named = sources.version_of(tag)
            if named and _final(named) in final:
                tagged[named] = sha
    return replace(workshop, history=ReleaseHistory(workshop.history, tagged))


def _final(text: str) -> Version | None:
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    return None if version.is_prerelease else Version(version.public)


def offers(workshop: Workshop, findings: Findings) -> Iterator[str]:
    """For each culprit among releases, the command that goes on among the commits between."""
    line = [commit.sha for commit in findings.range.line]
    subjects = {commit.sha: commit.subject for commit in findings.range.line}
    branch = workshop.conf.branches[0] or "HEAD"
    seen: set[tuple[str, str, str]] = set()
    for found in findings.workloads:
        for culprit in found.culprits:
            left = line[max(0, line.index(culprit.credible_set[0]) - 1)]
            right = culprit.credible_set[-1]
            ends = [workshop.history.fork(sha, branch) or sha for sha in (left, right)]
            if ends[0] == ends[1]:
                # Both releases came from one point: what differs lies on their own branch.
                ends = [left, right]
            if (ends[0], ends[1], found.workload.name) in seen:
                continue
            seen.add((ends[0], ends[1], found.workload.name))
            yield (
                f"between {subjects[left]} and {subjects[right]}: "
                f"bisectorch bisect {ends[0][:10]}..{ends[1][:10]} "
                f"-b '{found.workload.benchmark}'"
            )
