"""Comparisons of two measured commits: some made beforehand, the others by a small script.

A static site cannot compute when it is asked. So the values of every measured commit are
published, a script compares any two of them with the rules of :mod:`comparing`, and the pairs
that people ask for most have pages that need no script: consecutive releases, both sides of a
culprit, both ends of a session.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bisectorch.report import comparing, tables
from bisectorch.report.comparing import Comparison, Snapshot, Value
from bisectorch.report.jsonreport import instant
from bisectorch.report.parts import File, Parts
from bisectorch.report.render import Renderer
from bisectorch.report.site import Entry, Site, comparison_path, entries, slug
from bisectorch.report.told import Told

VERSION = 1
RELEASES = 20
"""Pairs of consecutive releases that get a page: the newest."""
CULPRITS = 200
"""Pairs around culprits and sessions that get a page: the newest."""
SECONDS = "seconds"
INDEX = "compare/index.html"
COMMITS = "compare/commits.json"


@dataclass(frozen=True)
class SnapshotSource:
    """What one results file says of one commit, loaded when it is published.

    Attributes:
        name: of the published file, safe and stable.
        place: where the commit stands in the history.
        mark: changes whenever the values do.
    """

    name: str
    commit: str
    date_seconds: float
    place: int
    machine: str
    environment: str
    mark: str
    load: Callable[[], Snapshot]

    @property
    def path(self) -> str:
        """Where its values are published, below the pages' folder."""
        return f"compare/data/{self.name}.json"


@dataclass(frozen=True)
class Pair:
    """Two commits that get a page, and why."""

    before: str
    after: str
    why: str


class Comparisons:
    """Every page of comparisons."""

    def __init__(
        self,
        render: Renderer,
        site: Site,
        sources: Sequence[SnapshotSource],
        sessions: Sequence[Told],
    ) -> None:
        self._render = render
        self._site = site
        self._sources = sources
        self._of_commit: dict[str, list[SnapshotSource]] = {}
        for source in sorted(sources, key=lambda s: s.place):
            self._of_commit.setdefault(source.commit, []).append(source)
        self._pairs = {(p.before, p.after): p for p in self._choose(sessions)}

    def _choose(self, sessions: Sequence[Told]) -> Iterator[Pair]:
        around = []
        listed: Sequence[Entry] = entries([each.findings for each in sessions])
        for entry in listed:
            culprit = entry.culprit
            why = f"{entry.found.workload.name}, culprit {culprit.commit.sha[:10]}"
            around.append(Pair(culprit.parent.sha, culprit.child.sha, why))
        for each in sessions:
            line = each.findings.range
            why = f"both ends of session {each.findings.session}"
            around.append(Pair(line.baseline.sha, line.tip.sha, why))
        yield from filter(self._is_comparable, around[:CULPRITS])
        tagged = [sha for sha in self._of_commit if self._site.label(sha)]
        for before, after in list(pairwise(tagged))[-RELEASES:]:
            pair = Pair(before, after, "consecutive releases")
            if self._is_comparable(pair):
                yield pair

    def _is_comparable(self, pair: Pair) -> bool:
        sides = [
            {(s.machine, s.environment) for s in self._of_commit.get(sha, ())}
            for sha in (pair.before, pair.after)
        ]
        return pair.before != pair.after and bool(sides[0] & sides[1])

    def path(self, before: str, after: str) -> str | None:
        """The page that compares these commits, if it is made beforehand."""
        return comparison_path(before, after) if (before, after) in self._pairs else None

    def write(self, parts: Parts, base: str) -> None:
        """Values, pages and the index, where they changed."""
        for source in self._sources:
            parts.part(
                f"snapshot {source.name}",
                f"{source.mark} {VERSION}",
                lambda s=source: [(s.path, _packed(s.load()))],  # type: ignore[misc]
            )
        for pair in self._pairs.values():
            involved = [*self._of_commit[pair.before], *self._of_commit[pair.after]]
            mark = f"{base} {pair} {[s.mark for s in involved]} {self._labels(pair)}"
            parts.part(
                f"comparison {pair.before} {pair.after}",
                mark,
                lambda p=pair: self._page(p, parts),  # type: ignore[misc]
            )
        names = sorted(source.name for source in self._sources)
        mark = f"{base} {names} {list(self._pairs)} {dict(self._site.tags)}"
        parts.part("comparisons", mark, self._index)

    def _labels(self, pair: Pair) -> tuple[str, str]:
        return self._site.label(pair.before), self._site.label(pair.after)

    def _index(self) -> Iterator[File]:
        commits = [
            {
                "commit": sha,
                "date": instant(sources[0].date_seconds),
                "tags": list(self._site.tags.get(sha, ())),
                "files": [[s.machine, s.environment, s.path.partition("/")[2]] for s in sources],
            }
            for sha, sources in self._of_commit.items()
        ]
        content = {"version": VERSION, "relevant": comparing.RELEVANT, "commits": commits}
        yield COMMITS, json.dumps(content, separators=(",", ":")).encode("ascii")
        pairs = sorted(
            self._pairs.values(), key=lambda p: self._site.places.get(p.after, 0), reverse=True
        )
        dates = {sha: sources[0].date_seconds for sha, sources in self._of_commit.items()}
        yield (
            INDEX,
            self._render(
                "compare.html",
                INDEX,
                pairs=pairs,
                dates=dates,
                page_of=comparison_path,
                commits=len(commits),
                here="compare",
                relevant=comparing.RELEVANT,
            ),
        )

    def _page(self, pair: Pair, parts: Parts) -> Iterator[File]:
        before, after = (
            [_unpacked(json.loads(parts.read(s.path))) for s in self._of_commit[sha]]
            for sha in (pair.before, pair.after)
        )
        path = comparison_path(pair.before, pair.after)
        compared = [comparing.compare(a, b) for a, b in comparing.pairs(before, after)]
        yield (
            path,
            self._render(
                "comparison.html",
                path,
                pair=pair,
                before=before[0],
                after=after[0],
                compared=compared,
                left_out=comparing.only_one_side(before, after),
                stem=path.rpartition("/")[2].removesuffix(".html"),
                here="compare",
                relevant=comparing.RELEVANT,
            ),
        )
        yield from tables.files(_table(path.removesuffix(".html"), pair, compared))


