"""What all our commands share: one clear line for a fault, never a traceback."""

from __future__ import annotations

import argparse
import os
from typing import Any, NoReturn

from asv import config, util
from asv.environment import EnvironmentUnavailable
from asv.plugin_manager import plugin_manager

from bisectorch.asv_plugin.wholefiles import whole_files
from bisectorch.errors import BisectorchError, EnvironmentFailure, UsageError


class TeachingErrors:
    """For an asv command: its faults become our exit codes."""

    @classmethod
    def run_from_args(cls, args: argparse.Namespace) -> int:
        """Load the configuration and its plugins, then run; faults as BisectorchError."""
        try:
            conf = config.Config.load(args.config)
            for plugin in conf.plugins:
                plugin_manager.import_plugin(plugin)
            with whole_files():
                return int(cls.run_from_conf_args(conf, args) or 0)
        except BisectorchError:
            raise
        except EnvironmentUnavailable as error:
            raise EnvironmentFailure(str(error)) from error
        except util.ProcessError as error:
            _fail(error)
        except util.UserError as error:
            raise UsageError(str(error) or "the benchmarks cannot be loaded") from error
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise EnvironmentFailure(f"{os.strerror(error.errno or 0)}{where}") from error

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """The command itself; returns its exit code."""
        raise NotImplementedError(cls.__name__)


def _fail(error: util.ProcessError) -> NoReturn:
    """The last telling line of a process that failed."""
    output = (error.stderr or error.stdout or "").strip().splitlines()
    telling = next((line for line in reversed(output) if line.strip()), f"exit {error.retcode}")
    command = error.args[0] if isinstance(error.args[0], str) else " ".join(error.args[0])
    raise EnvironmentFailure(f"{' '.join(command.split()[:3])} failed: {telling}") from error
