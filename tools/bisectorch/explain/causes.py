"""From two builds' calls to the reasons of their difference. Pure.

The tree is walked from the workload down. Where a function's source changed, all that it and its
callees cost more or less is that change's doing: a cause. Where an unchanged function calls other
functions, or calls them more often, than before, what those cost is a cause too, named after the
changed function among them. What is left is the time that unchanged code spends in doing the same
calls: put down to compiled code where that differs between the builds, or to unchanged functions
that clearly take another time, else left unexplained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bisectorch.explain.profile import Operator, Spot
from bisectorch.explain.tree import Branch, Labels, rows
from bisectorch.model import Cause, CodeChange, Difference, SpentIn

SAME_CALLS = 0.01
"""Counts that differ by less are equal: workloads may draw random numbers."""

SMALLEST_SHARE = 0.02
"""A cause that is less of the step is left in the unexplained rest."""

LEAST_SHARE, LEAST_GROWTH = 0.15, 0.2
"""Unchanged code is a cause when it makes up this share of the step, and grew by this share."""

MOST_PARTS = 6

CHANGED = frozenset({CodeChange.CHANGED, CodeChange.NEW, CodeChange.GONE})


@dataclass(frozen=True)
class Sources:
    """What the tree's spots are: how their source changed, where it is, what they are called."""

    changes: Mapping[Spot, CodeChange]
    lines: Mapping[Spot, int]
    labels: Labels

    def changed(self, spot: Spot | None) -> bool:
        """Whether the function's source is not the same in both builds."""
        return spot is not None and self.changes.get(spot) in CHANGED

    def name(self, spot: Spot) -> str:
        """What people call it."""
        python = spot.kind is SpentIn.PYTHON
        return spot.name if python else self.labels.get(spot.name, spot.name)


@dataclass
class _Found:
    """A cause as it is put together: the branches it is made of, and what of them counts."""

    spot: Spot
    seconds: float
    branches: list[Branch]
    hosts: list[Branch]


def find_causes(
    root: Branch,
    sources: Sources,
    operators: tuple[Mapping[str, Operator], Mapping[str, Operator]],
    step_seconds: float,
    *,
    compiled_differs: bool,
) -> tuple[Cause, ...]:
    """The causes, the largest share of the step first.

    ``compiled_differs``: the builds' compiled files are not known to be the same, so that
    unchanged calls may cost something else.
    """
    found: dict[Spot, _Found] = {}
    left: list[Branch] = []
    waiting = [root]
    while waiting:
        branch = waiting.pop()
        if sources.changed(branch.spot):
            assert branch.spot is not None
            _add(found, branch.spot, branch.grew_in_all, [branch])
            continue
        others = [callee for callee in branch.callees.values() if _calls_differ(branch, callee)]
        waiting += [callee for callee in branch.callees.values() if callee not in others]
        # A changed callee explains itself, unless it took another's place.
        moved = [c for c in others if not (sources.changed(c.spot) and min(c.calls) > 0)]
        waiting += [callee for callee in others if callee not in moved]
        if moved:
            seconds = branch.grew + sum(callee.grew_in_all for callee in moved)
            spot = _telling(moved, sources, seconds)
            _add(found, spot, seconds, moved, branch)
        else:
            left.append(branch)
    causes = [_cause(each, sources, operators, step_seconds) for each in found.values()]
    causes += _unchanged(left, sources, operators, step_seconds, compiled_differs=compiled_differs)
    worth = [cause for cause in causes if abs(cause.share) >= SMALLEST_SHARE]
    return tuple(sorted(worth, key=lambda cause: -cause.share))


def _add(
    found: dict[Spot, _Found],
    spot: Spot,
    seconds: float,
    branches: list[Branch],
    host: Branch | None = None,
) -> None:
    known = found.setdefault(spot, _Found(spot, 0.0, [], []))
    known.seconds += seconds
    known.branches += branches
    known.hosts += [host] if host is not None else []


def _calls_differ(caller: Branch, callee: Branch) -> bool:
    """Whether a call of the caller makes another number of calls of the callee than before."""
    rates = [
        (calls / of if of else calls) for calls, of in zip(callee.calls, caller.calls, strict=True)
    ]
    return abs(rates[1] - rates[0]) > SAME_CALLS * max(rates)


def _telling(moved: Sequence[Branch], sources: Sources, seconds: float) -> Spot:
    """After whom a group of callees that came, went or multiplied is named.

    The changed function with the largest difference of the group's sign, callers before callees;
    without a changed one, the unchanged function of a changed file; else the callee itself.
    """
    files = {spot.path for spot in sources.changes if sources.changed(spot)}
    candidates = (
        _outermost(moved, sources.changed)
        or _outermost(moved, lambda spot: spot is not None and spot.own and spot.path in files)
        or moved
    )
    sign = 1.0 if seconds >= 0 else -1.0
    best = max(candidates, key=lambda branch: sign * branch.grew_in_all)
    assert best.spot is not None
    return best.spot


