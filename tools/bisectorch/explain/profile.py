"""What one child process saw of one build, freed of what looking cost. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bisectorch.model import SpentIn

ENGINE = "run_backward"
"""The compiled function behind which PyTorch walks the graph of gradients."""


@dataclass(frozen=True)
class Spot:
    """A function, the same in both builds: a Python one by file and name, a compiled one by name.

    ``own`` is told of files in the build's tree, as opposed to the standard library, the
    benchmark and the like, which both builds share.
    """

    kind: SpentIn
    path: str
    name: str
    own: bool = False


@dataclass(frozen=True)
class Context:
    """A function as called through one chain of callers.

    Attributes:
        spot: the function.
        calls: how often a call of the workload comes here.
        caller: the position of the calling context, -1 for the workload's own caller.
    """

    spot: Spot
    calls: float
    caller: int


@dataclass(frozen=True)
class Overhead:
    """What cProfile adds: seconds a call to callee and caller, and a factor for Python code.

    ``methods`` names the compiled functions that are methods, each call of which costs more.
    """

    python: tuple[float, float] = (0.0, 0.0)
    builtin: tuple[float, float] = (0.0, 0.0)
    slower: float = 1.0
    method: tuple[float, float] = (0.0, 0.0)
    methods: frozenset[str] = frozenset()

    def of(self, spot: Spot) -> tuple[float, float]:
        """What a call of this function costs its callee and its caller."""
        if spot.kind is not SpentIn.BUILTIN:
            return self.python
        return self.method if spot.name in self.methods else self.builtin


@dataclass(frozen=True)
class Operator:
    """A row of PyTorch's own profiler, for one call of the workload."""

    name: str
    kind: SpentIn
    calls: float
    self_seconds: float
    total_seconds: float


@dataclass(frozen=True)
class Profile:
    """One child's view of one workload on one build; all numbers for one call of it.

    Attributes:
        contexts: callers before callees.
        edges: (caller, callee) to calls and the callee's own seconds, as cProfile timed them.
        overhead: what cProfile added.
        plain_seconds, profiled_seconds: a call without and with cProfile.
        operators: PyTorch's own rows, its cost an event, and the profiler's name.
        labels: compiled functions as people know them, by their names.
        lines: where Python functions begin.
        executed, prepared, imported: files of the tree, as ``model.Trace`` means them.
        engine_apart: autograd runs backward in a thread of its own.
        busy: others used the core, so that processor time was profiled, which knows no waiting.
        interpreter: what ran it, as it describes itself.
    """

    contexts: tuple[Context, ...]
    edges: Mapping[tuple[Spot | None, Spot], tuple[float, float]]
    overhead: Overhead = Overhead()
    plain_seconds: float = 0.0
    profiled_seconds: float = 0.0
    operators: tuple[Operator, ...] = ()
    operator_overhead: float = 0.0
    method: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[Spot, int] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    engine_apart: bool = False
    busy: bool = False
    interpreter: str = ""

    @property
    def executed(self) -> tuple[str, ...]:
        """The tree's files with code that runs in what is measured."""
        return tuple(sorted({c.spot.path for c in self.contexts if c.spot.own}))


def read(seen: Mapping[str, Any], operators: Mapping[str, Any] | None = None) -> Profile:
    """A profile from the child's own words, with what it said of operators if it was asked."""
    torch = operators or {"rows": [], "overhead": 0.0, "method": ""}
    spots = [
        Spot(SpentIn(kind), str(path), str(name), bool(own))
        for kind, path, name, _line, own in seen["keys"]
    ]
    lines = {spot: int(key[3]) for spot, key in zip(spots, seen["keys"], strict=True)}
    edges: dict[tuple[Spot | None, Spot], tuple[float, float]] = {}
    for caller, callee, calls, seconds in seen["edges"]:
        edges[spots[caller] if caller >= 0 else None, spots[callee]] = (calls, seconds)
    cost = seen["overhead"]
    return Profile(
        contexts=tuple(
            Context(spots[spot], float(calls), int(caller)) for spot, calls, caller in seen["tree"]
        ),
        edges=edges,
        overhead=Overhead(
            (cost["python"][0], cost["python"][1]),
            (cost["builtin"][0], cost["builtin"][1]),
            cost["slower"][0],
            (cost["method"][0], cost["method"][1]),
            frozenset(seen["methods"]),
        ),
        plain_seconds=middle(seen["plain"]),
        profiled_seconds=middle(seen["profiled"]),
        operators=tuple(
            Operator(name, SpentIn(kind), calls, own, total)
            for name, kind, calls, own, total in torch["rows"]
        ),
        operator_overhead=torch["overhead"],
        method=torch["method"],
        labels=seen["labels"],
        lines=lines,
        prepared=tuple(seen["prepared"]),
        imported=tuple(seen["imported"]),
        engine_apart=bool(seen["apart"]),
        busy=bool(seen["busy"]),
        interpreter=str(seen["interpreter"]),
    )


