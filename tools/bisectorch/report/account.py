"""What every report says of a session's findings, before any of them words it."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bisectorch.model import (
    Cause,
    Commit,
    Culprit,
    Explanation,
    Findings,
    MachineState,
    Noise,
    Observation,
    Outcome,
    Verdict,
    WorkloadFindings,
)
from bisectorch.report import wording
from bisectorch.report.wording import (
    SHORT,
    count,
    day,
    digits_short,
    one_line,
    quantity,
    short,
    size_of,
)

_SHA = re.compile(r"\b[0-9a-f]{40,64}\b")


@dataclass(frozen=True)
class Row:
    """One line of the commit/time table; ``value`` is in the workload's unit, NaN if unknown."""

    label: str
    sha: str
    date_seconds: int
    value: float
    is_side: bool = False


@dataclass(frozen=True)
class Broken:
    """A commit that could not be built, imported or run, and why."""

    commit: Commit
    outcome: Outcome
    reason: str

    @property
    def why(self) -> str:
        """The outcome and its reason, in one line."""
        return f"{self.outcome.value}: {self.reason}" if self.reason else self.outcome.value


@dataclass(frozen=True)
class Measured:
    """A commit of the line with its runs, in the workload's unit; level NaN if unknown."""

    position: int
    commit: Commit
    values: tuple[float, ...]
    level: float
    level_interval: tuple[float, float]


def positions(findings: Findings) -> Mapping[str, int]:
    """Where each commit of the range stands on the line."""
    return {commit.sha: index for index, commit in enumerate(findings.range.line)}


def runs_of(observations: tuple[Observation, ...]) -> dict[str, tuple[float, ...]]:
    """The values of each measured commit's runs, in the order they were made."""
    values: dict[str, list[float]] = {}
    for observation in observations:
        if observation.runs:
            values.setdefault(observation.sha, []).extend(run.value for run in observation.runs)
    return {sha: tuple(found) for sha, found in values.items()}


def measured(findings: Findings, found: WorkloadFindings) -> tuple[Measured, ...]:
    """The measured commits of the line, oldest first."""
    runs = runs_of(found.observations)
    return tuple(
        Measured(index, commit, runs[commit.sha], *_level(found, index))
        for index, commit in enumerate(findings.range.line)
        if commit.sha in runs
    )


def _level(found: WorkloadFindings, index: int) -> tuple[float, tuple[float, float]]:
    posterior = found.posterior
    if posterior is None:
        return math.nan, (math.nan, math.nan)
    return math.exp(posterior.level[index]), (
        math.exp(posterior.level_low[index]),
        math.exp(posterior.level_high[index]),
    )


def broken(findings: Findings, found: WorkloadFindings) -> tuple[Broken, ...]:
    """The commits that gave no measurement, as they stand on the line; side branches last."""
    runs = runs_of(found.observations)
    known = {commit.sha: commit for commit in findings.range.line}
    failures = {
        observation.sha: observation
        for observation in found.observations
        if observation.outcome is not Outcome.MEASURED and observation.sha not in runs
    }
    order = positions(findings)
    return tuple(
        Broken(
            known.get(sha) or Commit(sha, (), "", 0, ""),
            failures[sha].outcome,
            failures[sha].reason,
        )
        for sha in sorted(failures, key=lambda sha: order.get(sha, len(order)))
    )


def position_of(findings: Findings, culprit: Culprit) -> int | None:
    """Where the culprit, or the merge that brought it in, stands on the line."""
    return positions(findings).get((culprit.merge or culprit.commit).sha)


def chronological(findings: Findings, found: WorkloadFindings) -> tuple[Culprit, ...]:
    """The culprits oldest first, as they stand on the line."""
    order = positions(findings)
    return tuple(
        sorted(
            found.culprits,
            key=lambda culprit: (
                order.get((culprit.merge or culprit.commit).sha, len(order)),
                culprit.commit.date_seconds,
            ),
        )
    )


def table(findings: Findings, found: WorkloadFindings) -> tuple[Row, ...]:
    """The published account's commit/time table: TO, FROM, then each culprit and its parent."""
    line = findings.range
    old, _, new = (name.strip() for name in line.spec.partition(".."))
    to = "TO" if not new or line.tip.sha.startswith(new) else new
    start = "FROM" if not old or line.baseline.sha.startswith(old) else old
    rows = [
        _end(found, to, line.tip, len(line.line) - 1),
        _end(found, start, line.baseline, 0),
    ]
    for culprit in chronological(findings, found):
        rows.extend(_pair(findings, culprit))
    return tuple(rows)


def _end(found: WorkloadFindings, name: str, commit: Commit, at: int) -> Row:
    level, _ = _level(found, at)
    values = runs_of(found.observations).get(commit.sha, ())
    if not values:
        level = math.nan
    elif math.isnan(level):
        level = statistics.median(values)
    label = f"{name} ({short(commit.sha)}, {day(commit.date_seconds)})"
    return Row(label, commit.sha, commit.date_seconds, level)