def _table(name: str, pair: Pair, compared: Sequence[Comparison]) -> tables.Table:
    return tables.Table(
        name,
        f"{pair.before[:10]} and {pair.after[:10]}",
        (
            "machine",
            "environment",
            "workload",
            "change",
            "before",
            "after",
            "ratio",
            "ratio_low",
            "ratio_high",
            "reason",
        ),
        tuple(
            (
                each.after.machine,
                each.after.environment,
                row.workload,
                row.change.value,
                row.before.value if row.before else None,
                row.after.value if row.after else None,
                row.ratio,
                row.low,
                row.high,
                row.reason,
            )
            for each in compared
            for row in each.rows
        ),
    )


def _packed(snapshot: Snapshot) -> bytes:
    """A snapshot as the site publishes it: a number is null where it is not known."""
    content = {
        "version": VERSION,
        "commit": snapshot.commit,
        "date": instant(snapshot.date_seconds),
        "date_seconds": snapshot.date_seconds,
        "machine": snapshot.machine,
        "environment": snapshot.environment,
        "values": {
            name: None
            if value is None
            else [n if math.isfinite(n) else None for n in (value.value, value.low, value.high)]
            for name, value in snapshot.values.items()
        },
        "units": {
            name: value.unit
            for name, value in snapshot.values.items()
            if value is not None and value.unit != SECONDS
        },
        "stale": sorted(snapshot.stale),
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def _unpacked(content: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        content["commit"],
        content["date_seconds"],
        content["machine"],
        content["environment"],
        {
            name: None if value is None else _value(value, content["units"].get(name, SECONDS))
            for name, value in content["values"].items()
        },
        frozenset(content["stale"]),
    )


def _value(numbers: Sequence[float | None], unit: str) -> Value:
    value, low, high = (math.nan if number is None else number for number in numbers)
    return Value(value, low, high, unit)


def source_name(machine: str, commit: str, environment: str) -> str:
    """The name under which a commit's values on a machine are published."""
    return slug(f"{commit[:12]}-{machine}-{environment}")
