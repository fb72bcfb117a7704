"""Arguments that several of our commands take, and how they are read."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import Any

from bisectorch.asv_plugin.executors import builders_for
from bisectorch.asv_plugin.sandbox import refuse_without
from bisectorch.asv_plugin.settings import read_size
from bisectorch.errors import UsageError
from bisectorch.report.output import SESSION_FORMATS

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """``90``, ``90s``, ``30m``, ``2h``, ``1d`` or ``1h30m`` as seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smhd]?)", text)
    if not parts or "".join(n + u for n, u in parts) != re.sub(r"\s", "", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 90s, 30m, 2h or 1h30m")
    return sum(float(number) * _SECONDS[unit or "s"] for number, unit in parts)


def smallest_step(text: str) -> float:
    """``3%`` or ``0.03`` as a fraction between 0 and 1."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a step; write 3% or 0.03")
    return value


def confidence(text: str) -> float:
    """``0.95`` or ``95%`` as a fraction between one half and 1."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0.5 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a confidence; write 0.95 or 95%")
    return value


def factor(text: str) -> float:
    """asv's factor, ``1.1``, as the smallest step it stands for, ``0.1``."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1 < value < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor; write 1.1 for 10 %")
    return value - 1


def add_smallest_step(parser: argparse.ArgumentParser, default: float = 0.03) -> None:
    """``--smallest-step``: the smallest relative change that matters."""
    parser.add_argument(
        "--smallest-step",
        type=smallest_step,
        default=default,
        metavar="STEP",
        help=f"The smallest change that matters, as {default:.0%}% or {default}. "
        f"Default: {default:.0%}%.",
    )


def add_factor(parser: argparse.ArgumentParser) -> None:
    """``--factor``: the smallest step as asv writes it."""
    parser.add_argument(
        "--factor",
        "-f",
        dest="smallest_step",
        type=factor,
        metavar="FACTOR",
        help="The same, as asv writes it: 1.1 for 10%%.",
    )


def add_confidence(parser: argparse.ArgumentParser, of_what: str = "a verdict") -> None:
    """``--confidence``: how sure a statement must be."""
    parser.add_argument(
        "--confidence",
        type=confidence,
        default=0.95,
        help=f"How sure {of_what} must be. Default: 0.95.",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """``--format``: how the report is written to standard output."""
    parser.add_argument(
        "--format",
        choices=SESSION_FORMATS,
        default="text",
        help="How to write the report to standard output. Default: text.",
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    """The session a command is about: its name, or its log file, or the latest."""
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="The session's name or the path of its log. Default: the latest one.",
    )


def add_dates(parser: argparse.ArgumentParser) -> None:
    """``--since`` and ``--until``: a range by dates, as git log takes it."""
    parser.add_argument(
        "--since",
        metavar="DATE",
        help="In place of FROM..TO: from the last commit before DATE, to --until or the newest.",
    )
    parser.add_argument("--until", metavar="DATE", help="With --since: to the last commit by DATE.")


def range_spec(args: argparse.Namespace) -> str:
    """The range that was asked for, as ``GitHistory.range`` reads it."""
    if args.since is None and args.until is None:
        if args.range is None:
            raise UsageError("say which commits: FROM..TO, or --since DATE")
        return str(args.range)
    words = [f"--{name}={value}" for name in ("since", "until") if (value := getattr(args, name))]
    return shlex.join([*words, *([args.range] if args.range else [])])


def add_prior(parser: argparse.ArgumentParser) -> None:
    """``--prior``: what the user knows beforehand of the range's commits."""
    parser.add_argument(
        "--prior",
        metavar="FILE_OR_COMMAND",
        help="""How plausible it is that a commit is a culprit: a file of lines SHA WEIGHT, with
        0 < WEIGHT <= 1, or a command that is given the range's commits, one a line, and prints
        such lines. Commits that it does not name keep 1.""",
    )


def add_corroborate(parser: argparse.ArgumentParser) -> None:
    """``--corroborate``: instructions beside the times of culprits."""
    parser.add_argument(
        "--corroborate",
        action=argparse.BooleanOptionalAction,
        help="""Count the instructions of both builds of every culprit found by its time. Default:
        where the kernel counts them; by valgrind it takes a minute or so a culprit.""",
    )


def add_explain(parser: argparse.ArgumentParser) -> None:
    """``--no-explain``: leave it at naming the culprits."""
    parser.add_argument(
        "--explain",
        action=argparse.BooleanOptionalAction,
        help="""Look into both builds of every confirmed culprit, and say which functions and
        operators its step is spent in (some ten seconds a culprit); and at both ends of the range
        into which files run, so that commits that change others are not tried. Default: yes.""",
    )


def memory(text: str) -> int:
    """``16G`` or ``500M`` as bytes."""
    try:
        return read_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_building(parser: argparse.ArgumentParser) -> None:
    """What may be said about builds from source."""
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="Try to build again what is known not to build.",
    )
    parser.add_argument(
        "--build-memory",
        type=memory,
        metavar="SIZE",
        help="Stop a build whose processes together take more memory than this (16G, 500M).",
    )
    parser.add_argument(
        "--sandbox",
        action="store_true",
        help="Run builds and measurements under bubblewrap, without network.",
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """``--dask``: builds on other hosts, or on several workers of this one."""
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help="""Build on the workers of a Dask cluster: tcp://HOST:PORT of its scheduler, or
        local:2 for two workers on this host.""",
    )


def apply_building(conf: Any, args: argparse.Namespace) -> None:
    """Put what was said about builds where the environment finds it."""
    conf.bisectorch_sandbox = getattr(args, "sandbox", False)
    if conf.bisectorch_sandbox:
        refuse_without()
    conf.bisectorch_dask = getattr(args, "dask", None)
    conf.bisectorch_builders = builders_for(getattr(args, "parallel", 1), conf.bisectorch_dask)
    conf.bisectorch_retry_failed = args.retry_failed
    conf.bisectorch_build_memory = args.build_memory
