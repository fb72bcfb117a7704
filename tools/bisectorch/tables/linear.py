"""A4: the Linear benchmark of PyTorch issue 2560, by commit, from a bisect session."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bisectorch.errors import UsageError
from bisectorch.model import Commit, Culprit, Findings, WorkloadFindings
from bisectorch.tables import account
from bisectorch.tables.bench import Bench
from bisectorch.tables.shapes import Column, Form, Kind, Row, Side, Table, job, ratio

CHAIN = "linear.Chain.time_backward"
CHAINS = 500
MASTER = "master (2017-11-28)"
RELEASE = "v0.1.12"


@dataclass(frozen=True)
class Levels:
    """What one session says about one Linear workload, in seconds as the account counts them.

    Attributes:
        findings: the session's.
        workload: the one that is shown: the chain where the session has it.
        scale: from one sample to the account's 500 chains; 1 for another workload.
    """

    findings: Findings
    workload: WorkloadFindings
    scale: float

    ADVICE: ClassVar[str] = (
        f"needs a session: bisectorch bisect FROM..TO -b {CHAIN}, then tables A4 --session NAME; "
        "or tables A4 --bisect FROM..TO"
    )

    @classmethod
    def of(cls, findings: Findings) -> Levels:
        """The chain's, or those of the session's first Linear workload; UsageError without one."""
        found = sorted(findings.workloads, key=lambda each: each.workload.benchmark != CHAIN)
        for each in found:
            if each.workload.benchmark.startswith("linear."):
                is_chain = each.workload.benchmark == CHAIN
                return cls(findings, each, CHAINS if is_chain else 1)
        raise UsageError(f"session {findings.session} holds no Linear benchmark: {cls.ADVICE}")

    @property
    def why(self) -> str:
        """Why the levels of both ends are not there; empty when they are."""
        if self.first is None or self.last is None:
            return f"session {self.findings.session} was stopped before it measured both ends"
        return ""

    def level(self, sha: str) -> float | None:
        """The median of a commit's runs."""
        values = [
            run.value
            for observation in self.workload.observations
            if observation.sha == sha
            for run in observation.runs
        ]
        return statistics.median(values) * self.scale if values else None

    @property
    def first(self) -> float | None:
        """The level at FROM."""
        return self.level(self.findings.range.baseline.sha)

    @property
    def last(self) -> float | None:
        """The level at TO."""
        return self.level(self.findings.range.tip.sha)

    @property
    def slowest(self) -> float | None:
        """The highest level that a culprit began."""
        sides = [culprit.child.level * self.scale for culprit in self.culprits]
        return max(sides) if sides else self.last

    @property
    def culprits(self) -> list[Culprit]:
        """Oldest first."""
        order = {commit.sha: place for place, commit in enumerate(self.findings.range.line)}

        def place(culprit: Culprit) -> int:
            at = culprit.merge or culprit.commit
            return order.get(at.sha, len(order))

        return sorted(self.workload.culprits, key=place)


def by_commit(bench: Bench | None, form: Form, levels: Levels | None) -> Table:
    """A4: FROM, every culprit with its parent, TO, and the torch at hand."""
    published = account.a("A4")
    unmatched = {each["commit"]: each for each in published["culprits"]}
    rows: list[Row] = []
    if levels is not None:
        matches = {c.commit.sha: _match(c.commit, unmatched) for c in levels.culprits}
        told_from = (
            published[RELEASE]
            if all(any(m and m["commit"] == each for m in matches.values()) for each in unmatched)
            else None
        )
        rows.append(_end("FROM", levels, levels.findings.range.baseline, told_from, RELEASE))
        for culprit in levels.culprits:
            told = matches[culprit.commit.sha]
            if told:
                unmatched.pop(told["commit"], None)
            rows += _pair(culprit, told, levels.scale)
        tip = levels.findings.range.tip
        is_master = time.gmtime(tip.date_seconds)[:2] == (2017, 11)
        rows.append(_end("TO", levels, tip, published[MASTER] if is_master else None, MASTER))
    else:
        rows.append(Row((RELEASE, published[RELEASE], None, None, None), Levels.ADVICE))
    for each in unmatched.values():
        why = Levels.ADVICE if levels is None else "no culprit of this session bears its name"
        name = f"{each['subject']} ({each['pull']}, {each['commit']}, {each['date']})"
        rows.append(Row((f"its parent: {name}", each["parent"], None, None, None), why))
        rows.append(Row((name, each["child"], None, each["child"] / each["parent"], None), why))
    if levels is None:
        rows.append(Row((MASTER, published[MASTER], None, None, None), Levels.ADVICE))
    if bench is not None:
        asked = job(Side.TORCH, "chain", count=20 if form is Form.SHORT else CHAINS)
        measured = bench.measure([asked])[asked]
        value = measured.value("backward")
        rows.append(Row(("the torch at hand", None, value, None, None), measured.why("backward")))
    columns = (
        Column("commit", Kind.NAME),
        Column("account", Kind.ACCOUNT, "s"),
        Column("ours", Kind.OURS, "s"),
        Column("to its parent, account", Kind.ACCOUNT_RATIO),
        Column("to its parent, ours", Kind.OURS_RATIO),
    )
    title = "The Linear benchmark of issue 2560 by commit"
    return Table("A4", title, account.source("A"), columns, tuple(rows), _notes(levels))


def _notes(levels: Levels | None) -> tuple[str, ...]:
    notes = [f"seconds for {CHAINS} backward passes through 100 fresh nn.Linear(100, 100)"]
    if levels is not None:
        findings, workload = levels.findings, levels.workload
        notes.append(
            f"session {findings.session}: {findings.range.spec}, {workload.verdict.value}, "
            f"smallest step {findings.smallest_step:.0%}, confidence {findings.confidence:.0%}"
        )
        if levels.scale == 1:
            notes.append(
                f"the session measured {workload.workload.name}, not {CHAIN}: "
                "its levels are one sample's, so compare the ratios"
            )
    return tuple(notes)


def _match(commit: Commit, published: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The account's culprit that this commit is, or re-enacts under its name."""
    for sha, each in published.items():
        if commit.sha.startswith(sha) or each["subject"].lower() in commit.subject.lower():
            found: Mapping[str, Any] = each
            return found
    return None


def _end(word: str, levels: Levels, commit: Commit, told: float | None, account_name: str) -> Row:
    name = f"{word}, {commit.sha[:10]}" + (f" (account: {account_name})" if told else "")
    ours = levels.level(commit.sha)
    return Row((name, told, ours, None, None), "" if ours is not None else levels.why)


def _pair(culprit: Culprit, told: Mapping[str, Any] | None, scale: float) -> list[Row]:
    commit, low_high = culprit.commit, culprit.ratio_interval
    parent, child = culprit.parent.level * scale, culprit.child.level * scale
    ours = f"{commit.subject} ({commit.sha[:10]}"
    ours += f", account: {told['pull']}, {told['commit']})" if told else ")"
    sure = (
        f"probability {culprit.probability:.3f}, ratio {low_high[0]:.3f} to {low_high[1]:.3f}"
        + (f", one of {len(culprit.credible_set)} commits" if len(culprit.credible_set) > 1 else "")
    )
    return [
        Row(("... its parent", told["parent"] if told else None, parent, None, None)),
        Row(
            (
                ours,
                told["child"] if told else None,
                child,
                ratio(told["child"], told["parent"]) if told else None,
                culprit.ratio,
            ),
            sure,
        ),
    ]
