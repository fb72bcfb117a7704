"""Clocks that count instructions, for timeit to read in place of seconds.

Loaded by inspector.py in the child, so: the standard library only, in Python 3.6 syntax.
"""

import ctypes
import errno
import mmap
import os
import platform
import struct
import sys

WINDOWS = 3
"""How many windows callgrind counts; the first call and the first window are thrown away."""

CHEAP_WINDOWS = 15
"""How many the kernel counts: interrupts move its counts a little, and they cost nothing."""

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
"""The number of the system call (man 2 perf_event_open), by platform.machine()."""

HARDWARE, INSTRUCTIONS = 0, 1
"""PERF_TYPE_HARDWARE and PERF_COUNT_HW_INSTRUCTIONS."""

_FLAGS = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6  # disabled, inherit, exclude_kernel, exclude_hv
_TIMES = 1 << 0 | 1 << 1  # read the time enabled and the time running with the count
_ENABLE = 0x2400

_RUNNING_ON_VALGRIND = 0x1001
_READ_WRITE_EXECUTE = 1 | 2 | 4
_DUMP, _ZERO, _START, _STOP = 0x43540000, 0x43540001, 0x43540004, 0x43540005
"""callgrind's requests (valgrind/callgrind.h): the letters C and T, then a number."""

_REQUEST_X86_64 = bytes(
    bytearray.fromhex(
        "4889f8"  # mov rax, rdi: the address of the request
        "31d2"  # xor edx, edx: the answer where nobody listens
        "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61 and 51: nothing, in effect
        "4887db"  # xchg rbx, rbx
        "4889d0 c3"  # mov rax, rdx; ret
    )
)
"""A client request as valgrind.h has the compiler write it; outside valgrind it does nothing."""


class NotCounted(Exception):
    """Instructions cannot be counted; the text says why and what helps."""


class PerfClock(object):
    """Instructions that this thread and those it starts execute in user space (Linux).

    Called like a timer, it returns how many there were since it was opened. Open it before the
    project is imported: threads that exist already are not counted.
    """

    name = "perf events"
    windows = CHEAP_WINDOWS

    def __init__(self, kind: int = HARDWARE, event: int = INSTRUCTIONS) -> None:
        """Open the counter; NotCounted where the kernel or the processor has none."""
        number = PERF_EVENT_OPEN.get(platform.machine())
        if number is None or not sys.platform.startswith("linux"):
            raise NotCounted("this system has no perf events")
        attributes = struct.pack("=IIQQQQQIIQ", kind, 64, event, 0, 0, _TIMES, _FLAGS, 0, 0, 0)
        library = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(attributes, 64)
        close_on_exec = 8
        self._descriptor = library.syscall(number, buffer, 0, -1, -1, close_on_exec)
        if self._descriptor < 0:
            raise NotCounted(why_refused(ctypes.get_errno()))
        if library.ioctl(self._descriptor, _ENABLE, 0) < 0:
            raise NotCounted("the kernel's counter does not start")
        self()

    def __call__(self) -> float:
        """Instructions until now."""
        count, enabled, running = struct.unpack("=QQQ", os.read(self._descriptor, 24))
        if running < enabled:
            raise NotCounted("the processor's counters are shared with another program")
        return float(count)

    def start(self) -> None:
        """It runs since it was opened."""

    def stop(self) -> None:
        """It runs to the end."""

    def close(self) -> None:
        """Give the counter back."""
        os.close(self._descriptor)


def why_refused(error: int) -> str:
    """What the kernel means by refusing a counter, and what helps."""
    if error in (errno.EACCES, errno.EPERM):
        return (
            "the kernel does not permit to count instructions "
            "(sysctl kernel.perf_event_paranoid=2 does, a container may forbid it besides)"
        )
    if error in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "the processor's counters are not to be had here (as in many virtual machines)"
    return "the kernel counts no instructions here: " + os.strerror(error)


class CallgrindClock(object):
    """Instructions of this whole process, counted by the callgrind that runs it.

    Each call writes what was counted since the last one into a file, adds it up and starts from
    zero: its own work is not counted, but for what lies between the zero and its return.
    """

    name = "callgrind"
    windows = WINDOWS

    def __init__(self, prefix: str) -> None:
        """``prefix`` is how the names of callgrind's files begin; NotCounted outside callgrind."""
        if platform.machine() not in ("x86_64", "AMD64"):
            raise NotCounted("callgrind can be told when to count on x86-64 only")
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=_READ_WRITE_EXECUTE)
        self._page.write(_REQUEST_X86_64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._request = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)(address)
        self._arguments = (ctypes.c_ulong * 6)()
        if not self._ask(_RUNNING_ON_VALGRIND):
            raise NotCounted("this process does not run under callgrind")
        self._prefix = prefix
        self._dumps = 0
        self._total = 0.0

    def _ask(self, request: int) -> int:
        self._arguments[0] = request
        return int(self._request(ctypes.addressof(self._arguments)))

    def __call__(self) -> float:
        """Instructions until now."""
        self._ask(_DUMP)
        self._dumps += 1
        path = "%s.%d" % (self._prefix, self._dumps)
        with open(path) as file:
            for line in file:
                if line.startswith(("summary:", "totals:")):
                    self._total += float(line.split()[1])
                    break
        os.unlink(path)
        self._ask(_ZERO)
        return self._total

    def start(self) -> None:
        """Count from now on; until then the program runs ten times faster."""
        self._ask(_START)

    def stop(self) -> None:
        """Count no longer."""
        self._ask(_STOP)

    def close(self) -> None:
        """Nothing is held."""
