"""``bisectorch versus OLD NEW -b REGEX``: what differs between two commits, and by how much."""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from asv.benchmarks import Benchmarks
from asv.commands import Command, common_args

from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.commands.plain import (
    SKIP,
    Skipped,
    add_plain,
    compare_plain,
    exit_code,
    stopping_bisect,
)
from bisectorch.asv_plugin.commands.sessions import refuse_changed_benchmarks
from bisectorch.asv_plugin.machine import identify
from bisectorch.asv_plugin.results import save_results
from bisectorch.asv_plugin.settings import Settings
from bisectorch.asv_plugin.sides import Side as NamedSide
from bisectorch.asv_plugin.sides import find_sides, provide
from bisectorch.asv_plugin.workloads import discover
from bisectorch.asv_plugin.workshop import Workshop, open_workshop
from bisectorch.errors import UsageError
from bisectorch.measure import PairedMeasurer
from bisectorch.model import Build, CommitRange, End, Session, SessionHeader, Versus, Workload
from bisectorch.report.output import FORMATS
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.record import SessionLog, latest, load, log_path
from bisectorch.report.versus import SORTS, Layout, write_versus
from bisectorch.report.wording import duration
from bisectorch.search.verdict import SequentialJudge
from bisectorch.versus import compare, conclude

MANY_WORKLOADS = 100
"""More than these are compared only when a budget says for how long."""

SECONDS = 30.0
"""The most that measuring one workload takes, where nothing else was said."""


