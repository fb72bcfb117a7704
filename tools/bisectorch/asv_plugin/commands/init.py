"""``bisectorch init``: makes an asv project that never heard of us one of ours, when asked."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from pathlib import Path
from typing import Any

from asv.commands import Command
from asv.repo import get_repo
from asv.util import load_json

from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.doctor.finding import output, run
from bisectorch.asv_plugin.init import Proposal, Tip, propose, with_proposal
from bisectorch.errors import UsageError
from bisectorch.history import GitHistory, PathClasses

ASV_BRANCH = "master"
NAMES = ("asv.conf.json", "asv.conf.jsonc")


class Init(TeachingErrors, Command):  # type: ignore[misc]
    """Add what Bisectorch needs to an asv.conf.json."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """Whether to ask."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "init",
            help="Make an existing asv project use Bisectorch",
            description="""Adds to asv.conf.json what Bisectorch needs: the environment type, the
            plugin, and a section of settings that follow from the project's files. Shows the
            change and asks before writing it; comments and layout stay. Exit code: 0 when the
            file is as it should be, 2 when it cannot be done or was not wanted.""",
        )
        parser.add_argument("--yes", "-y", action="store_true", help="Write without asking.")
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_args(cls, args: argparse.Namespace) -> int:
        """Find the configuration first, because asv cannot say where else to look."""
        if not args.config:
            args.config = _find()
        try:
            args.said = load_json(args.config, js_comments=True)
        except ValueError as error:
            raise UsageError(f"{args.config} cannot be read: {error}") from error
        if not isinstance(args.said, dict):
            raise UsageError(f"{args.config} is no object")
        return super().run_from_args(args)

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Propose, show, ask, write."""
        path = Path(args.config)
        repository = _repository(conf)
        tip = _tip(conf, repository)
        proposal = propose(args.said, tip, _branch(repository))
        if proposal.is_empty:
            print(f"{path.name} uses Bisectorch already: nothing to do")  # noqa: T201
            return 0
        with path.open(encoding="utf-8", newline="") as stream:
            text = stream.read()
        changed = with_proposal(text, proposal)
        _show(path.name, text, changed, proposal)
        if not args.yes and not _wants(path.name):
            raise UsageError("nothing was changed")
        with path.open("w", encoding="utf-8", newline="") as stream:
            stream.write(changed)
        print(f"Wrote {path.name}. Next: bisectorch doctor")  # noqa: T201
        return 0


def _find() -> str:
    """The configuration here; UsageError that says where there are others."""
    here = [name for name in NAMES if Path(name).is_file()]
    if len(here) == 1:
        return here[0]
    if here:
        raise UsageError(f"there are {' and '.join(here)}: choose one with --config")
    listed = output(["git", "ls-files", "--", "*asv*.conf.json*"]).splitlines()
    if listed:
        raise UsageError(
            f"no asv.conf.json here, but there is {', '.join(listed[:3])}: "
            f"try bisectorch init --config {listed[0]}"
        )
    raise UsageError(
        "no asv.conf.json here: `bisectorch quickstart` makes one, with a benchmark to begin with"
    )


def _repository(conf: Any) -> Path:
    if "://" not in conf.repo and not Path(conf.repo).is_dir():
        raise UsageError(f"repo {conf.repo!r} in asv.conf.json does not exist")
    if conf.dvcs in ("hg", "mercurial") or (Path(conf.repo) / ".hg").is_dir():
        raise UsageError("this is a Mercurial project: Bisectorch reads git histories only")
    return Path(get_repo(conf)._path)


def _tip(conf: Any, repository: Path) -> Tip:
    history = GitHistory(repository, PathClasses(), conf.branches[0])
    commit = history.commit(conf.branches[0] or "HEAD")
    blobs = {file.path: file.blob for file in history.files(commit.sha)}

    def read(path: str) -> bytes:
        return next(content for _, content in history.contents([blobs[path]]))

    return Tip(list(blobs), read, _inside(repository, Path(conf.benchmark_dir)))


def _branch(repository: Path) -> str | None:
    """The checked-out branch, unless there is the one that asv tracks when nothing is said."""
    git = ["git", "-C", str(repository)]
    if run([*git, "rev-parse", "--verify", "--quiet", f"refs/heads/{ASV_BRANCH}"]) == 0:
        return None
    return output([*git, "symbolic-ref", "--quiet", "--short", "HEAD"]) or None


def _inside(repository: Path, benchmarks: Path) -> str:
    """The directory of the benchmarks as the repository names it; empty when it is not inside."""
    inside = os.path.relpath(benchmarks.resolve(), repository.resolve())
    return "" if inside.startswith("..") or inside == "." else Path(inside).as_posix()


def _show(name: str, before: str, after: str, proposal: Proposal) -> None:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, f"{name}, changed", lineterm="", n=1
    )
    print("\n".join(lines))  # noqa: T201
    for note in proposal.notes:
        print(f"note: {note}")  # noqa: T201


def _wants(name: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("say --yes to have this written without being asked")
    return input(f"Write this to {name}? [y/N] ").strip().lower() in ("y", "yes")
