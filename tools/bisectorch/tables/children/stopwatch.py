"""Seconds of a piece of work: wall time, less what the core was held by others (Linux)."""

import time
from typing import Any, Callable, Tuple


def timed(work: Callable[[], Any]) -> Tuple[float, Any]:
    """Seconds of one call, and what it returned.

    The kernel counts how long the main thread was ready to run and did not, as the second number
    of /proc/self/schedstat, in nanoseconds. Waiting for threads of our own is part of the work:
    the loss is never more than the wall time in which no thread of this process ran.
    """
    waited, used, start = waiting(), time.process_time(), time.perf_counter()
    result = work()
    wall = time.perf_counter() - start
    idle = wall - (time.process_time() - used)
    return wall - max(0.0, min(waiting() - waited, idle)), result


def waiting() -> float:
    """Seconds that this thread has waited for a core so far; 0 where the kernel does not tell."""
    try:
        with open("/proc/self/schedstat") as file:
            return 1e-9 * int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
