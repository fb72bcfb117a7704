"""Faults a user can fix, each with the exit code that the command line owes them.

Nothing here imports anything of ours: every room may raise these.
"""

from __future__ import annotations


class BisectorchError(Exception):
    """A fault with one clear line that says what to do; never shown as a traceback."""

    exit_code = 2


class UsageError(BisectorchError):
    """The request itself cannot be served: a range, a benchmark, an option."""

    exit_code = 2


class EnvironmentFailure(BisectorchError):
    """The machine, the interpreter, the package index or the disk stands in the way."""

    exit_code = 4


class LogError(BisectorchError):
    """A session log that cannot be read, or that belongs to a newer version."""

    exit_code = 2


class Unbuildable(BisectorchError):
    """One commit has no usable build; an outcome of that commit, not of the session.

    Attributes:
        reason: the telling line, shown in reports.
    """

    exit_code = 4

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
