"""``bisectorch versus --exec``: a plain command on two sides, made for ``git bisect run``."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisectorch.errors import BisectorchError, EnvironmentFailure, UsageError
from bisectorch.history import GitHistory, PathClasses
from bisectorch.history.checkouts import checkout, top_of
from bisectorch.measure.child import Fault
from bisectorch.measure.commands import CommandMeasurer, Metric, run_command
from bisectorch.model import (
    Build,
    Commit,
    CommitRange,
    Event,
    Judgement,
    Route,
    Session,
    SessionHeader,
    Versus,
    Workload,
)
from bisectorch.report.progress import ConsoleReporter
from bisectorch.search.verdict import SequentialJudge
from bisectorch.versus import compare

GOOD, BAD, SKIP, STOP = 0, 1, 125, 128
"""What ``git bisect run`` understands; it stops at 128 and more, where nothing can be said."""

WORKING_TREE = "."
BLOCKS_WORTH = 12
"""A slow command may take so many blocks, where no time was said."""

LEAST_SECONDS = 30.0


class Skipped(Exception):
    """The new side cannot be judged."""


@dataclass(frozen=True)
class _Side:
    name: str
    commit: Commit
    directory: Path


class _Kept:
    """A recorder in memory: there is no asv project to keep anything in."""

    def append(self, event: Event) -> None:
        """Nothing is resumed."""


@contextlib.contextmanager
def stopping_bisect() -> Iterator[None]:
    """Our faults in a form at which ``git bisect run`` stops, instead of calling commits bad."""
    try:
        yield
    except BisectorchError as error:
        error.exit_code = STOP
        raise


def compare_plain(args: argparse.Namespace, reporter: ConsoleReporter) -> Versus:
    """Run the command on both sides until the answer is there.

    Raises Skipped when the new side cannot be built or run; BisectorchError when the old one
    cannot, or the request makes no sense.
    """
    top = top_of(Path.cwd())
    below = Path.cwd().relative_to(top)
    old, new = _sides(args, top)
    workload = Workload(args.exec, timeout_seconds=args.timeout)
    if args.unit:
        workload = Workload(args.exec, unit=args.unit, timeout_seconds=args.timeout)
    known = {} if args.baseline is None else {old.commit.sha: args.baseline}
    core = (args.attribute or {}).get("cpu_affinity", [None])[0]
    metric = Metric.PRINTED if args.unit else Metric.CPU if args.cpu_time else Metric.WALL
    measurer = CommandMeasurer(metric=metric, core=core, known=known)
    builds = []
    slowest = 0.0
    for side in (old, new):
        build = Build(side.commit.sha, Route.CACHED, str(side.directory / below), "")
        builds.append(build)
        if side.commit.sha in known:
            continue
        try:
            if args.build:
                _build(side, args.build, reporter)
            reporter.progress(f"warming up: {side.name}")
            slowest = max(slowest, measurer.warm_up(build, workload))
        except Fault as fault:
            said = f"{side.name}: {fault.outcome.value}: {fault.reason}"
            if side is new:
                raise Skipped(said) from fault
            raise EnvironmentFailure(f"the old side cannot be run: {said}") from fault
    seconds = args.seconds
    if seconds is None:
        seconds = max(LEAST_SECONDS, BLOCKS_WORTH * 2 * slowest)
    return compare(
        Session(_header(args, old, new, workload), ()),
        (builds[0], builds[1]),
        measurer=measurer,
        judge=SequentialJudge(args.smallest_step, args.confidence, args.false_rate),
        recorder=_Kept(),
        reporter=reporter,
        seconds=seconds,
    )


def exit_code(found: Versus, *, invert: bool) -> int:
    """0 good, 1 bad (by at least the smallest step), 125 where it cannot be said."""
    (comparison,) = found.comparisons
    if comparison.judgement is Judgement.UNKNOWN or math.isnan(comparison.ratio):
        return SKIP
    wrong = comparison.is_relevant and (comparison.ratio < 1.0 if invert else comparison.is_worse)
    return BAD if wrong else GOOD


def _sides(args: argparse.Namespace, top: Path) -> tuple[_Side, _Side]:
    history = GitHistory(top, PathClasses())
    names = [args.old, args.new]
    if args.baseline is not None:
        if args.new is not None:
            raise UsageError("--baseline stands for OLD: name the new side alone")
        baseline = _note("baseline", f"{args.baseline:g}")
        names = ["baseline", args.old]
    elif args.old is None:
        raise UsageError("say what to compare with: OLD, or --baseline VALUE")
    sides: list[_Side] = []
    for name in names:
        if args.baseline is not None and not sides:
            sides.append(_Side("baseline", baseline, top))
        elif name in (None, WORKING_TREE):
            head = history.commit("HEAD")
            commit = _note("worktree", f"on {head.sha[:10]} {head.subject}")
            sides.append(_Side("working tree", commit, top))
        else:
            commit = history.commit(name)
            sides.append(_Side(name, commit, checkout(top, commit.sha)))
    if sides[0].commit.sha == sides[1].commit.sha:
        raise UsageError(f"both sides are {sides[0].commit.sha[:10]}: name two")
    return sides[0], sides[1]


def _build(side: _Side, command: str, reporter: ConsoleReporter) -> None:
    """Make a side ready; a work tree of ours is made ready once for each command."""
    stamp = None
    if side.name != "working tree":
        digest = hashlib.sha256(command.encode()).hexdigest()[:12]
        stamp = side.directory.with_name(f"{side.directory.name}.{digest}.built")
        if stamp.exists():
            return
    reporter.progress(f"building: {side.name}")
    run_command(command, str(side.directory), timeout_seconds=None)
    if stamp is not None:
        stamp.touch()


def _note(sha: str, subject: str) -> Commit:
    return Commit(sha=sha, parents=(), author="", date_seconds=0, subject=subject)


def _header(args: argparse.Namespace, old: _Side, new: _Side, workload: Workload) -> SessionHeader:
    now = time.time()
    return SessionHeader(
        session="",
        created_seconds=now,
        range=CommitRange(f"{old.name} against {new.name}", (old.commit, new.commit)),
        workloads=(workload,),
        smallest_step=args.smallest_step,
        confidence=args.confidence,
        budget_seconds=args.budget,
        machine={},
        environment="",
        python="",
        project="",
        options={
            "old": old.name,
            "new": new.name,
            "false_rate": repr(args.false_rate),
        },
    )


def add_plain(parser: argparse.ArgumentParser) -> None:
    """What is asked of a plain command."""
    group = parser.add_argument_group(
        "a plain command",
        """With --exec no asv project is needed: the command runs in a checkout of each side, in
        turn, and its wall time is compared. Exit code, as git bisect run wants it: 0 good, 1
        bad, 125 cannot be said (the new side fails, or time is up), 128 anything else.""",
    )
    group.add_argument("--exec", metavar="CMD", help="The shell command to compare.")
    group.add_argument(
        "--build",
        metavar="CMD",
        help="Run in a side's root first; once a commit, if it is not `.`.",
    )
    group.add_argument(
        "--baseline",
        type=float,
        metavar="NUMBER",
        help="In place of OLD: seconds, or what the command printed then.",
    )
    how = group.add_mutually_exclusive_group()
    how.add_argument(
        "--cpu-time",
        action="store_true",
        help="Compare processor time, which a busy machine disturbs less, not wall time.",
    )
    how.add_argument(
        "--unit",
        metavar="UNIT",
        help="Compare the number on the command's last line, in this unit; smaller is better.",
    )
    group.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="For one run. Default: 600."
    )
    group.add_argument(
        "--invert", "-i", action="store_true", help="Bad is what got faster or smaller."
    )
    usual: Any = parser.error

    def refuse(message: str) -> Any:
        if any(word == "--exec" or word.startswith("--exec=") for word in sys.argv):
            parser.print_usage(sys.stderr)
            parser.exit(STOP, f"{parser.prog}: error: {message}\n")
        return usual(message)

    parser.error = refuse  # type: ignore[method-assign]
