"""``resume``, ``report`` and ``log``: what can be done with a session that exists."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from asv.benchmarks import Benchmarks
from asv.commands import Command, common_args

from bisectorch.asv_plugin import corroborate, explaining
from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.commands.outcome import exit_code, finish_session
from bisectorch.asv_plugin.settings import Settings
from bisectorch.asv_plugin.workshop import findings_of, open_workshop
from bisectorch.errors import UsageError
from bisectorch.model import BuildEvent, Event, Session
from bisectorch.report.output import write_log, write_report
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.record import SessionLog, latest, load, log_path


def _find(conf: Any, name: str | None) -> Path:
    """The log of the session named; of the latest when none is."""
    sessions = Path(Settings.from_conf(conf).sessions_dir)
    if name is None:
        path = latest(sessions)
        if path is None:
            raise UsageError(f"no session in {sessions}; begin one with `bisectorch bisect`")
        return path
    for path in (Path(name), log_path(sessions, name)):
        if path.is_file():
            return path
    raise UsageError(f"no session {name!r} in {sessions}")


def refuse_changed_benchmarks(
    session: Session, benchmarks: Mapping[str, Mapping[str, Any]], command: str = "bisect"
) -> None:
    """Runs of two versions of a benchmark's code are not comparable."""
    for workload in session.header.workloads:
        known = benchmarks.get(workload.benchmark)
        if known is None or known["version"] != workload.version:
            raise UsageError(
                f"benchmark {workload.benchmark} has changed since session "
                f"{session.header.session} began; begin a new one with `bisectorch {command}`"
            )


def _is_no_failure(event: Event) -> bool:
    """Everything but a build that could not be made."""
    return not (isinstance(event, BuildEvent) and event.reason)


class Resume(TeachingErrors, Command):  # type: ignore[misc]
    """Go on with a session that was stopped."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The session, and what a bisect takes that is not in its log."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "resume",
            help="Go on with a bisect that was stopped",
            description="""Goes on after Ctrl-C or a crash without measuring anything again.
            A session that had ended is only reported.""",
        )
        arguments.add_session(parser)
        arguments.add_format(parser)
        parser.add_argument(
            "--budget",
            type=arguments.duration,
            metavar="TIME",
            help="A new budget, counted from the session's beginning.",
        )
        arguments.add_corroborate(parser)
        arguments.add_explain(parser)
        arguments.add_building(parser)
        common_args.add_parallel(parser)
        arguments.add_cluster(parser)
        common_args.add_show_stderr(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Reopen the log, check that nothing moved, and run to the end."""
        path = _find(conf, args.session)
        with (
            ConsoleReporter(sys.stderr) as reporter,
            contextlib.redirect_stdout(sys.stderr),  # asv prints there; it is the report's alone
            SessionLog.reopen(path) as log,
        ):
            session = log.session or load(path)
            if args.budget is not None:
                header = replace(session.header, budget_seconds=args.budget)
                session = replace(session, header=header)
            options = {
                **session.header.options,
                **corroborate.options(args.corroborate),
                **explaining.options(args.explain),
            }
            session = replace(session, header=replace(session.header, options=options))
            arguments.apply_building(conf, args)
            if args.retry_failed:
                session = replace(session, events=tuple(filter(_is_no_failure, session.events)))
            workshop = open_workshop(conf, [session.header.environment], reporter)
            benchmarks = Benchmarks.load(conf)
            refuse_changed_benchmarks(session, benchmarks)
            findings = finish_session(
                workshop,
                session,
                log,
                reporter,
                benchmarks,
                show_stderr=args.show_stderr,
            )
        write_report(findings, args.format, sys.stdout)
        return exit_code(findings)


class Report(TeachingErrors, Command):  # type: ignore[misc]
    """Report a session from its log."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The session and the format."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "report",
            help="Report a session again, from its log alone",
            description="Writes the report of a session; nothing is built or measured.",
        )
        arguments.add_session(parser)
        arguments.add_format(parser)
        parser.add_argument(
            "--figure",
            metavar="FILE",
            type=Path,
            help="Also draw the levels and runs into FILE (.svg or .png).",
        )
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Conclude from the log and write."""
        findings = findings_of(load(_find(conf, args.session), samples=False))
        if args.figure:
            from bisectorch.report.figures import save_figure

            save_figure(findings, args.figure)
        write_report(findings, args.format, sys.stdout)
        return exit_code(findings)


class Log(TeachingErrors, Command):  # type: ignore[misc]
    """Show what a session did."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The session."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "log",
            help="Show every build and run of a session, in order",
            description="Writes a session's log for people: one line a build or a run.",
        )
        arguments.add_session(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """One line an event."""
        path = _find(conf, args.session)
        write_log(load(path), path, sys.stdout)
        return 0
