"""Two builds' calls in one tree, context by context. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bisectorch.explain.profile import Profile, Spot, by_context, middle
from bisectorch.model import CodeChange, Difference, SpentIn

Pair = tuple[float, float]


@dataclass
class Branch:
    """A context in both builds; pairs are (parent, child), for one call of the workload."""

    spot: Spot | None
    calls: list[float] = field(default_factory=lambda: [0.0, 0.0])
    own: list[float] = field(default_factory=lambda: [0.0, 0.0])
    callees: dict[Spot, Branch] = field(default_factory=dict)

    @property
    def grew(self) -> float:
        """By how much its own time grew."""
        return self.own[1] - self.own[0]

    def total(self, side: int) -> float:
        """Own time and that of all it calls."""
        return self.own[side] + sum(callee.total(side) for callee in self.callees.values())

    @property
    def grew_in_all(self) -> float:
        """By how much the time spent here and below grew."""
        return self.total(1) - self.total(0)

    def walk(self) -> Iterator[Branch]:
        """This and everything below, callers first."""
        waiting = [self]
        while waiting:
            branch = waiting.pop()
            yield branch
            waiting.extend(branch.callees.values())


def grow(parents: Sequence[Profile], children: Sequence[Profile], levels: Pair) -> Branch:
    """One tree of both builds; a context's time is the median over each build's profiles."""
    root = Branch(None)
    for side, (profiles, level) in enumerate(zip((parents, children), levels, strict=True)):
        found: dict[tuple[Spot, ...], list[tuple[float, float]]] = {}
        loose = []
        for profile in profiles:
            placed, rest = by_context(profile, level)
            loose.append(rest)
            paths: list[tuple[Spot, ...]] = []
            for context, seconds in zip(profile.contexts, placed, strict=True):
                path = (*(paths[context.caller] if context.caller >= 0 else ()), context.spot)
                paths.append(path)
                found.setdefault(path, []).append((context.calls, seconds))
        for path, seen in found.items():
            branch = root
            for spot in path:
                branch = branch.callees.setdefault(spot, Branch(spot))
            branch.calls[side] = middle([calls for calls, _ in seen])
            branch.own[side] = middle([seconds for _, seconds in seen])
        root.own[side] = middle(loose)
    return root


def rows(
    root: Branch, changes: Mapping[Spot, CodeChange], lines: Mapping[Spot, int], labels: Labels
) -> tuple[Difference, ...]:
    """Every function once, with its own time and its time in all, over all its contexts."""
    found: dict[Spot, _Sums] = {}
    _collect(root, found, frozenset())
    return tuple(_difference(spot, sums, changes, lines, labels) for spot, sums in found.items())


@dataclass
class _Sums:
    """A function's numbers over all its contexts; pairs are (parent, child)."""

    calls: list[float] = field(default_factory=lambda: [0.0, 0.0])
    own: list[float] = field(default_factory=lambda: [0.0, 0.0])
    total: list[float] = field(default_factory=lambda: [0.0, 0.0])


def _collect(branch: Branch, found: dict[Spot, _Sums], above: frozenset[Spot]) -> Pair:
    """Add up each function; a recursive call's time is in its caller's already."""
    inside = above if branch.spot is None else above | {branch.spot}
    total = list(branch.own)
    for callee in branch.callees.values():
        for side, seconds in enumerate(_collect(callee, found, inside)):
            total[side] += seconds
    if branch.spot is not None:
        sums = found.setdefault(branch.spot, _Sums())
        for side in (0, 1):
            sums.calls[side] += branch.calls[side]
            sums.own[side] += branch.own[side]
            if branch.spot not in above:
                sums.total[side] += total[side]
    return total[0], total[1]


Labels = Mapping[str, str]


def _difference(
    spot: Spot,
    sums: _Sums,
    changes: Mapping[Spot, CodeChange],
    lines: Mapping[Spot, int],
    labels: Labels,
) -> Difference:
    """A row of the model."""
    python = spot.kind is SpentIn.PYTHON
    return Difference(
        name=spot.name if python else labels.get(spot.name, spot.name),
        kind=spot.kind,
        path=spot.path,
        line=lines.get(spot, 0),
        change=changes.get(spot, CodeChange.SAME if python else CodeChange.COMPILED),
        calls=(sums.calls[0], sums.calls[1]),
        self_seconds=(sums.own[0], sums.own[1]),
        total_seconds=(sums.total[0], sums.total[1]),
    )
