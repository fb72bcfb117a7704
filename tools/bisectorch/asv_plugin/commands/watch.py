"""``bisectorch watch``: on new commits measure the tip, and bisect what moved. One call, one look.

Made for cron or a systemd timer: a call that finds another one running, or nothing new, or the
day's budget spent, ends at once; one that was killed is gone on with by the next.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock
from asv.commands import Command, common_args

from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.commands.outcome import finish_session
from bisectorch.asv_plugin.commands.publish import Publish
from bisectorch.asv_plugin.machine import identify
from bisectorch.asv_plugin.settings import Settings
from bisectorch.asv_plugin.watching import News, Watch, is_whole, load_state, save_state
from bisectorch.asv_plugin.workloads import discover
from bisectorch.asv_plugin.workshop import Workshop, findings_of, open_workshop
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.model import CommitRange, Findings, Session, SessionHeader, Workload
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.record import SessionLog, load, log_path

HOOK_SECONDS = 300
FOUND, NOTHING, UNFINISHED = 0, 1, 3


class WatchCommand(TeachingErrors, Command):  # type: ignore[misc]
    """Look at a branch's new commits, and bisect what moved."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """What bisect takes, with a day's budget and a hook."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "watch",
            help="Measure a branch's new commits and bisect what moved; for cron",
            description="""One look at a branch: compares its tip with what was measured last,
            bisects every workload that moved, and remembers what it found. Run it from cron or a
            systemd timer. Exit code: 0 something was found, 1 nothing, 2 usage, 3 not done yet
            (the day's budget, or inconclusive), 4 environment failure.""",
        )
        parser.add_argument(
            "branch",
            nargs="?",
            metavar="BRANCH",
            help="The branch to watch. Default: the first of asv.conf.json.",
        )
        common_args.add_bench(parser)
        arguments.add_smallest_step(parser)
        arguments.add_confidence(parser)
        parser.add_argument(
            "--budget",
            type=arguments.duration,
            metavar="TIME",
            help="Spend no more than this a day (UTC): 30m, 8h. Default: no limit.",
        )
        parser.add_argument(
            "--hook",
            metavar="COMMAND",
            help="""Run this for each regression that is found, or that a later commit undoes; it
            gets one JSON object on its input. No shell runs it.""",
        )
        parser.add_argument(
            "--publish", action="store_true", help="Publish the site whenever something is found."
        )
        arguments.add_building(parser)
        common_args.add_parallel(parser)
        arguments.add_cluster(parser)
        common_args.add_machine(parser)
        common_args.add_environment(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """One look."""
        settings = Settings.from_conf(conf)
        branch = args.branch or conf.branches[0] or "HEAD"
        if branch.startswith("-"):
            raise UsageError(f"{branch!r} is not a branch")
        if not args.bench:
            raise UsageError("say which benchmarks to watch with -b REGEX")
        folder = Path(settings.sessions_dir) / "watch"
        path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', branch)}.json"
        with (
            ConsoleReporter(sys.stderr) as reporter,
            contextlib.redirect_stdout(sys.stderr),
            _alone(path) as is_alone,
        ):
            if not is_alone:
                reporter.found(f"another watch of {branch} is running")
                return NOTHING
            code = _look(conf, args, branch, path, reporter)
            if args.publish and code == FOUND:
                Publish.run(conf, pull=False)
            return code


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """One at a time; a lock that dies with its process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(f"{path}.lock", timeout=0)
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    except OSError as error:
        raise EnvironmentFailure(f"{path.parent} cannot be written: {error.strerror}") from error
    try:
        yield True
    finally:
        lock.release()


def _look(
    conf: Any, args: argparse.Namespace, branch: str, path: Path, reporter: ConsoleReporter
) -> int:
    arguments.apply_building(conf, args)
    workshop = open_workshop(conf, args.env_spec, reporter)
    tip = workshop.history.commit(_tip_of(workshop, branch))
    state = load_state(path, branch)
    studio = _Studio(workshop, args, reporter)
    watch = Watch(
        state,
        lambda changed: save_state(path, changed),
        workshop.history,
        lambda *asked: studio.study(watch, *asked),
        lambda news: _hook(args.hook, news, reporter),
        reporter,
        budget_seconds=args.budget,
        smallest_step=args.smallest_step,
    )
    if not state.running and set(state.level_at.values()) == {tip.sha}:
        reporter.progress(f"nothing new on {branch}")
        watch.tell_news()
        return NOTHING
    reporter.progress("discovering benchmarks")
    tried = list(dict.fromkeys([tip.sha, *reversed(list(state.level_at.values()))]))
    workloads, benchmarks = discover(conf, workshop.repo, workshop.environment, tried, args.bench)
    studio.open(identify(args.machine, conf.results_dir), benchmarks)
    before = len(state.known)
    if state.running:
        studio.go_on(watch)
    complete = watch.cycle(tip, workloads)
    for each in state.known[before:]:
        change = f"{each.ratio - 1:+.1%} at {each.commit[:10]} {each.subject}"
        reporter.found(f"{each.workload}: {change}")
    if len(state.known) > before:
        return FOUND
    return NOTHING if complete else UNFINISHED


def _tip_of(workshop: Workshop, branch: str) -> str:
    """asv's mirror keeps branches of a remote apart; a work tree has them by name."""
    return str(workshop.repo.get_branch_name(branch))


class _Studio:
    """Makes sessions: their headers, logs, and asv's results."""

    def __init__(
        self,
        workshop: Workshop,
        args: argparse.Namespace,
        reporter: ConsoleReporter,
    ) -> None:
        self._workshop = workshop
        self._args = args
        self._reporter = reporter
        self._machine: Mapping[str, str] = {}
        self._benchmarks: Mapping[str, Mapping[str, Any]] = {}

    def open(self, machine: Mapping[str, str], benchmarks: Mapping[str, Mapping[str, Any]]) -> None:
        """Say on which machine, and what asv knows of the benchmarks."""
        self._machine, self._benchmarks = machine, benchmarks

    def _log(self, session: str, *, is_whole: bool) -> Path:
        """Sessions of two distant commits blame the second for all between: never published."""
        sessions = Path(self._workshop.settings.sessions_dir)
        return log_path(sessions if is_whole else sessions / "watch", session)

    def study(
        self,
        watch: Watch,
        commits: CommitRange,
        workloads: Sequence[Workload],
        left_seconds: float | None,
        stage: str,
    ) -> Findings:
        """A new session, noted as running before it begins."""
        header = self._header(commits, workloads, left_seconds, stage)
        watch.state.running = header.session
        watch.save()
        path = self._log(header.session, is_whole=is_whole(commits))
        with SessionLog.create(path, header) as log:
            return self._finish(Session(header, ()), log)

    def go_on(self, watch: Watch) -> None:
        """With the session that a kill interrupted; what it finds is taken in."""
        running = watch.state.running
        paths = (self._log(running, is_whole=each) for each in (True, False))
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            watch.state.running = ""
            return
        left = watch.left_today()
        if left is not None and left <= 0:
            return
        session = load(path, samples=False)
        versions = {
            workload.version == self._benchmarks.get(workload.benchmark, {}).get("version")
            for workload in session.header.workloads
        }
        if versions != {True}:
            self._reporter.found(f"{session.header.session} is given up: its benchmarks changed")
            watch.state.running = ""
            return
        before = findings_of(session)
        if not before.finished:
            self._reporter.progress(f"going on with {session.header.session}")
            with SessionLog.reopen(path) as log:
                findings = self._finish(log.session or session, log)
            watch.spend(max(0.0, findings.cost.seconds - before.cost.seconds))
        else:
            findings = before
        watch.settle(findings)

    def _finish(self, session: Session, log: SessionLog) -> Findings:
        return finish_session(
            self._workshop, session, log, self._reporter, self._benchmarks, show_stderr=False
        )

    def _header(
        self,
        commits: CommitRange,
        workloads: Sequence[Workload],
        left_seconds: float | None,
        stage: str,
    ) -> SessionHeader:
        conf, now = self._workshop.conf, time.time()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
        return SessionHeader(
            session=f"{stamp}-{secrets.token_hex(2)}",
            created_seconds=now,
            range=commits,
            workloads=tuple(workloads),
            smallest_step=self._args.smallest_step,
            confidence=self._args.confidence,
            budget_seconds=left_seconds,
            machine=self._machine,
            environment=self._workshop.environment.name,
            python=self._workshop.environment.python,
            project=conf.project,
            show_commit_url="" if conf.show_commit_url == "#" else conf.show_commit_url,
            options={"attributes": json.dumps({}), "invert": "false", "watch": stage},
        )


def _hook(command: str | None, news: News, reporter: ConsoleReporter) -> bool:
    """Run the hook; False when it failed, and is to be tried again by the next call."""
    if command is None:
        return True
    known = news.known
    content = {
        "event": news.event,
        "workload": known.workload,
        "commit": known.commit,
        "subject": known.subject,
        "ratio": known.ratio,
        "session": known.session,
        "closed_by": known.closed_by,
    }
    try:
        done = subprocess.run(
            shlex.split(command),
            input=json.dumps(content).encode(),
            stdout=sys.stderr.fileno(),
            env={**os.environ, "BISECTORCH_EVENT": news.event},
            check=False,
            timeout=HOOK_SECONDS,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        reporter.found(f"the hook could not be run, and will be again: {error}")
        return False
    if done.returncode:
        reporter.found(f"the hook failed with status {done.returncode}, and will be run again")
    return done.returncode == 0
