"""``bisectorch pull-request``: the comparison of a pull or merge request, for CI."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from asv.commands import Command, common_args

from bisectorch.asv_plugin import requests
from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.commands.versus import (
    add_budget,
    add_judging,
    add_layout,
    compare_sides,
    layout_of,
)
from bisectorch.report.versus import write_versus

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


class PullRequest(TeachingErrors, Command):  # type: ignore[misc]
    """Compare what a request starts from with what it ends in."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The options of ``versus``, and where the summary goes."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "pull-request",
            help="Compare both ends of a pull request, in CI",
            description="""Compares what a pull request (GitHub Actions) or merge request (GitLab
            CI) starts from with what it ends in, as versus does. What a shallow clone lacks is
            fetched. Exit code: 1 when anything got worse by at least the smallest step or broke,
            else 0; 2 usage, 4 environment failure.""",
        )
        parser.add_argument("--base", help="The commit to compare with. Default: the request's.")
        parser.add_argument("--head", help="The commit to test. Default: the request's.")
        parser.add_argument(
            "--summary",
            type=Path,
            metavar="FILE",
            help=f"Append the report to this file, in markdown. Default: ${SUMMARY_VARIABLE}.",
        )
        parser.add_argument(
            "--json", type=Path, metavar="FILE", help="Write the report to this file, as JSON."
        )
        parser.add_argument(
            "--report-only", action="store_true", help="Exit with 0 whatever got worse."
        )
        common_args.add_bench(parser)
        add_judging(parser)
        add_budget(parser)
        add_layout(parser)
        arguments.add_building(parser)
        common_args.add_machine(parser)
        common_args.add_environment(parser)
        parser.set_defaults(func=cls.run_from_args, resume=None, dry_run=False)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Find both ends, compare, and write what was asked for."""
        args.old, args.new = args.base, args.head
        if not args.old or not args.new:
            base, head = requests.ends(os.environ)
            args.old, args.new = args.old or base, args.new or head
        if Path(conf.repo).is_dir():
            requests.fetch(Path(conf.repo), args.old, args.new)
        found, layout = compare_sides(conf, args), layout_of(args)
        write_versus(found, args.format, sys.stdout, layout)
        named = os.environ.get(SUMMARY_VARIABLE)
        summary = args.summary or (Path(named) if named else None)
        if summary is not None:
            with summary.open("a", encoding="utf-8") as stream:
                write_versus(found, "markdown", stream, layout)
        if args.json is not None:
            with args.json.open("w", encoding="utf-8") as stream:
                write_versus(found, "json", stream, layout)
        return int(found.got_worse and not args.report_only)