def _outermost(
    branches: Sequence[Branch], wanted: Callable[[Spot | None], bool]
) -> Sequence[Branch]:
    """The branches that are wanted and lie below none that is."""
    found = []
    waiting = list(branches)
    while waiting:
        branch = waiting.pop()
        if wanted(branch.spot):
            found.append(branch)
        else:
            waiting.extend(branch.callees.values())
    return found


def _cause(
    found: _Found,
    sources: Sources,
    operators: tuple[Mapping[str, Operator], Mapping[str, Operator]],
    step_seconds: float,
) -> Cause:
    spot = found.spot
    inside = Branch(None)
    calls = [0.0, 0.0]
    alone = [Branch(host.spot, host.calls, host.own) for host in found.hosts if host.spot]
    for number, branch in enumerate([*found.branches, *alone]):
        inside.callees[Spot(SpentIn.BUILTIN, "", str(number))] = branch
    parts = [
        row
        for row in rows(inside, sources.changes, sources.lines, sources.labels)
        if not (row.kind is SpentIn.BUILTIN and row.name.isdigit())
    ]
    for branch in (inner for each in found.branches for inner in each.walk()):
        if branch.spot == spot:
            for side in (0, 1):
                calls[side] += branch.calls[side]
    parts.sort(key=lambda row: -abs(row.grew_seconds))
    why = _why(found, sources, operators)
    return Cause(
        name=sources.name(spot),
        kind=spot.kind,
        path=spot.path,
        line=sources.lines.get(spot, 0),
        change=_change(spot, sources),
        seconds=found.seconds,
        share=found.seconds / step_seconds if step_seconds else 0.0,
        calls=(calls[0], calls[1]),
        why=why,
        parts=tuple(parts[:MOST_PARTS]),
    )


def _change(spot: Spot, sources: Sources) -> CodeChange:
    python = spot.kind is SpentIn.PYTHON
    return sources.changes.get(spot, CodeChange.SAME if python else CodeChange.COMPILED)


def _why(
    found: _Found,
    sources: Sources,
    operators: tuple[Mapping[str, Operator], Mapping[str, Operator]],
) -> str:
    change = _change(found.spot, sources)
    words = []
    if any(host.spot is not None for host in found.hosts):
        words.append(_moved(found, sources, operators, change))
    elif change is CodeChange.CHANGED:
        words.append(_edited(found, sources))
    elif change in CHANGED:
        words.append(change.value)
    return "; ".join(word for word in words if word)


def _moved(
    found: _Found,
    sources: Sources,
    operators: tuple[Mapping[str, Operator], Mapping[str, Operator]],
    change: CodeChange,
) -> str:
    """A function that came or went, and what went or came in its place."""
    came = {b.spot for b in found.branches if not b.calls[0] and b.calls[1]}
    went = {b.spot for b in found.branches if b.calls[0] and not b.calls[1]}
    is_new = any(
        branch.spot == found.spot and not branch.calls[0]
        for each in found.branches
        for branch in each.walk()
    )
    before, after = operators
    nodes_gone = _nodes(before, after)
    nodes_new = _nodes(after, before)
    backward = any(
        branch.spot is not None and "ackward" in branch.spot.name
        for each in found.branches
        for branch in each.walk()
    )
    if is_new:
        text = "Python function now" if backward else "called now"
        places = nodes_gone if backward else _names(went, sources)
    else:
        text = "gone" if change is CodeChange.GONE else "called otherwise"
        places = nodes_new if backward else _names(came, sources)
    if places:
        text += f", in place of {places}" if is_new else f", in its place {places}"
    return text


def _nodes(here: Mapping[str, Operator], there: Mapping[str, Operator]) -> str:
    """Nodes of the graph that one build has and the other has not."""
    only = [
        row
        for name, row in here.items()
        if row.kind is SpentIn.GRADIENT and row.calls and name not in there
    ]
    only.sort(key=lambda row: -row.total_seconds)
    return ", ".join(row.name for row in only[:3])


def _names(spots: Iterable[Spot | None], sources: Sources) -> str:
    return ", ".join(sorted({sources.name(spot) for spot in spots if spot is not None})[:3])


