"""Progress while a session runs: rich on a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.status import Status


class ConsoleReporter:
    """Writes progress to a stream that is not the report's.

    On a terminal one living line shows what is being done, and what stands scrolls above it; in
    a pipe every message is a plain line with the seconds since the start.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._began = time.monotonic()

    def __enter__(self) -> ConsoleReporter:
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def progress(self, message: str) -> None:
        """What is being done now."""
        if self._status is not None:
            self._status.update(f"[dim]{self._elapsed()}[/dim] {escape(_printable(message))}")
        else:
            self._console.print(f"{self._elapsed()}  {_printable(message)}", markup=False)

    def found(self, message: str) -> None:
        """Something that stands."""
        text = f"{self._elapsed()}  * {_printable(message)}"
        self._console.print(text, markup=False, style="bold" if self._status else "")

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60:3d}:{seconds % 60:02d}"


def _printable(text: str) -> str:
    """Commit text may hold control characters; a terminal must not obey them."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
