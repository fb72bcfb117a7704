"""A scheduler's request to stop, taken as a person's: children end, results are saved."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM, or the terminal went away."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise Terminated at the first such signal; those that follow are ignored until the end.

    A signal that is ignored already, as by nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()
    before = {
        number: handler
        for number in SIGNALS
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN
    }

    def stop(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:
            # A forked worker of asv's: it ends as it would have.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
