"""``bisectorch publish``: asv's site and ours, made from what changed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from asv import util
from asv.commands import Command
from asv.commands.publish import Publish as AsvPublish
from asv.console import log
from asv.plugins.git import Git
from asv.repo import get_repo

from bisectorch.asv_plugin import publisher
from bisectorch.asv_plugin.commands.base import TeachingErrors


class Publish(TeachingErrors, Command):  # type: ignore[misc]
    """Replaces asv's command of this name, which makes everything anew each time."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """The options that asv's command has."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "publish",
            help="Publish results, culprits and comparisons as a website",
            description="""Writes a static site into html_dir: asv's own pages, the culprits of
            every session, a page a workload, and comparisons. Needs no network to be looked at.
            Only what changed since the last time is made anew.""",
        )
        parser.add_argument("--no-pull", action="store_true", help="Do not pull the repository.")
        parser.add_argument(
            "--html-dir", "-o", help="The site's folder. Default: html_dir of asv.conf.json."
        )
        parser.add_argument(
            "--all", action="store_true", help="Make everything anew, whatever changed."
        )
        parser.add_argument(
            "range", nargs="?", help="Publish results of this range only, by asv's own command."
        )
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Publish."""
        if args.html_dir is not None:
            conf.html_dir = args.html_dir
        if args.range is not None:
            AsvPublish.run(conf, range_spec=args.range, pull=not args.no_pull)
            return 0
        cls.run(conf, pull=not args.no_pull, anew=args.all)
        return 0

    @classmethod
    def run(cls, conf: Any, *, pull: bool = True, anew: bool = False) -> None:
        """Publish everything; where there is no repository, what needs none."""
        # Drawing takes long to load, and asv loads this module with every command.
        from bisectorch.asv_plugin.publishing.engine import Publication
        from bisectorch.report.folder import Folder
        from bisectorch.report.site import Problem

        cache = publisher.cache_dir(conf)
        if anew:
            for path in cache.glob("*.bin"):
                path.unlink()
        try:
            repo = get_repo(conf)
        except (util.UserError, util.ProcessError) as error:
            reason = str(error).strip().splitlines()[0]
            log.warning(f"no repository, so asv's graphs are left out: {reason}")
            problem = Problem(str(conf.repo), f"{reason}: asv's graphs are left out")
            folder = Folder(Path(conf.html_dir))
            publisher.publish_sessions(conf, folder, publisher.Culprits.conclude, (problem,))
            folder.write("index.html", _REDIRECT)
            return
        if not isinstance(repo, Git):
            AsvPublish.run(conf, pull=pull)
            return
        if pull:
            repo.pull()
        publication = Publication(conf, repo, cache, publisher.stamp())
        publication.make()
        publication.write()
        publication.write_index(publication.publish_others())
        publication.folder.remove_others()
        log.info(f"{publication.folder.written} files written into {conf.html_dir}")


_REDIRECT = (
    b"<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<title>Culprits</title>\n"
    b'<meta http-equiv=refresh content="0; url=culprits/index.html">\n'
    b'<p><a href="culprits/index.html">Culprits</a></p>\n</html>\n'
)
