"""Profiles as a child process would have made them, from a picture of who calls whom."""

from __future__ import annotations

from dataclasses import dataclass

from bisectorch.explain.profile import Context, Operator, Overhead, Profile, Spot
from bisectorch.model import SpentIn

OWN = "pkg/layer.py"


def python(name: str, path: str = OWN, *, own: bool = True) -> Spot:
    """A Python function of the tree."""
    return Spot(SpentIn.PYTHON, path, name, own)


def builtin(name: str) -> Spot:
    """A compiled function."""
    return Spot(SpentIn.BUILTIN, "", name)


@dataclass(frozen=True)
class Call:
    """A function called so often by the one above, each call costing so much in itself."""

    spot: Spot
    calls: float
    seconds: float
    callees: tuple[Call, ...] = ()


def call(spot: Spot, calls: float, seconds: float, *callees: Call) -> Call:
    """A branch of the picture; ``calls`` a call of the caller, ``seconds`` a call of itself."""
    return Call(spot, calls, seconds, callees)


NO_OVERHEAD = Overhead()


def profile(
    *roots: Call, overhead: Overhead = NO_OVERHEAD, operators: tuple[Operator, ...] = ()
) -> Profile:
    """What a child sees of this picture, with what a profiler of this overhead adds."""
    contexts: list[Context] = []
    edges: dict[tuple[Spot | None, Spot], list[float]] = {}

    def add(each: Call, caller: int, times: float) -> None:
        total = each.calls * times
        above = contexts[caller].spot if caller >= 0 else None
        contexts.append(Context(each.spot, total, caller))
        here = len(contexts) - 1
        slower = overhead.slower if each.spot.kind is SpentIn.PYTHON else 1.0
        seconds = total * (each.seconds * slower + overhead.of(each.spot)[0])
        seconds += total * sum(c.calls * overhead.of(c.spot)[1] for c in each.callees)
        edge = edges.setdefault((above, each.spot), [0.0, 0.0])
        edge[0] += total
        edge[1] += seconds
        for callee in each.callees:
            add(callee, here, total)

    for root in roots:
        add(root, -1, 1.0)
    plain = sum(_total(root) for root in roots)
    return Profile(
        contexts=tuple(contexts),
        edges={key: (calls, seconds) for key, (calls, seconds) in edges.items()},
        overhead=overhead,
        plain_seconds=plain,
        profiled_seconds=sum(seconds for _, seconds in edges.values()),
        operators=operators,
        method="torch.profiler" if operators else "",
    )


def _total(each: Call) -> float:
    return each.calls * (each.seconds + sum(_total(callee) for callee in each.callees))


def operator(name: str, seconds: float, calls: float = 1.0) -> Operator:
    """A row of PyTorch's profiler; a node of the graph by its name."""
    kind = SpentIn.GRADIENT if "Backward" in name else SpentIn.OPERATOR
    return Operator(name, kind, calls, seconds, seconds)