def _pair(findings: Findings, culprit: Culprit) -> Iterator[Row]:
    commit = culprit.commit
    label = f"{commit.subject} ({short(commit.sha)}, {day(commit.date_seconds)})"
    if culprit.child.sha != commit.sha:
        label += f", measured at {short(culprit.child.sha)}"
    yield Row(label, commit.sha, commit.date_seconds, culprit.child.level)
    parent = culprit.parent.sha
    label = "... its parent"
    if commit.parents and commit.parents[0] != parent:
        label = f"... the nearest measured before it ({short(parent)})"
    dates = {known.sha: known.date_seconds for known in findings.range.line}
    yield Row(label, parent, dates.get(parent, 0), culprit.parent.level, is_side=True)


def kind(culprit: Culprit) -> str:
    """``regression`` or ``improvement``."""
    return "regression" if culprit.is_regression else "improvement"


def explained(culprit: Culprit) -> Explanation | None:
    """The culprit's explanation when it has one that names causes, else None."""
    explanation = culprit.explanation
    return explanation if explanation is not None and explanation.causes else None


def cause_line(cause: Cause, step_seconds: float) -> str:
    """``Linear.backward (torch/nn/linear.py:16): new; +9.1 µs of +12.4 µs; calls 0 -> 1``."""
    place = f" ({cause.path}:{cause.line})" if cause.path else ""
    calls = (digits_short(number) for number in cause.calls)
    size = quantity(cause.seconds, "seconds", sign=True)
    why = f"{cause.why}; " if cause.why else ""
    of = quantity(step_seconds, "seconds", sign=True)
    return f"{cause.name}{place}: {why}{size} of {of}; calls {' -> '.join(calls)}"


def verdict_line(findings: Findings, found: WorkloadFindings) -> str:
    """The answer for one workload, in one line."""
    confidence = f"{findings.confidence * 100:g} %"
    if found.verdict is Verdict.CULPRITS:
        worse = sum(culprit.is_regression for culprit in found.culprits)
        better = len(found.culprits) - worse
        parts = [
            *([count(worse, "regression")] if worse else []),
            *([count(better, "improvement")] if better else []),
        ]
        return " and ".join(parts)
    if found.verdict is Verdict.NO_CHANGE:
        return f"no change of at least {size_of(found.limit)} ({confidence})"
    return f"inconclusive: {one_line(found.needed)}" if found.needed else "inconclusive"


def title(findings: Findings) -> str:
    """The range as it was written, with object names abbreviated."""
    return _SHA.sub(lambda found: found.group()[:SHORT], findings.range.spec)


def span(findings: Findings) -> str:
    """The commits searched, in one line."""
    line = findings.range
    return (
        f"{count(len(line.line) - 1, 'commit')}, "
        f"{day(line.baseline.date_seconds)} to {day(line.tip.date_seconds)}"
    )


def credible_commits(
    findings: Findings, found: WorkloadFindings, culprit: Culprit
) -> tuple[tuple[str, Commit | None, str], ...]:
    """The credible set: object name, the commit if it is known, and why it was not measured."""
    known = {commit.sha: commit for commit in findings.range.line}
    known[culprit.commit.sha] = culprit.commit  # it may lie on a side branch
    reasons = {item.commit.sha: item.why for item in broken(findings, found)}
    return tuple((sha, known.get(sha), reasons.get(sha, "")) for sha in culprit.credible_set)


def state_words(states: Sequence[MachineState]) -> str:
    """How the machine was over these blocks, in one line; empty where nothing is known."""
    kinds = (
        ("load", [state.load for state in states], "", 1),
        ("", [state.mhz for state in states], " MHz", 0),
        ("", [state.celsius for state in states], " °C", 0),
    )
    words = []
    for name, values, unit, decimals in kinds:
        known = [value for value in values if value is not None and math.isfinite(value)]
        if known:
            ends = [f"{end:.{decimals}f}" for end in (min(known), max(known))]
            words.append(f"{name} {'–'.join(dict.fromkeys(ends))}{unit}".strip())
    return ", ".join(words)


def conditions(findings: Findings) -> str:
    """What was measured with and how the machine was, in one line; empty for older logs."""
    facts = [f"{name} {one_line(text, 60)}" for name, text in findings.conditions.items()]
    return "; ".join([*facts, *filter(None, [state_words(findings.states)])])


def noise(found: WorkloadFindings) -> str:
    """How far runs spread, in one line; empty where too few were repeated to tell."""
    return noise_words(found.noise)


def noise_words(spread: Noise | None) -> str:
    """The noise in one line; empty where there is none."""
    if spread is None or not spread.run:
        return ""
    parts = [
        f"{wording.share_of(spread.within)} inside a process",
        f"{wording.share_of(spread.between)} between processes",
        *([f"{wording.share_of(spread.build)} between builds"] if spread.build is not None else []),
    ]
    return f"one run spreads by {wording.share_of(spread.run)}: {', '.join(parts)}"


def instructions(found: WorkloadFindings, culprit: Culprit) -> str:
    """The effect beside that on instructions, in one line; empty where they were not counted."""
    if culprit.instructions is None:
        return ""
    parent, child = culprit.instructions
    metric = "time" if found.workload.unit == "seconds" else found.workload.unit
    more = wording.percent(child / parent)
    return (
        f"{wording.percent(culprit.ratio)} {metric}, {more} instructions "
        f"({wording.quantity(parent, 'instructions')} before, "
        f"{wording.quantity(child, 'instructions')} after)"
    )


def ticket(findings: Findings) -> str:
    """What the session asked, in one line."""
    return (
        f"smallest step {size_of(findings.smallest_step)}, "
        f"confidence {findings.confidence * 100:g} %"
    )
