"""``bisectorch bisect FROM..TO -b REGEX``: isolate every commit that changed a workload."""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asv.commands import Command, common_args

from bisectorch.asv_plugin import corroborate, explaining, rebuilds
from bisectorch.asv_plugin.ahead import build_ends
from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.commands.outcome import exit_code, finish_session
from bisectorch.asv_plugin.machine import identify
from bisectorch.asv_plugin.priors import with_priors
from bisectorch.asv_plugin.releases import offers, on_releases
from bisectorch.asv_plugin.workloads import discover, refuse_bad_patterns
from bisectorch.asv_plugin.workshop import Workshop, open_workshop
from bisectorch.errors import UsageError
from bisectorch.knowledge import FIRST_RUN_SECONDS
from bisectorch.measure.counts import counted, find_tool
from bisectorch.model import CommitRange, Findings, Session, SessionHeader, Workload
from bisectorch.report.output import write_report
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.record import SessionLog, log_path

FEWEST_RUNS = 4
"""The runs that both ends of a range need before anything can be said about it."""


class Bisect(TeachingErrors, Command):  # type: ignore[misc]
    """Find all commits in a range that changed a benchmark."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """Options have asv's names and meanings where asv has them."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "bisect",
            help="Find every commit in a range that changed a benchmark",
            description="""Isolates all commits of a range, of both signs, that changed the
            benchmarks, with a probability and an interval for each effect. FROM is measured.
            Exit code: 0 culprits found, 1 none, 2 usage, 3 inconclusive, 4 environment
            failure.""",
        )
        parser.add_argument(
            "range",
            metavar="FROM..TO",
            nargs="?",
            help="""Range of commits, searched along first parents. FROM is the trusted
            baseline and is measured too. Names, tags, NAME@{2017-05-01}; or ALL, or
            HASHFILE:FILE as in asv run.""",
        )
        arguments.add_dates(parser)
        parser.add_argument(
            "--releases",
            metavar="1.0..2.14",
            help="""In place of FROM..TO: search the releases of the package index first, and
            offer the commits between the two that differ.""",
        )
        common_args.add_bench(parser)
        arguments.add_smallest_step(parser)
        arguments.add_factor(parser)
        arguments.add_confidence(parser)
        parser.add_argument(
            "--budget",
            type=arguments.duration,
            metavar="TIME",
            help="Stop after this much time (90s, 30m, 2h) with what is known by then.",
        )
        parser.add_argument(
            "--invert",
            "-i",
            action="store_true",
            help="Report decreases of the benchmark's value only, as in asv find.",
        )
        parser.add_argument(
            "--metric",
            choices=("value", "instructions"),
            default="value",
            help="""What is searched: the benchmark's own value, or the instructions that a call
            of a time_ benchmark executes, which a busy machine does not disturb: counted by the
            kernel where it can, else by valgrind. Default: value.""",
        )
        parser.add_argument(
            "--dry-run",
            "-n",
            action="store_true",
            help="Do not save any results, nor the session's log, to disk.",
        )
        arguments.add_prior(parser)
        arguments.add_corroborate(parser)
        parser.add_argument(
            "--rebuilds",
            type=int,
            default=0,
            metavar="N",
            help="""First build FROM N times over, in salted layouts, and measure how far builds
            of one commit spread; the search counts with it. For builds from source.""",
        )
        arguments.add_explain(parser)
        arguments.add_building(parser)
        arguments.add_format(parser)
        common_args.add_parallel(parser)
        arguments.add_cluster(parser)
        common_args.add_show_stderr(parser)
        common_args.add_machine(parser)
        common_args.add_environment(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Run a new session to its end, and report it."""
        findings = bisect_range(conf, args)
        write_report(findings, args.format, sys.stdout)
        return exit_code(findings)


def bisect_range(conf: Any, args: argparse.Namespace) -> Findings:
    """One session: resolve, discover, search; the log and asv's results are on disk after it."""
    spec = args.releases or arguments.range_spec(args)
    if not args.bench:
        raise UsageError("say which benchmark to bisect with -b REGEX")
    tool = find_tool().name if args.metric == "instructions" else ""
    corroborate.options(args.corroborate)
    with (
        ConsoleReporter(sys.stderr) as reporter,
        contextlib.redirect_stdout(sys.stderr),  # asv prints there; it is the report's alone
        tempfile.TemporaryDirectory() as scratch,
    ):
        results_dir = scratch if args.dry_run else conf.results_dir
        conf.results_dir = results_dir
        arguments.apply_building(conf, args)
        workshop = open_workshop(conf, args.env_spec, reporter)
        rebuilds.refuse_needless(args.rebuilds, workshop.ladder)
        repository = workshop
        if args.releases:
            workshop = on_releases(workshop)
        commits = with_priors(workshop.history.range(spec), args.prior)
        machine = identify(args.machine, results_dir)
        refuse_bad_patterns(args.bench)
        ahead = build_ends(workshop, commits.line, reporter)
        reporter.progress("discovering benchmarks")
        workloads, benchmarks = discover(
            conf,
            workshop.repo,
            workshop.environment,
            _spread([commit.sha for commit in commits.line]),
            args.bench,
        )
        if tool:
            workloads = counted(workloads)
            reporter.progress(f"instructions are counted by {tool}")
        _refuse_beyond_budget(args.budget, workloads)
        header = _header(workshop, commits, workloads, machine, args)
        sessions = Path(scratch) if args.dry_run else Path(workshop.settings.sessions_dir)
        with SessionLog.create(log_path(sessions, header.session), header) as log:
            for event in ahead:
                log.append(event)
            findings = finish_session(
                workshop,
                Session(header, ahead),
                log,
                reporter,
                benchmarks,
                show_stderr=args.show_stderr,
            )
        if args.releases:
            for offer in offers(repository, findings):
                reporter.found(offer)
        return findings


def _spread(shas: Sequence[str]) -> list[str]:
    """FROM, TO, and a few between them: where the benchmarks may be imported to list them."""
    places = dict.fromkeys([0, len(shas) - 1, len(shas) // 2, len(shas) // 4, 3 * len(shas) // 4])
    return [shas[place] for place in places]


def _refuse_beyond_budget(budget_seconds: float | None, workloads: tuple[Workload, ...]) -> None:
    least = len(workloads) * FEWEST_RUNS * FIRST_RUN_SECONDS
    if budget_seconds is not None and least > budget_seconds:
        raise UsageError(
            f"-b matches {len(workloads)} workloads: measuring both ends alone takes about "
            f"{least:.0f} s, more than the budget of {budget_seconds:.0f} s; "
            "narrow -b or raise --budget"
        )


def _header(
    workshop: Workshop,
    commits: CommitRange,
    workloads: tuple[Workload, ...],
    machine: Any,
    args: argparse.Namespace,
) -> SessionHeader:
    conf, now = workshop.conf, time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return SessionHeader(
        session=f"{stamp}-{secrets.token_hex(2)}",
        created_seconds=now,
        range=commits,
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
            "invert": "true" if args.invert else "false",
            **({"metric": args.metric} if args.metric != "value" else {}),
            **corroborate.options(args.corroborate),
            **({rebuilds.REBUILDS: str(args.rebuilds)} if args.rebuilds else {}),
            **explaining.options(args.explain),
        },
    )