def _edited(found: _Found, sources: Sources) -> str:
    """What a changed function calls now that it did not call before."""
    before: dict[Spot, float] = {}
    after: dict[Spot, float] = {}
    weight: dict[Spot, float] = {}
    for branch in found.branches:
        for spot, callee in branch.callees.items():
            before[spot] = before.get(spot, 0.0) + callee.calls[0]
            after[spot] = after.get(spot, 0.0) + callee.calls[1]
            weight[spot] = weight.get(spot, 0.0) + abs(callee.grew_in_all)
    order = sorted(weight, key=lambda spot: -weight[spot])
    now = [sources.name(s) for s in order if after[s] and not before[s]]
    no_more = [sources.name(s) for s in order if before[s] and not after[s]]
    parts = []
    if now:
        parts.append(f"calls {_few(now)} now")
    if no_more:
        parts.append(f"{'calls ' if not now else ''}{_few(no_more)} no more")
    if not parts:
        own = [max(1e-9, sum(branch.calls[side] for branch in found.branches)) for side in (0, 1)]
        rates = {s: (before[s] / own[0], after[s] / own[1]) for s in order}
        parts += [
            f"calls {sources.name(spot)} {after_rate:g} times, not {before_rate:g}"
            for spot, (before_rate, after_rate) in rates.items()
            if abs(after_rate - before_rate) > SAME_CALLS * max(before_rate, after_rate)
        ][:2]
    return "changed: " + (", ".join(parts) or "its own code")


def _few(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


def _unchanged(
    left: Sequence[Branch],
    sources: Sources,
    operators: tuple[Mapping[str, Operator], Mapping[str, Operator]],
    step_seconds: float,
    *,
    compiled_differs: bool,
) -> list[Cause]:
    """Causes in unchanged code that is called as often as before, but takes another time.

    Where compiled files differ, PyTorch's own rows say which operators did; theirs is what
    unchanged code grew by, and never more. Else, and without such rows, the functions themselves
    are named, if they grew by too much to be noise: then what they are given may have changed.
    """
    before, after = operators
    if compiled_differs and before and after:
        named = _operators(before, after, sum(branch.grew for branch in left), step_seconds)
        if named:
            return named
    by_spot: dict[Spot, list[Branch]] = {}
    for branch in left:
        if branch.spot is not None:
            by_spot.setdefault(branch.spot, []).append(branch)
    causes = []
    for spot, branches in by_spot.items():
        own = [sum(branch.own[side] for branch in branches) for side in (0, 1)]
        seconds = own[1] - own[0]
        share = seconds / step_seconds if step_seconds else 0.0
        if share < LEAST_SHARE or abs(seconds) < LEAST_GROWTH * max(own):
            continue
        calls = [sum(branch.calls[side] for branch in branches) for side in (0, 1)]
        words = "takes longer" if seconds > 0 else "takes less time"
        if not compiled_differs:
            words += " though called as before: what it is given may have changed"
        causes.append(
            Cause(
                name=sources.name(spot),
                kind=spot.kind,
                path=spot.path,
                line=sources.lines.get(spot, 0),
                change=_change(spot, sources),
                seconds=seconds,
                share=share,
                calls=(calls[0], calls[1]),
                why=words,
            )
        )
    return causes


def _operators(
    before: Mapping[str, Operator],
    after: Mapping[str, Operator],
    grown_seconds: float,
    step_seconds: float,
) -> list[Cause]:
    """Operators whose own time moved with the step, scaled down to what there is to explain."""
    sign = 1.0 if step_seconds >= 0 else -1.0
    if grown_seconds * sign <= 0:
        return []
    moved = [
        row
        for row in operator_differences(before, after)
        if row.grew_seconds * sign > 0 and row.calls[0] and row.calls[1]
    ]
    total = abs(sum(row.grew_seconds for row in moved))
    scale = min(1.0, abs(grown_seconds) / total) if total else 0.0
    return [
        Cause(
            name=row.name,
            kind=row.kind,
            path="",
            line=0,
            change=CodeChange.COMPILED,
            seconds=scale * row.grew_seconds,
            share=scale * row.grew_seconds / step_seconds,
            calls=row.calls,
            why="takes longer" if row.grew_seconds > 0 else "takes less time",
            parts=(replace(row, self_seconds=row.self_seconds),),
        )
        for row in moved
    ]


def operator_differences(
    before: Mapping[str, Operator], after: Mapping[str, Operator]
) -> list[Difference]:
    """PyTorch's rows of both builds side by side, by growth of own time."""
    made = []
    for name in dict.fromkeys([*before, *after]):
        sides = [rows_of.get(name) for rows_of in (before, after)]
        kind = next(row.kind for row in sides if row is not None)
        made.append(
            Difference(
                name=name,
                kind=kind,
                calls=_pair([row.calls if row else 0.0 for row in sides]),
                self_seconds=_pair([row.self_seconds if row else 0.0 for row in sides]),
                total_seconds=_pair([row.total_seconds if row else 0.0 for row in sides]),
            )
        )
    made.sort(key=lambda row: -abs(row.grew_seconds))
    return made


def _pair(values: Sequence[float]) -> tuple[float, float]:
    return values[0], values[1]
