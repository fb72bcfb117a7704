"""``bisectorch doctor [RANGE]``: checks every step, and says what is missing and what it costs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asv.commands import Command
from asv.repo import get_repo

from bisectorch.asv_plugin import doctor
from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.doctor import Finding, State
from bisectorch.asv_plugin.settings import Settings
from bisectorch.build import Store, plan
from bisectorch.build.learned import Learned
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.history import GitHistory
from bisectorch.model import CommitRange


class Doctor(TeachingErrors, Command):  # type: ignore[misc]
    """Check that a bisection can be done here."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """A range to divide, and whether the network may be asked."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "doctor",
            help="Check everything a bisection needs, and how a range divides",
            description="""Checks git, the repository, interpreters, benchmarks, the store and
            the routes to a build, and what on this machine disturbs measuring; says what is
            missing and what to do about it. With a range: how it divides into native,
            Python-only and irrelevant commits, and what building it costs. Exit code: 0 when
            nothing is missing, else 4.""",
        )
        parser.add_argument("range", metavar="FROM..TO", nargs="?")
        arguments.add_dates(parser)
        parser.add_argument(
            "--offline", action="store_true", help="Ask nobody over the network; clone nothing."
        )
        parser.add_argument(
            "--configuration",
            action="store_true",
            help="""Check only what asv.conf.json and the benchmarks say, not what this machine
            has.""",
        )
        parser.add_argument(
            "--floor",
            type=arguments.duration,
            nargs="?",
            const=60.0,
            metavar="TIME",
            help="""Also measure two equal builds side by side for a minute, or for TIME, and tell
            the smallest step that this machine shows.""",
        )
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Say each finding as it comes."""
        is_missing = False
        for finding in _findings(conf, args):
            is_missing |= finding.state is State.MISSING
            _say(finding)
        if args.floor is not None:
            for finding in doctor.floor(args.floor):
                is_missing |= finding.state is State.MISSING
                _say(finding)
        if args.range or args.since or args.until:
            for finding in _divide(conf, args):
                _say(finding)
        return EnvironmentFailure.exit_code if is_missing else 0


def _findings(conf: Any, args: argparse.Namespace) -> Iterator[Finding]:
    if args.configuration:
        return doctor.examine_configuration(conf)
    return doctor.examine(conf, offline=args.offline)


def _divide(conf: Any, args: argparse.Namespace) -> list[Finding]:
    settings = Settings.from_conf(conf)
    spec = arguments.range_spec(args)
    if doctor.is_url(conf.repo):
        if args.offline and not Path(conf.project).is_dir():
            raise UsageError(f"{conf.repo} is not mirrored yet: leave out --offline, or the range")
        repo = get_repo(conf)
        path = Path(repo._path)
    else:
        path = Path(conf.repo)
    found: CommitRange = GitHistory(path, settings.classes, conf.branches[0]).range(spec)
    learned = Learned(Store(settings.store).root / "learned.jsonl").seconds()
    kinds = [kind for kind in (plan.SOURCE_STEP, plan.SOURCE_FROM_NOTHING) if kind in learned]
    kind = kinds[0] if kinds else plan.SOURCE_STEP
    seconds = plan.expected_seconds(kind, learned)
    return list(doctor.describe(doctor.divide(found), seconds, bool(kinds)))


def _say(finding: Finding) -> None:
    print(f"{finding.state.value:8} {finding.text}")  # noqa: T201
