"""What ``watch`` knows of a branch between its calls, and what one call does with it.

For each workload there is the newest commit whose level is known. A call compares the branch's
tip with it; where they differ, the commits between are bisected; then the tip takes its place.
All that must outlive a kill is in one small file, written whole.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from bisectorch.errors import EnvironmentFailure, LogError, UsageError
from bisectorch.model import (
    Commit,
    CommitRange,
    Culprit,
    Findings,
    Outcome,
    PathClass,
    Verdict,
    Workload,
    WorkloadFindings,
)
from bisectorch.seams import History, Reporter

VERSION = 1
MOST_TRIES = 3
"""A workload that stays inconclusive so often is too noisy for its step: the watch goes on."""

DAYS_KEPT = 31

Study = Callable[[CommitRange, Sequence[Workload], "float | None", str], Findings]
"""Bisects a range for some workloads within so many seconds; the text says what for."""

Tell = Callable[["News"], bool]
"""Tells somebody; False when they could not be told, and are to be told again."""


@dataclass
class Known:
    """A change that was found.

    Attributes:
        workload: whose.
        commit, subject: the change point.
        ratio: new level over old level.
        session: the session that found it.
        found_seconds: when, seconds since the epoch.
        closed_by: the commit that undid it, or empty.
        told: what has been told of it, "", "found" or "closed".
    """

    workload: str
    commit: str
    subject: str
    ratio: float
    session: str
    found_seconds: float
    closed_by: str = ""
    told: str = ""

    @property
    def is_regression(self) -> bool:
        """The metric grew."""
        return self.ratio > 1.0


@dataclass(frozen=True)
class News:
    """Something that happened: ``found`` or ``closed``, and to what."""

    event: str
    known: Known


@dataclass
class State:
    """All that a watch of one branch remembers.

    Attributes:
        version: of this layout.
        branch: which.
        level_at: for each workload the newest commit whose level is known.
        tries: how often in a row a workload stayed inconclusive.
        known: every change found so far, oldest first.
        spent: seconds by day (UTC), for the budget.
        running: the session under way, to be gone on with after a kill.
    """

    version: int = VERSION
    branch: str = ""
    level_at: dict[str, str] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    known: list[Known] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    running: str = ""


def load_state(path: Path, branch: str) -> State:
    """What is remembered, or a fresh state; LogError for a file that is not one."""
    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State(branch=branch)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError(
            f"{path} is damaged ({error}): remove it, and the watch begins anew at the tip"
        ) from None
    if state.version > VERSION:
        raise LogError(f"{path} was written by a newer version of Bisectorch; upgrade to use it")
    return state


def save_state(path: Path, state: State) -> None:
    """Write it whole and durably; EnvironmentFailure when the disk refuses."""
    half = path.with_name(f"{path.name}.{os.getpid()}.half")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with half.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(state), indent=1))
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise EnvironmentFailure(
            f"{path} cannot be written: {error.strerror}; make room or mend the disk"
        ) from error


class Watch:
    """One call of ``watch``.

    Args:
        state: what is remembered; changed as things happen.
        save: writes it down.
        history: of the repository.
        study: makes a session of a range.
        tell: the hook.
        reporter: says what is going on.
        budget_seconds: for one day, None for any.
        smallest_step: relative; what counts as undone.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        state: State,
        save: Callable[[State], None],
        history: History,
        study: Study,
        tell: Tell,
        reporter: Reporter,
        *,
        budget_seconds: float | None,
        smallest_step: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.state = state
        self._save = save
        self._history = history
        self._study = study
        self._tell = tell
        self._reporter = reporter
        self._budget = budget_seconds
        self._step = smallest_step
        self._now = now

    def cycle(self, tip: Commit, workloads: Sequence[Workload]) -> bool:
        """Bring every workload's level up to the tip; returns whether all of them are there.

        They are not when the day's budget is spent or a workload stays inconclusive: the next
        call goes on.
        """
        begun: dict[str, list[Workload]] = {}
        for workload in workloads:
            since = self.state.level_at.setdefault(workload.name, tip.sha)
            begun.setdefault(since, []).append(workload)
        self._save(self.state)
        complete = True
        for since, some in begun.items():
            if since != tip.sha:
                complete &= self._catch_up(since, tip, some)
        self.tell_news()
        return complete

    def settle(self, findings: Findings) -> list[Workload]:
        """Take in a finished session; returns the workloads that moved and are to be bisected.

        Those are none where the session held every commit: what it found is then the answer.
        """
        moved = []
        tip = findings.range.tip.sha
        whole = is_whole(findings.range)
        for found in findings.workloads:
            name = found.workload.name
            if found.verdict is Verdict.CULPRITS and not whole:
                moved.append(found.workload)
                continue
            if found.verdict is Verdict.CULPRITS:
                for culprit in found.culprits:
                    self._add(found.workload, culprit, findings.session)
            elif found.verdict is Verdict.INCONCLUSIVE and not self._give_up(found, tip):
                continue
            self.state.level_at[name] = tip
            self.state.tries.pop(name, None)
        self.state.running = ""
        self._save(self.state)
        return moved

    def tell_news(self) -> None:
        """Tell what has not been told yet; what cannot be told is told again next time."""
        for known in self.state.known:
            if known.is_regression and not known.told and self._tell(News("found", known)):
                known.told = "found"
            if known.closed_by and known.told == "found" and self._tell(News("closed", known)):
                known.told = "closed"
        self._save(self.state)

    def save(self) -> None:
        """Write down what is remembered."""
        self._save(self.state)

    def _catch_up(self, since: str, tip: Commit, workloads: Sequence[Workload]) -> bool:
        try:
            commits = self._history.range(f"{since}..{tip.sha}")
        except UsageError as error:
            # Rewritten, or rewound: there is no line from there to here.
            self._reporter.found(f"begins anew at {tip.sha[:10]}: {error}")
            self._begin_at(tip, workloads)
            return True
        if all(commit.path_class is PathClass.IRRELEVANT for commit in commits.line[1:]):
            self._begin_at(tip, workloads)
            return True
        moved = self._run(ends_of(commits), workloads, "ends")
        if moved is None:
            return False
        if moved and self._run(commits, moved, "bisect") is None:
            return False
        return all(self.state.level_at[workload.name] == tip.sha for workload in workloads)

    def _run(
        self, commits: CommitRange, workloads: Sequence[Workload], stage: str
    ) -> list[Workload] | None:
        """One session; the workloads that moved, None when there is no time left today."""
        left = self.left_today()
        if left is not None and left <= 0:
            self._reporter.found("today's budget is spent; the next call goes on")
            return None
        try:
            findings = self._study(commits, workloads, left, stage)
        except UsageError as error:
            self._reporter.found(f"begins anew at {commits.tip.sha[:10]}: {error}")
            self._begin_at(commits.tip, workloads)
            return []
        self.spend(findings.cost.seconds)
        return self.settle(findings)

    def left_today(self) -> float | None:
        """The seconds of today's budget that are left, None for any."""
        if self._budget is None:
            return None
        return self._budget - self.state.spent.get(self._day(), 0.0)

    def spend(self, seconds: float) -> None:
        """Put it on today's account."""
        day = self._day()
        self.state.spent[day] = self.state.spent.get(day, 0.0) + seconds
        for old in sorted(self.state.spent)[:-DAYS_KEPT]:
            del self.state.spent[old]

    def _day(self) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(self._now()))

    def _begin_at(self, tip: Commit, workloads: Sequence[Workload]) -> None:
        for workload in workloads:
            self.state.level_at[workload.name] = tip.sha
            self.state.tries.pop(workload.name, None)
        self.state.running = ""
        self._save(self.state)

    def _give_up(self, found: WorkloadFindings, tip: str) -> bool:
        """Whether an inconclusive workload is left behind; not for a tip that does not work."""
        name = found.workload.name
        if any(
            seen.sha == tip and seen.outcome is not Outcome.MEASURED for seen in found.observations
        ):
            return False
        self.state.tries[name] = self.state.tries.get(name, 0) + 1
        if self.state.tries[name] < MOST_TRIES:
            return False
        self._reporter.found(
            f"{name} stayed inconclusive {MOST_TRIES} times up to {tip[:10]} and goes on from "
            f"there: {found.needed or 'it is too noisy for its smallest step'}"
        )
        return True

    def _add(self, workload: Workload, culprit: Culprit, session: str) -> None:
        sha = culprit.commit.sha
        if any(each.commit == sha and each.workload == workload.name for each in self.state.known):
            return
        for earlier in reversed(self.state.known):
            if self._is_undone(earlier, workload, culprit):
                earlier.closed_by = sha
                break
        self.state.known.append(
            Known(
                workload=workload.name,
                commit=sha,
                subject=culprit.commit.subject,
                ratio=culprit.ratio,
                session=session,
                found_seconds=self._now(),
            )
        )

    def _is_undone(self, earlier: Known, workload: Workload, culprit: Culprit) -> bool:
        """An open change of the same workload, whose level is now back where it was."""
        if earlier.workload != workload.name or earlier.closed_by:
            return False
        if (earlier.ratio > 1) == (culprit.ratio > 1):
            return False
        low, high = (math.log(ratio * earlier.ratio) for ratio in culprit.ratio_interval)
        step = math.log1p(self._step)
        return low <= step and high >= -step


def ends_of(commits: CommitRange) -> CommitRange:
    """The range as its two ends alone; what lies between counts as one change."""
    if len(commits.line) == 2:
        return commits
    inner = commits.line[1:]
    classes = {commit.path_class for commit in inner}
    strongest = next(each for each in PathClass if each in classes)
    paths = tuple(dict.fromkeys(path for commit in inner for path in commit.paths))
    tip = replace(commits.tip, path_class=strongest, paths=paths)
    return CommitRange(commits.spec, (commits.baseline, tip))


def is_whole(commits: CommitRange) -> bool:
    """Whether no commit of the line was left out."""
    return all(
        child.parents[:1] == (parent.sha,)
        for parent, child in zip(commits.line, commits.line[1:], strict=False)
    )