def corrected(profile: Profile) -> dict[tuple[Spot | None, Spot], float]:
    """The edges' seconds without cProfile's cost.

    From a function's own time goes, for each call of it, what that charges to a callee, and for
    each call that it makes, what that charges to a caller; what is left of a Python function is
    divided by the factor that Python code slows down by. Nothing gets below zero.
    """
    own: dict[Spot, float] = defaultdict(float)
    cost: dict[Spot, float] = defaultdict(float)
    for (caller, callee), (calls, seconds) in profile.edges.items():
        to_callee, to_caller = profile.overhead.of(callee)
        own[callee] += seconds
        cost[callee] += calls * to_callee
        if caller is not None:
            cost[caller] += calls * to_caller
    kept = {
        spot: max(0.0, seconds - cost[spot])
        / (profile.overhead.slower if spot.kind is SpentIn.PYTHON else 1.0)
        for spot, seconds in own.items()
    }
    return {
        (caller, callee): kept[callee] * seconds / own[callee] if own[callee] else 0.0
        for (caller, callee), (_, seconds) in profile.edges.items()
    }


def by_context(profile: Profile, level_seconds: float) -> tuple[list[float], float]:
    """Each context's own seconds, which add up to ``level_seconds``; and what has no context.

    An edge's time is shared among the contexts in which it occurs by their calls: a caller's
    callee is taken to cost the same whoever called the caller.
    """
    seconds = corrected(profile)
    if ENGINE in {spot.name for _, spot in seconds} and profile.engine_apart and not profile.busy:
        _take_waiting_off(seconds, profile)
    total = sum(seconds.values())
    scale = level_seconds / total if total else 0.0
    spots = [context.spot for context in profile.contexts]
    keys = [(spots[c.caller] if c.caller >= 0 else None, c.spot) for c in profile.contexts]
    calls: dict[tuple[Spot | None, Spot], float] = defaultdict(float)
    for key, context in zip(keys, profile.contexts, strict=True):
        calls[key] += context.calls
    placed = [
        scale * seconds.get(key, 0.0) * context.calls / calls[key] if calls[key] else 0.0
        for key, context in zip(keys, profile.contexts, strict=True)
    ]
    return placed, level_seconds - sum(placed)


def _take_waiting_off(seconds: dict[tuple[Spot | None, Spot], float], profile: Profile) -> None:
    """While the engine's own thread runs Python, the thread that waits for it does nothing."""
    waiting = [key for key in seconds if key[1].name == ENGINE]
    engine = {
        position for position, context in enumerate(profile.contexts) if context.spot.name == ENGINE
    }
    below: set[Spot] = set()
    inside = set(engine)
    for position, context in enumerate(profile.contexts):
        if context.caller in inside:
            inside.add(position)
            below.add(context.spot)
    busy = sum(value for (_, callee), value in seconds.items() if callee in below)
    for key in waiting:
        seconds[key] = max(0.0, seconds[key] - busy / len(waiting))


def operator_rows(profile: Profile, level_seconds: float) -> dict[str, Operator]:
    """PyTorch's rows without its profiler's cost an event, on the scale of an unprofiled call."""
    scale = level_seconds / profile.plain_seconds if profile.plain_seconds else 1.0
    rows = {}
    for row in profile.operators:
        own = max(0.0, row.self_seconds - row.calls * profile.operator_overhead) * scale
        total = max(own, (row.total_seconds - row.calls * profile.operator_overhead) * scale)
        rows[row.name] = Operator(row.name, row.kind, row.calls, own, total)
    return rows


def middle(values: Sequence[float]) -> float:
    """The median; 0 of nothing."""
    return statistics.median(values) if values else 0.0
