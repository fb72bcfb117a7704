"""The tables by name, and what every one of them states beside its figures."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bisectorch.errors import UsageError
from bisectorch.tables import characters, labeler, linear, overhead
from bisectorch.tables.bench import Bench
from bisectorch.tables.linear import Levels
from bisectorch.tables.shapes import Form, Table

Maker = Callable[[Bench, Form, Levels | None], Table]

MAKERS: dict[str, Maker] = {
    "A1": lambda bench, form, levels: labeler.whole_run(bench, form),
    "A2": lambda bench, form, levels: labeler.stages(bench, form),
    "A3": lambda bench, form, levels: labeler.functions(bench, form),
    "A4": linear.by_commit,
    "A5": lambda bench, form, levels: labeler.larger(bench, form),
    "A6": lambda bench, form, levels: overhead.variables(bench, form),
    "A7": overhead.projection,
    "B": lambda bench, form, levels: characters.models(bench, form),
    "profile": lambda bench, form, levels: characters.profile(bench, form),
}
NAMES = tuple(MAKERS)


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """Those asked for, in their own order, whichever way they are written; UsageError."""
    known = {name.lower(): name for name in NAMES}
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"there is no table {name!r}; there are: {', '.join(NAMES)}")
    asked = {known[name.lower()] for name in names} or set(NAMES)
    return tuple(name for name in NAMES if name in asked)


def make(name: str, bench: Bench, form: Form, levels: Levels | None, label: str) -> Table:
    """One table, with the conditions that its figures hold for."""
    began = time.time()
    table = MAKERS[name](bench, form, levels)
    return replace(table, conditions=conditions(bench, form, label, began))


def conditions(bench: Bench, form: Form, label: str, began_seconds: float) -> dict[str, str]:
    """What our figures hold for: time, cores, threads, versions."""
    pinned = "any core" if bench.core is None else f"core {bench.core}"
    rounds = f"{bench.rounds} fresh process{'es' if bench.rounds > 1 else ''} a figure"
    told = {
        "measured": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began_seconds)),
        "took": f"{time.time() - began_seconds:.0f} s",
        "form": f"{form.value}, {rounds}" + (", interleaved, median" if bench.rounds > 1 else ""),
        "clock": "wall time, less what others held the core",
        "torch at hand": label,
        "cores": f"{bench.cores} usable of {os.cpu_count()}, {_processor()}",
        "threads": f"OMP_NUM_THREADS=1 on {pinned}; rows that do not say so: {bench.cores} threads"
        if bench.cores > 1
        else f"OMP_NUM_THREADS=1 on {pinned}",
    }
    versions = {k: v for k, v in bench.versions.items() if k != "torch threads"}
    told["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return told


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
