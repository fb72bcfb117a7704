"""The entry point: asv's parser with our commands in it, and exit codes that mean something."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import shtab
from asv import commands, util
from asv.console import log
from threadpoolctl import threadpool_limits

import bisectorch
from bisectorch.asv_plugin import commands as _our_commands  # noqa: F401  adds them to asv's
from bisectorch.asv_plugin.signals import Terminated, stoppable
from bisectorch.asv_plugin.versions import VersionAction
from bisectorch.errors import BisectorchError

STOPPED = 130
TERMINATED = 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 culprits found (or simply done), 1 none, 2 usage, 3 inconclusive, 4 environment failure,
    130 stopped by Ctrl-C, 143 by a scheduler's SIGTERM. asv's own commands keep asv's codes.
    """
    # Spinning library threads of this process would disturb what is being measured; children
    # must not inherit a setting, so it is not made in the environment.
    threadpool_limits(1)
    parser = make_parser()
    args = parser.parse_args(argv)
    if not hasattr(args, "func"):
        parser.print_help()
        return BisectorchError.exit_code
    log.enable(args.verbose)
    try:
        if args.config:
            args.config = str(Path(args.config).absolute())
            os.chdir(Path(args.config).parent)
        with stoppable():
            return int(args.func(args) or 0)
    except BisectorchError as error:
        return _refuse(str(error), error.exit_code)
    except util.UserError as error:
        return _refuse(str(error), 1)
    except FileNotFoundError as error:
        return _refuse(f"no such file or directory: {error.filename}", 2)
    except KeyboardInterrupt as stop:
        return _refuse("stopped", TERMINATED if isinstance(stop, Terminated) else STOPPED)
    finally:
        log.flush()


def make_parser() -> argparse.ArgumentParser:
    """asv's parser, with our commands and under our name."""
    parser, subparsers = commands.make_argparser()
    parser.description = (bisectorch.__doc__ or "").strip()
    shtab.add_argument_to(
        parser,
        "--print-completion",
        help="Print what completes our commands in a shell, for it to read, and exit",
    )
    for each in (parser, *subparsers.choices.values()):
        each.prog = each.prog.replace("asv", "bisectorch", 1)
        for action in each._actions:
            if isinstance(action, argparse._VersionAction):
                action.__class__ = VersionAction
    return parser  # type: ignore[no-any-return]


def _refuse(message: str, code: int) -> int:
    print(f"bisectorch: {message}", file=sys.stderr)  # noqa: T201
    return code
