"""How a range divides, and what builds of all of it would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bisectorch.asv_plugin.doctor.finding import Finding, note, ok
from bisectorch.model import CommitRange, PathClass


@dataclass(frozen=True)
class Division:
    """How a range divides, and what builds of all of it would cost.

    Attributes:
        commits: how many, the baseline included.
        classes: commits by class, the baseline left out.
        fingerprints: different native states.
        merges: commits that brought in a side branch.
    """

    commits: int
    classes: Counter[PathClass]
    fingerprints: int
    merges: int


def divide(found: CommitRange) -> Division:
    """Count a range."""
    return Division(
        commits=len(found.line),
        classes=Counter(commit.path_class for commit in found.line[1:]),
        fingerprints=len({commit.fingerprint for commit in found.line}),
        merges=sum(len(commit.parents) > 1 for commit in found.line),
    )


def describe(division: Division, seconds_a_build: float, is_known: bool) -> Iterator[Finding]:
    """The division in words, and what it costs to build it all."""
    count = division.classes
    yield ok(
        f"{division.commits} commits with the baseline; after it {count[PathClass.NATIVE]} native, "
        f"{count[PathClass.PYTHON]} Python only, {count[PathClass.IRRELEVANT]} irrelevant; "
        f"{division.merges} of them merges"
    )
    hours = division.fingerprints * seconds_a_build / 3600
    ground = "as builds took so far" if is_known else "at a first guess"
    yield note(
        f"{division.fingerprints} native states; to build them all would take {hours:.1f} h "
        f"({ground}, {seconds_a_build:.0f} s each); a bisection builds a fraction"
    )
