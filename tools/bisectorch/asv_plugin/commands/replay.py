"""``replay`` and ``demo``: the embedded history, and the main job done on it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from asv import config
from asv.commands import Command
from asv.plugin_manager import plugin_manager

from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.commands.bisect import Bisect, bisect_range
from bisectorch.asv_plugin.commands.outcome import exit_code
from bisectorch.asv_plugin.commands.publish import Publish
from bisectorch.model import Findings
from bisectorch.replay import write_replay
from bisectorch.report.output import write_report

DEMO_BENCHMARKS = (
    r"linear\.Linear\.time_forward\(1, 10\)",
    r"linear\.Linear\.time_forward_backward\(1, 10\)",
)
"""Two workloads of the account: what a call costs, and what it costs with its backward."""


class _OnReplay(TeachingErrors):
    """Commands that need no configuration: they write one."""

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        """What the replay is laid over."""
        parser.add_argument(
            "--requirement",
            default="torch==2.13.0",
            help="The wheel that the history is laid over. Default: torch==2.13.0.",
        )
        parser.add_argument("--index-url", help="The package index it comes from.")
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_args(cls, args: argparse.Namespace) -> int:
        """Write the replay, then whatever the command adds."""
        directory = Path(args.directory).absolute()
        write_replay(directory, requirement=args.requirement, index_url=args.index_url)
        return cls.after(directory)

    @classmethod
    def after(cls, directory: Path) -> int:
        """What comes after the replay is written; returns the exit code."""
        raise NotImplementedError(cls.__name__)


class Replay(_OnReplay, Command):  # type: ignore[misc]
    """Write the embedded replay history."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The directory and the wheel."""
        parser = subparsers.add_parser(
            "replay",
            help="Write the embedded history that re-enacts the published account",
            description="""Writes a git repository of some 60 commits, its benchmarks and its
            asv.conf.json into DIR, ready for `asv run` and `bisectorch bisect`.""",
        )
        parser.add_argument("directory", metavar="DIR")
        return cls.add_options(parser)

    @classmethod
    def after(cls, directory: Path) -> int:
        """Say what can be done with it."""
        print(  # noqa: T201
            f"Wrote {directory}: try\n"
            f"  bisectorch bisect --config {directory / 'asv.conf.json'} "
            f"{_first(directory)[:10]}..main -b 'linear.Linear.time_forward\\('"
        )
        return 0


class Demo(_OnReplay, Command):  # type: ignore[misc]
    """The main job, end to end, on the replay."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The directory and the wheel."""
        parser = subparsers.add_parser(
            "demo",
            help="Bisect the embedded history and publish the dashboard",
            description="""Writes the replay into DIR, finds every commit that changed
            nn.Linear, and publishes the dashboard. Exit code: as bisect.""",
        )
        parser.add_argument("directory", metavar="DIR", nargs="?", default=".demo")
        return cls.add_options(parser)

    @classmethod
    def after(cls, directory: Path) -> int:
        """Bisect, publish, and say where the page is."""
        os.chdir(directory)
        conf = config.Config.load("asv.conf.json")
        for plugin in conf.plugins:
            plugin_manager.import_plugin(plugin)
        findings = bisect_range(conf, _options(f"{_first(directory)}..{conf.branches[0]}"))
        write_report(findings, "text", sys.stdout)
        with Path("report.json").open("w", encoding="utf-8") as stream:
            write_report(findings, "json", stream)
        Publish.run(conf)
        _say_where(directory, findings)
        return exit_code(findings)


def _options(commits: str) -> argparse.Namespace:
    """What `bisectorch bisect COMMITS -b ...` would have parsed."""
    subparsers = argparse.ArgumentParser().add_subparsers()
    parser = Bisect.setup_arguments(subparsers)
    patterns = [part for pattern in DEMO_BENCHMARKS for part in ("-b", pattern)]
    return parser.parse_args([commits, *patterns])


def _first(directory: Path) -> str:
    """The first commit of the replay's range."""
    expected = json.loads((directory / "expected.json").read_text(encoding="utf-8"))
    return str(expected["range"]).split("..")[0]


def _say_where(directory: Path, findings: Findings) -> None:
    here = Path.cwd() if directory == Path.cwd() else directory
    page = here / "html" / "culprits" / "index.html"
    print(  # noqa: T201
        f"\nCulprits: {sum(len(found.culprits) for found in findings.workloads)}"
        f"\nThe page: {page}"
        f"\nTo open it: bisectorch preview --config {here / 'asv.conf.json'}"
    )
