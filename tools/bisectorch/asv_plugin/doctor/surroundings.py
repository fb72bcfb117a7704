"""What on this machine disturbs measuring, and what to do about it: only what is true of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bisectorch.asv_plugin.doctor.finding import Check, note, ok
from bisectorch.errors import EnvironmentFailure
from bisectorch.measure.counts import find_tool
from bisectorch.measure.machine import Machine, threads_variables

BUSY = 0.5
"""Processes running, on average, above which a machine is not idle."""

HOT_CELSIUS = 85.0
STOLEN = 0.01


def surroundings(conf: Any, machine: Machine | None = None) -> Check:
    """Core, clock, heat, limits, load, threads, and what counts instructions."""
    machine = machine or Machine()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    core = cores[-1]
    yield from _core(machine, cores)
    yield from _clock(machine, core)
    yield from _limits(machine, len(cores))
    yield from _threads(_environment(conf))
    try:
        yield ok(f"instructions (--metric instructions): counted by {find_tool().name}")
    except EnvironmentFailure as error:
        yield note(f"instructions (--metric instructions): {error}")


def _core(machine: Machine, cores: list[int]) -> Check:
    core, load = cores[-1], machine.load()
    busy = "" if load is None else f"; {load:.1f} processes run at the moment"
    if len(cores) == 1:
        yield note(
            f"core {core} is the only one that may be used{busy}: whatever runs beside the "
            "measurements disturbs them; allow a second one"
        )
    elif load is not None and load >= BUSY:
        yield note(
            f"core {core} measures{busy}, which share caches and memory with it: "
            "stop what need not run"
        )
    else:
        yield ok(f"core {core} measures{busy}")
    siblings = machine.siblings(core)
    if siblings:
        others = " and ".join(map(str, siblings))
        yield note(
            f"core {core} shares a physical core with {others} (SMT): what runs there slows it; "
            "measure with SMT off (echo off > /sys/devices/system/cpu/smt/control)"
        )


def _clock(machine: Machine, core: int) -> Check:
    governor = machine.governor(core)
    if governor not in (None, "performance"):
        yield note(
            f"core {core}'s clock is governed by {governor!r}: it changes with the load; "
            "cpupower frequency-set -g performance keeps it up"
        )
    if machine.turbo():
        yield note(
            "turbo is on: clocks rise and fall with heat and with the neighbours' work; off by "
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or "
            "echo 0 > /sys/devices/system/cpu/cpufreq/boost"
        )
    celsius = machine.celsius()
    if celsius is not None and celsius >= HOT_CELSIUS:
        yield note(f"the processor is at {celsius:.0f} °C and may slow itself down: cool it")


def _limits(machine: Machine, cores: int) -> Check:
    quota = machine.quota_cores()
    if quota is not None and quota < cores:
        yield note(
            f"this container may take the time of {quota:g} cores and is stopped when it has: "
            f"allow it {cores} (docker run --cpus), or fewer cores (--cpuset-cpus)"
        )
    throttled = machine.throttled()
    if throttled:
        yield note(f"this container was stopped {throttled} times for having used up its time")
    stolen = machine.stolen()
    if stolen is not None and stolen >= STOLEN:
        yield note(
            f"{stolen:.0%} of this virtual machine's time went to others since it started: "
            "results will drift; blocks cancel what is slow, a machine of its own all of it"
        )


def _threads(environment: Mapping[str, str]) -> Check:
    for name, value in threads_variables(environment).items():
        if value.isdigit() and int(value) > 1:
            yield note(
                f"{name}={value}, but what is measured is pinned to one core, where threads wait "
                f"for each other: set {name}=1 in the matrix of asv.conf.json, or expect noise"
            )


def _environment(conf: Any) -> dict[str, str]:
    """What workers start with; of several values in asv's matrix, the largest number."""
    environment = dict(os.environ)
    matrix = conf.matrix if isinstance(conf.matrix, Mapping) else {}
    for section in ("env", "env_nobuild"):
        given = matrix.get(section)
        for name, values in given.items() if isinstance(given, Mapping) else ():
            listed = values if isinstance(values, list) else [values]
            environment[name] = max(
                (str(value) for value in listed if value), default="", key=_size
            )
    return environment


def _size(text: str) -> int:
    return int(text) if text.isdigit() else 0
