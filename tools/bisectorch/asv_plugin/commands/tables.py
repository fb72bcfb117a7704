"""``bisectorch tables [NAME...]``: the published tables, made anew for a torch."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from asv.commands import Command, common_args

from bisectorch import tables
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.commands.bisect import Bisect, bisect_range
from bisectorch.asv_plugin.settings import STORE_VARIABLE, Settings, default_store
from bisectorch.asv_plugin.workshop import findings_of, open_workshop
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.model import Route
from bisectorch.replay.write import benchmarks_folder
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.record import load, log_path, logs, read_header
from bisectorch.tables import Bench, Subject
from bisectorch.tables.bench import cores_and_threads, default_core, own_python
from bisectorch.tables.catalogue import chosen
from bisectorch.tables.linear import CHAIN, Levels
from bisectorch.tables.shapes import Form, Side

COMPARATORS_VARIABLE = "BISECTORCH_COMPARATORS"
ROUNDS = {Form.SHORT: 1, Form.FULL: 3}
LINEAR_TABLES = {"A4", "A7"}


class Tables(TeachingErrors, Command):  # type: ignore[misc]
    """Make the published tables anew."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """Which tables, of which torch, in which form."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "tables",
            help="Make the published tables anew, the account's figures beside ours",
            description=f"""Makes the tables of the two published accounts for a torch:
            {", ".join(tables.NAMES)}. What cannot be measured here is a row that says why. A4 comes
            from a bisect session, A7 from A4 and A6.""",
        )
        parser.add_argument("names", metavar="NAME", nargs="*", help="Default: all.")
        parser.add_argument(
            "--interpreter",
            metavar="PATH",
            help="""An interpreter that has the torch to measure. Default: asv's environment, with
            the branch's last commit where that need not be compiled; else the running one.""",
        )
        parser.add_argument(
            "--commit", metavar="COMMIT", help="Build this commit of the history and measure it."
        )
        parser.add_argument(
            "--session",
            metavar="SESSION",
            help="The session that A4 and A7 read. Default: the latest with a Linear benchmark.",
        )
        parser.add_argument(
            "--bisect",
            metavar="FROM..TO",
            help=f"Bisect {CHAIN} over this range first, for A4 and A7.",
        )
        parser.add_argument(
            "--comparators",
            metavar="PATH",
            action="append",
            default=[],
            help=f"""An interpreter that has DyNet or keras-tcn; may be repeated. Default:
            ${COMPARATORS_VARIABLE}, then the torch's own interpreter, then the running one.""",
        )
        parser.add_argument(
            "--short", action="store_true", help="Only enough to see that all of it works; for CI."
        )
        parser.add_argument("--rounds", type=int, metavar="N", help="Fresh processes a figure.")
        parser.add_argument(
            "--core", type=int, metavar="N", help="The core for one thread. Default: the last one."
        )
        parser.add_argument(
            "--device",
            choices=("cpu", "cuda"),
            default="cpu",
            help="Where B and the profile are measured. Default: cpu.",
        )
        parser.add_argument("--format", choices=tables.FORMATS, default="text")
        parser.add_argument(
            "--output",
            metavar="DIR",
            type=Path,
            help="Also write each table there as .txt, .md, .csv, .json and .svg.",
        )
        common_args.add_environment(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_args(cls, args: argparse.Namespace) -> int:
        """With a configuration where there is one; ``--interpreter`` needs none."""
        if args.config or Path("asv.conf.json").exists() or args.commit or args.bisect:
            return super().run_from_args(args)
        return cls.run_from_conf_args(None, args)

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Make each table and write it as soon as it is there."""
        names = chosen(args.names)
        form = Form.SHORT if args.short else Form.FULL
        if args.rounds is not None and args.rounds < 1:
            raise UsageError("--rounds must be 1 or more")
        made, output = [], sys.stdout
        # Text is shown table by table, because all of them take minutes; data is one document.
        is_data = args.format in ("csv", "json")
        with (
            ConsoleReporter(sys.stderr) as reporter,
            contextlib.redirect_stdout(sys.stderr),  # asv prints there; it is the tables' alone
        ):
            levels = _levels(conf, args, reporter) if LINEAR_TABLES & set(names) else None
            subject, keep = _subject(conf, args, reporter)
            bench = _bench(conf, args, form, subject, reporter)
            for name in names:
                table = tables.make(name, bench, form, levels, subject.label)
                made.append(table)
                if args.output is not None:
                    tables.save(table, args.output)
                if not is_data:
                    tables.write([table], args.format, output)
                    output.write("\n")
                    output.flush()
            del keep
        if is_data:
            tables.write(made, args.format, output)
        return 0


def _bench(
    conf: Any, args: argparse.Namespace, form: Form, subject: Subject, reporter: ConsoleReporter
) -> Bench:
    cores, complaint = cores_and_threads(os.environ)
    if complaint:
        reporter.found(complaint)
    core = default_core() if args.core is None else args.core
    if core is not None and hasattr(os, "sched_getaffinity"):
        usable = sorted(os.sched_getaffinity(0))
        if core not in usable:
            raise UsageError(f"there is no core {core} to use here: choose one of {usable}")
    store = Settings.from_conf(conf).store if conf is not None else _store()
    others = args.comparators or list(filter(None, [os.environ.get(COMPARATORS_VARIABLE)]))
    comparators = [Subject(path) for path in others] or [subject, Subject(own_python())]
    return Bench(
        {Side.TORCH: [subject], Side.DYNET: comparators, Side.KERAS: comparators},
        benchmarks_folder(),
        rounds=args.rounds or ROUNDS[form],
        core=core,
        cores=cores,
        device=args.device,
        extensions=store / "extensions",
        say=reporter.progress,
    )


def _store() -> Path:
    named = os.environ.get(STORE_VARIABLE)
    return Path(named).expanduser() if named else default_store()


def _subject(
    conf: Any, args: argparse.Namespace, reporter: ConsoleReporter
) -> tuple[Subject, object]:
    """The torch at hand, and what must live as long as it is used."""
    if args.interpreter and args.commit:
        raise UsageError("--interpreter and --commit name two torchs: choose one")
    if args.interpreter:
        return Subject(args.interpreter, args.interpreter), None
    if conf is None:
        return Subject(own_python(), own_python()), None
    workshop = open_workshop(conf, args.env_spec, reporter)
    commit = workshop.history.commit(args.commit or conf.branches[0])
    if not args.commit and workshop.ladder.quote(commit).route is Route.SOURCE:
        raise EnvironmentFailure(
            f"{conf.branches[0]} would have to be compiled: say --commit {conf.branches[0]} to do "
            "that, or name an interpreter that has a torch with --interpreter"
        )
    reporter.progress(f"building {commit.sha[:10]}")
    build = workshop.ladder.provide(commit)
    label = f"{commit.sha[:10]} {commit.subject} ({build.route.value})"
    return Subject(build.python, label, build.tree, build.environment), workshop


def _levels(conf: Any, args: argparse.Namespace, reporter: ConsoleReporter) -> Levels | None:
    """What A4 and A7 read: a session named, made now, or found; None where there is none."""
    if args.bisect and args.session:
        raise UsageError("--bisect and --session name two sessions: choose one")
    if args.bisect:
        return Levels.of(bisect_range(conf, _bisect_options(args)))
    sessions = Path(Settings.from_conf(conf).sessions_dir) if conf is not None else None
    if args.session:
        places = [Path(args.session), *([log_path(sessions, args.session)] if sessions else [])]
        for path in places:
            if path.is_file():
                return Levels.of(findings_of(load(path)))
        raise UsageError(f"no session {args.session!r}: give its name beside --config, or its log")
    # The chain's before any other Linear benchmark's, the newest first.
    found = [
        (path, {each.benchmark for each in read_header(path).workloads})
        for path in (logs(sessions) if sessions else ())
    ]
    for path, names in sorted(found, key=lambda pair: CHAIN not in pair[1]):
        if any(name.startswith("linear.") for name in names):
            levels = Levels.of(findings_of(load(path)))
            if levels.first is not None and levels.last is not None:
                reporter.progress(f"reading {path}")
                return levels
    return None


def _bisect_options(args: argparse.Namespace) -> argparse.Namespace:
    """What ``bisectorch bisect RANGE -b CHAIN`` would have parsed."""
    subparsers = argparse.ArgumentParser().add_subparsers()
    parser = Bisect.setup_arguments(subparsers)
    pattern = "^" + CHAIN.replace(".", r"\.") + "$"
    options = parser.parse_args([args.bisect, "-b", pattern])
    options.env_spec = args.env_spec
    return options