class VersusCommand(TeachingErrors, Command):  # type: ignore[misc]
    """Compare two commits on many benchmarks."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """Options have the names of ``asv continuous`` and benchstat where those have them."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "versus",
            help="Compare two commits, or one with the working tree",
            description="""Measures both sides in interleaved blocks on one core until each
            benchmark is known to be DIFFERENT, or the SAME within the smallest step, or its time
            is up (UNKNOWN). Exit code: 1 when anything got worse by at least the smallest step
            or broke, else 0, as asv continuous; 2 usage, 4 environment failure.""",
        )
        parser.add_argument("old", metavar="OLD", nargs="?", help="The commit to compare with.")
        parser.add_argument(
            "new",
            metavar="NEW",
            nargs="?",
            help="The commit to test. Default: the working tree, also written as a dot.",
        )
        common_args.add_bench(parser)
        add_judging(parser)
        add_budget(parser)
        parser.add_argument(
            "--resume",
            nargs="?",
            const="",
            metavar="SESSION",
            help="""Go on with a comparison that was stopped: the latest one, or the one named.
            A finished one is reported again, or goes on with more --seconds or --budget.""",
        )
        add_layout(parser)
        parser.add_argument(
            "--dry-run",
            "-n",
            action="store_true",
            help="Do not save any results, nor the log, to disk.",
        )
        arguments.add_building(parser)
        add_plain(parser)
        common_args.add_machine(parser)
        common_args.add_environment(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_args(cls, args: argparse.Namespace) -> int:
        """A plain command needs no asv project; anything else does."""
        if not args.exec:
            return super().run_from_args(args)
        with stopping_bisect(), ConsoleReporter(sys.stderr) as reporter:
            try:
                found = compare_plain(args, reporter)
            except Skipped as reason:
                reporter.found(f"{reason}")
                return SKIP
        write_versus(found, args.format, sys.stdout, layout_of(args))
        return exit_code(found, invert=args.invert)

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Compare, report, and say whether anything got worse."""
        found = compare_sides(conf, args)
        write_versus(found, args.format, sys.stdout, layout_of(args))
        return int(found.got_worse)


def compare_sides(conf: Any, args: argparse.Namespace) -> Versus:
    """The comparison that was asked for, begun or gone on with, to its end."""
    with (
        ConsoleReporter(sys.stderr) as reporter,
        contextlib.redirect_stdout(sys.stderr),  # asv prints there; it is the report's alone
        tempfile.TemporaryDirectory() as scratch,
    ):
        if args.dry_run:
            conf.results_dir = scratch
        arguments.apply_building(conf, args)
        if args.resume is not None:
            return _resumed(conf, args, reporter)
        return _begun(conf, args, reporter, Path(scratch) if args.dry_run else None)


def add_budget(parser: argparse.ArgumentParser) -> None:
    """``--budget``: the most that all of it may take."""
    parser.add_argument(
        "--budget",
        type=arguments.duration,
        metavar="TIME",
        help="Measure for no longer than this altogether (90s, 30m, 2h).",
    )


def add_judging(parser: argparse.ArgumentParser) -> None:
    """How large a change matters, how sure one wants to be, and for how long to look."""
    arguments.add_smallest_step(parser, 0.02)
    arguments.add_factor(parser)
    arguments.add_confidence(parser, "SAME and the intervals")
    parser.add_argument(
        "--alpha",
        dest="false_rate",
        type=_rate,
        default=0.01,
        metavar="RATE",
        help="How much of what is called DIFFERENT may be wrong. Default: 0.01.",
    )
    parser.add_argument(
        "--seconds",
        type=arguments.duration,
        metavar="TIME",
        help="The most that measuring one benchmark may take. Default: 30s.",
    )


def add_layout(parser: argparse.ArgumentParser) -> None:
    """How the report is written."""
    parser.add_argument(
        "--split",
        "-s",
        action="store_true",
        help="Split the table into what got worse, improved, and did neither.",
    )
    parser.add_argument(
        "--only-changed",
        action="store_true",
        default=False,
        help="Show only what changed by at least the smallest step.",
    )
    parser.add_argument("--no-only-changed", dest="only_changed", action="store_false")
    parser.add_argument("--sort", choices=SORTS, default="ratio", help="Default: ratio.")
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="How to write the report. Default: text."
    )


def layout_of(args: argparse.Namespace) -> Layout:
    """What ``add_layout`` read."""
    return Layout(args.split, args.only_changed, args.sort)


def judge_of(header: SessionHeader) -> SequentialJudge:
    """The judge that the session was begun with."""
    return SequentialJudge(
        header.smallest_step, header.confidence, float(header.options["false_rate"])
    )


def _rate(text: str) -> float:
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; write 0.01 or 1%")
    return value


def _begun(
    conf: Any, args: argparse.Namespace, reporter: ConsoleReporter, unsaved: Path | None
) -> Versus:
    if args.seconds is None:
        args.seconds = SECONDS
    workshop = open_workshop(conf, args.env_spec, reporter)
    old, new = find_sides(workshop, args.old, args.new, reporter)
    machine = identify(args.machine, conf.results_dir)
    builds = (provide(workshop, old, reporter), provide(workshop, new, reporter))
    reporter.progress("discovering benchmarks")
    shas = [new.commit.sha, old.commit.sha]
    workloads, benchmarks = discover(conf, workshop.repo, workshop.environment, shas, args.bench)
    _tell_cost(workloads, args, reporter)
    header = _header(workshop, (old, new), workloads, machine, args)
    with SessionLog.create(
        log_path(unsaved or _folder(workshop.settings), header.session), header
    ) as log:
        return _measure(workshop, Session(header, ()), builds, log, reporter, benchmarks)


def _resumed(conf: Any, args: argparse.Namespace, reporter: ConsoleReporter) -> Versus:
    folder = _folder(Settings.from_conf(conf))
    path = log_path(folder, args.resume) if args.resume else latest(folder)
    if path is None or not path.is_file():
        named = f" {args.resume!r}" if args.resume else ""
        raise UsageError(f"there is no comparison{named} to go on with in {folder}")
    with SessionLog.reopen(path) as log:
        session = load(path)
        more = {"seconds": repr(args.seconds)} if args.seconds is not None else {}
        if args.budget is not None or more:
            header = session.header
            budget = header.budget_seconds if args.budget is None else args.budget
            options = {**header.options, **more}
            session = replace(
                session, header=replace(header, budget_seconds=budget, options=options)
            )
        elif any(isinstance(event, End) for event in session.events[-1:]):
            return conclude(session, judge_of(session.header))
        workshop = open_workshop(conf, [session.header.environment], reporter)
        benchmarks = Benchmarks.load(conf)
        refuse_changed_benchmarks(session, benchmarks, "versus")
        old, new = (
            NamedSide(session.header.options[name], workshop.history.commit(commit.sha))
            for name, commit in zip(("old", "new"), session.header.range.line, strict=True)
        )
        builds = (provide(workshop, old, reporter), provide(workshop, new, reporter))
        return _measure(workshop, session, builds, log, reporter, benchmarks)


def _measure(
    workshop: Workshop,
    session: Session,
    builds: tuple[Build, Build],
    log: SessionLog,
    reporter: ConsoleReporter,
    benchmarks: Mapping[str, Mapping[str, Any]],
) -> Versus:
    """Compare to the end; whatever was measured is saved for asv, also when it is cut short."""
    header = session.header
    attributes = json.loads(header.options.get("attributes", "{}"))
    cores = attributes.pop("cpu_affinity", None)
    measurer = PairedMeasurer(
        Path(workshop.conf.benchmark_dir).absolute(),
        core=cores[0] if cores else None,
        attributes=attributes,
    )
    try:
        with measurer:
            return compare(
                session,
                builds,
                measurer=measurer,
                judge=judge_of(header),
                recorder=log,
                reporter=reporter,
                seconds=float(header.options["seconds"]),
            )
    except KeyboardInterrupt:
        reporter.found(f"stopped; go on with `bisectorch versus --resume {header.session}`")
        raise
    finally:
        measured = load(log.path)
        trees = header.options.get("working_trees", "").split()
        events = [each for each in measured.events if getattr(each, "sha", "") not in trees]
        save_results(
            workshop.conf.results_dir,
            header,
            events,
            benchmarks,
            workshop.environment,
            workshop.repo,
        )


def _tell_cost(
    workloads: tuple[Workload, ...], args: argparse.Namespace, reporter: ConsoleReporter
) -> None:
    most = len(workloads) * args.seconds
    if args.budget is None and len(workloads) > MANY_WORKLOADS:
        raise UsageError(
            f"{len(workloads)} workloads match: at {duration(args.seconds)} each that may take "
            f"{duration(most)}; narrow -b, or say how long with --budget"
        )
    at_most = duration(most if args.budget is None else min(most, args.budget))
    reporter.progress(f"{len(workloads)} workloads, at most {at_most} of measuring")


def _folder(settings: Settings) -> Path:
    """Beside the bisections, whose commands and pages are not about comparisons."""
    return Path(settings.sessions_dir) / "versus"


def _header(
    workshop: Workshop,
    sides: tuple[NamedSide, NamedSide],
    workloads: tuple[Workload, ...],
    machine: Mapping[str, str],
    args: argparse.Namespace,
) -> SessionHeader:
    conf, now = workshop.conf, time.time()
    old, new = sides
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return SessionHeader(
        session=f"{stamp}-{secrets.token_hex(2)}",
        created_seconds=now,
        range=CommitRange(f"{old.name} against {new.name}", (old.commit, new.commit)),
        workloads=workloads,
        smallest_step=args.smallest_step,
        confidence=args.confidence,
        budget_seconds=args.budget,
        machine=machine,
        environment=workshop.environment.name,
        python=workshop.environment.python,
        project=conf.project,
        show_commit_url="" if conf.show_commit_url == "#" else conf.show_commit_url,
        options={
            "attributes": json.dumps(args.attribute or {}),
            "false_rate": repr(args.false_rate),
            "seconds": repr(args.seconds),
            "old": old.name,
            "new": new.name,
            "working_trees": " ".join(
                side.commit.sha
                for side in sides
                if side.working_tree is not None and side.commit.sha != side.working_tree.head
            ),
        },
    )
