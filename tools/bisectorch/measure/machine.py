"""What this machine tells of itself: load, clock, temperature, and what limits or disturbs it.

Everything is read from the kernel's own files (Linux); what is not there is None, never a guess.
"""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bisectorch.model import MachineState

THREADS_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "TORCH_NUM_THREADS",
)

_PROCESSOR_ZONES = re.compile(r"x86_pkg_temp|cpu|soc|package", re.IGNORECASE)
_PROCESSOR_CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_SANE_CELSIUS = (-40.0, 150.0)


@dataclass(frozen=True)
class Machine:
    """This machine; ``root`` is where its files are, for tests."""

    root: Path = Path("/")

    def state(self, block: str, core: int | None) -> MachineState:
        """How it is now."""
        return MachineState(block, time.time(), self.load(), self.mhz(core), self.celsius())

    def load(self) -> float | None:
        """Processes running or waiting to run, averaged over the last minute."""
        return _number(self._read("proc/loadavg").partition(" ")[0])

    def mhz(self, core: int | None) -> float | None:
        """The clock of a core (of the first one for None), in MHz."""
        number = core or 0
        khz = _number(self._read(f"{_CPU}/cpu{number}/cpufreq/scaling_cur_freq"))
        if khz is not None:
            return khz / 1000
        processors = self._read("proc/cpuinfo").split("\n\n")
        for text in processors:
            fields = dict(re.findall(r"^(\w[\w ]*?)\s*:\s*(.*)$", text, re.MULTILINE))
            if fields.get("processor") == str(number):
                return _number(fields.get("cpu MHz", ""))
        return None

    def celsius(self) -> float | None:
        """The temperature of the processor; the hottest of several."""
        found = [
            _number(_text(zone / "temp"))
            for zone in self._glob("sys/class/thermal/thermal_zone*")
            if _PROCESSOR_ZONES.search(_text(zone / "type"))
        ]
        for chip in self._glob("sys/class/hwmon/hwmon*"):
            if _text(chip / "name") in _PROCESSOR_CHIPS:
                found += [_number(_text(path)) for path in sorted(chip.glob("temp*_input"))]
        low, high = _SANE_CELSIUS
        degrees = [value / 1000 for value in found if value is not None]
        return max((value for value in degrees if low < value < high), default=None)

    def governor(self, core: int | None) -> str | None:
        """How the kernel chooses the core's clock, for example ``performance``."""
        return self._read(f"{_CPU}/cpu{core or 0}/cpufreq/scaling_governor") or None

    def turbo(self) -> bool | None:
        """Whether cores may exceed their nominal clock for as long as heat allows."""
        off = self._read(f"{_CPU}/intel_pstate/no_turbo")
        if off in ("0", "1"):
            return off == "0"
        boost = self._read(f"{_CPU}/cpufreq/boost")
        return boost == "1" if boost in ("0", "1") else None

    def siblings(self, core: int | None) -> tuple[int, ...]:
        """The other logical cores on the same physical one."""
        listed = self._read(f"{_CPU}/cpu{core or 0}/topology/thread_siblings_list")
        return tuple(number for number in _numbers(listed) if number != (core or 0))

    def is_virtual(self) -> bool:
        """Whether a hypervisor shares the processor out: neighbours then do not show as load."""
        flags = re.search(r"^flags\s*:(.*)$", self._read("proc/cpuinfo"), re.MULTILINE)
        return flags is not None and "hypervisor" in flags.group(1).split()

    def stolen(self) -> float | None:
        """The share of processor time, since the start, that the hypervisor gave to others."""
        fields = [_number(word) for word in self._read("proc/stat").partition("\n")[0].split()[1:]]
        ticks = [field for field in fields if field is not None][:8]
        total = math.fsum(ticks)
        return ticks[7] / total if len(ticks) == 8 and total else None

    def quota_cores(self) -> float | None:
        """How many cores' time the container may take; None without a limit."""
        for directory in self._control_groups():
            words = _text(directory / "cpu.max").split()
            if len(words) != 2:
                words = [_text(directory / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
            quota, period = (_number(word) for word in words)
            if quota is not None and period and quota > 0:
                return quota / period
        return None

    def throttled(self) -> int | None:
        """How often the container was stopped for having used up its time; None if not told."""
        for directory in self._control_groups():
            found = re.search(r"^nr_throttled (\d+)$", _text(directory / "cpu.stat"), re.MULTILINE)
            if found:
                return int(found.group(1))
        return None

    def facts(self, core: int | None) -> Mapping[str, str]:
        """What does not change while a session runs, for its log."""
        turbo = self.turbo()
        facts = {
            "kernel": platform.release(),
            "governor": self.governor(core) or "",
            "turbo": "" if turbo is None else "on" if turbo else "off",
            "shares a physical core": "yes" if self.siblings(core) else "",
        }
        return {name: text for name, text in facts.items() if text}

    def _control_groups(self) -> Iterable[Path]:
        """The control groups whose limits hold for this process, innermost first."""
        for line in self._read("proc/self/cgroup").splitlines():
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if names and "cpu" not in names.split(","):
                continue
            bases = [f"sys/fs/cgroup/{names}", "sys/fs/cgroup/cpu"] if names else ["sys/fs/cgroup"]
            for base in bases:
                inner = self.root / base / path.lstrip("/")
                top = self.root / base
                while inner != top and top in inner.parents:
                    yield inner
                    inner = inner.parent
                yield top

    def _read(self, path: str) -> str:
        return _text(self.root / path)

    def _glob(self, pattern: str) -> list[Path]:
        return sorted(self.root.glob(pattern))


_CPU = "sys/devices/system/cpu"


def threads_variables(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that set numbers of threads, those that are set."""
    given = os.environ if environment is None else environment
    return {name: given[name] for name in THREADS_VARIABLES if given.get(name)}


def _text(path: Path) -> str:
    """A file of one value, stripped; empty where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _numbers(listed: str) -> Iterable[int]:
    """``0-2,5`` as 0, 1, 2, 5; nothing for what is no such list."""
    for part in listed.split(","):
        ends = part.strip().split("-")
        if all(end.isdigit() for end in ends) and len(ends) <= 2:
            yield from range(int(ends[0]), int(ends[-1]) + 1)
