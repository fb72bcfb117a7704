"""``bisectorch explain PARENT CHILD -b REGEX``: why a benchmark differs between two commits."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable
from typing import Any

from asv.commands import Command, common_args

from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.explaining import explainer_for
from bisectorch.asv_plugin.sides import Side, find_sides, provide
from bisectorch.asv_plugin.workloads import discover
from bisectorch.asv_plugin.workshop import Workshop, open_workshop
from bisectorch.errors import UsageError
from bisectorch.explain import MOST_PAIRS
from bisectorch.model import Explanation, TreeFile
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.whyreport import write_explanations

MOST_WORKLOADS = 20
"""More than these are explained only when they are named more narrowly: each takes a while."""


class Explain(TeachingErrors, Command):  # type: ignore[misc]
    """Say why a benchmark differs between two commits."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The two commits, and what asv's commands take."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "explain",
            help="Say why a benchmark differs between two commits",
            description="""Runs the benchmark on both builds in turn, with and without profilers,
            and says which functions and operators the difference is spent in, which of them the
            commits changed, and how much stays unexplained. Exit code: 0 explained, 1 there was
            nothing to explain, 2 usage, 3 no explanation, 4 environment failure.""",
        )
        parser.add_argument("parent", metavar="PARENT", help="The commit before the change.")
        parser.add_argument(
            "child",
            metavar="CHILD",
            nargs="?",
            help="The commit after it. Default: the working tree, also written as a dot.",
        )
        common_args.add_bench(parser)
        parser.add_argument(
            "--pairs",
            type=int,
            default=MOST_PAIRS,
            metavar="N",
            help="How many pairs of fresh processes to look into at most; fewer where they agree. "
            "Default: %(default)s.",
        )
        arguments.add_building(parser)
        arguments.add_format(parser)
        common_args.add_environment(parser)
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Explain each workload that -b matches, and report."""
        if not args.bench:
            raise UsageError("say which benchmark to explain with -b REGEX")
        if args.pairs < 1:
            raise UsageError("--pairs must be 1 or more")
        with (
            ConsoleReporter(sys.stderr) as reporter,
            contextlib.redirect_stdout(sys.stderr),  # asv prints there; it is the report's alone
        ):
            arguments.apply_building(conf, args)
            workshop = open_workshop(conf, args.env_spec, reporter)
            sides = find_sides(workshop, args.parent, args.child, reporter)
            found = list(_explanations(workshop, sides, args, reporter))
        write_explanations(found, args.format, sys.stdout)
        return _exit_code(found)


def _explanations(
    workshop: Workshop,
    sides: tuple[Side, Side],
    args: argparse.Namespace,
    reporter: ConsoleReporter,
) -> Iterable[Explanation]:
    builds = [provide(workshop, side, reporter) for side in sides]
    reporter.progress("discovering benchmarks")
    shas = [side.commit.sha for side in sides[::-1]]
    workloads, _ = discover(workshop.conf, workshop.repo, workshop.environment, shas, args.bench)
    if len(workloads) > MOST_WORKLOADS:
        raise UsageError(
            f"-b matches {len(workloads)} workloads: narrow it to {MOST_WORKLOADS} or fewer"
        )
    explainer = explainer_for(workshop, args.attribute or {}, pairs=args.pairs)
    prints = {side.commit.fingerprint for side in sides}
    paths = _differing(*(workshop.history.files(side.commit.sha) for side in sides))
    for workload in workloads:
        reporter.progress(f"explaining {workload.name}")
        yield explainer.explain(
            builds[0],
            builds[1],
            workload,
            paths=paths,
            compiled_differs=len(prints) > 1 or "" in prints,
        )


def _differing(before: Iterable[TreeFile], after: Iterable[TreeFile]) -> tuple[str, ...]:
    """The paths that are not the same in both trees."""
    old, new = ({file.path: file.blob for file in files} for files in (before, after))
    return tuple(path for path in sorted({*old, *new}) if old.get(path) != new.get(path))


def _exit_code(found: Iterable[Explanation]) -> int:
    """0 when anything was explained; 1 when nothing differs; 3 when something kept us from it."""
    explanations = list(found)
    if any(explanation.causes for explanation in explanations):
        return 0
    return 1 if all(explanation.level_seconds[0] for explanation in explanations) else 3
