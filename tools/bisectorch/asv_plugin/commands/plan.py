"""``bisectorch plan FROM..TO -b REGEX``: what a search will take, before anything is built."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from asv.commands import Command, common_args

from bisectorch.asv_plugin import planning
from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.planned import Plan, as_json, lines
from bisectorch.asv_plugin.priors import with_priors
from bisectorch.asv_plugin.workshop import open_workshop
from bisectorch.report.progress import ConsoleReporter
from bisectorch.search.forecast import Forecast, Tried, forecast, opening, reachable, scenarios


@dataclass(frozen=True)
class Effort:
    """How many trials where no number is asked for: as many as the time allows, within limits."""

    least: int
    most: int
    seconds: float


FOR_SCENARIOS = Effort(4, 50, 10.0)
FOR_A_BUDGET = Effort(2, 20, 3.0)
"""For each smallest step that is tried against it."""


class PlanCommand(TeachingErrors, Command):  # type: ignore[misc]
    """Say what a bisection will cost."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """bisect's options that change what it costs, and how to simulate."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "plan",
            help="Say what bisecting a range will take, before anything is built",
            description="""Says how a range divides and what a bisection of it certainly costs;
            with --simulate, how many builds, runs and hours it will probably take, by simulated
            searches of this very history at this noise. Builds and measures nothing. Exit code:
            0, or 2 for a request that makes no sense.""",
        )
        parser.add_argument("range", metavar="FROM..TO", nargs="?", help="As for bisect.")
        arguments.add_dates(parser)
        parser.add_argument(
            "--bench",
            "-b",
            action="append",
            metavar="REGEX",
            help="""Which benchmark: noise and the cost of a run are taken from the latest session
            here that measured one like it.""",
        )
        parser.add_argument("--simulate", action="store_true", help="Simulate searches.")
        parser.add_argument(
            "--sigma",
            type=sigma,
            metavar="SPREAD",
            help="""The standard deviation of a run, as 1%% or 0.01. Default: as in the latest
            session here, or 1%%.""",
        )
        parser.add_argument(
            "--budget",
            type=arguments.duration,
            metavar="TIME",
            help="Also say which smallest step is reachable within this time (30m, 12h).",
        )
        arguments.add_smallest_step(parser)
        arguments.add_confidence(parser)
        parser.add_argument(
            "--trials",
            type=trials,
            metavar="N",
            help="""How many searches to simulate of each kind. Default: what some ten seconds
            allow.""",
        )
        arguments.add_prior(parser)
        parser.add_argument(
            "--format", choices=("text", "json"), default="text", help="Default: text."
        )
        common_args.add_environment(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Plan, and say it."""
        with ConsoleReporter(sys.stderr) as reporter, contextlib.redirect_stdout(sys.stderr):
            made = plan(conf, args, reporter)
        if args.format == "json":
            json.dump(as_json(made), sys.stdout, indent=1)
            sys.stdout.write("\n")
        else:
            sys.stdout.writelines(f"{line}\n" for line in lines(made))
        return 0


def plan(conf: Any, args: argparse.Namespace, reporter: ConsoleReporter) -> Plan:
    """All that can be said of the range; nothing is built, and no environment is made."""
    spec = arguments.range_spec(args)
    workshop = open_workshop(conf, args.env_spec, reporter, quotes_only=True)
    commits = with_priors(workshop.history.range(spec), args.prior)
    known = planning.experience(workshop.settings, conf.project, args.bench or ())
    reporter.progress(f"asking what {len(commits.line)} builds would cost")
    ground = planning.ground(
        commits,
        workshop.ladder,
        workshop.settings,
        known.sigma if args.sigma is None else args.sigma,
        known.run_seconds,
    )
    player = planning.player(args.confidence)
    forecasts: tuple[Forecast, ...] = ()
    if args.simulate:
        wanted = scenarios(args.smallest_step, ground.size)
        rounds = _rounds(args.trials, FOR_SCENARIOS, reporter.progress)
        forecasts = forecast(ground, player, args.smallest_step, wanted, rounds)
    least: float | None = None
    tried: tuple[Tried, ...] = ()
    if args.budget is not None:
        least, tried = reachable(
            ground,
            player,
            args.budget,
            lambda: _rounds(args.trials, FOR_A_BUDGET, reporter.progress),
        )
    return Plan(
        commits=commits,
        ground=ground,
        known=known,
        sigma_given=args.sigma is not None,
        smallest_step=args.smallest_step,
        confidence=args.confidence,
        opening=opening(ground, player, args.smallest_step),
        forecasts=forecasts,
        budget_seconds=args.budget,
        reachable=least,
        tried=tried,
    )


def _rounds(
    number: int | None,
    effort: Effort,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[int]:
    """The numbers of the rounds: so many, or as many as the time allows."""
    until = clock() + effort.seconds
    for done in range(effort.most if number is None else number):
        if number is None and done >= effort.least and clock() >= until:
            return
        say(f"simulating round {done + 1}")
        yield done


def sigma(text: str) -> float:
    """``1%`` or ``0.01`` as a fraction of at least 0 and below 1."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a spread of runs; write 1% or 0.01")
    return value


def trials(text: str) -> int:
    """A number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of trials; write 20")
    return int(text)
