"""From what pairs of processes saw to an explanation. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bisectorch.explain.causes import Sources, find_causes, operator_differences
from bisectorch.explain.overhead import pooled
from bisectorch.explain.profile import Operator, Profile, middle, operator_rows
from bisectorch.explain.sources import Files, changes, lines, touched
from bisectorch.explain.tree import grow, rows
from bisectorch.model import Explanation, Workload

MOST_ROWS = 40
"""Rows kept of functions and of operators: those that grew or shrank most."""

SETTLED = 0.1
"""A share of the step known to this standard error needs no further pair."""

LAYOUT = 0.01
"""By what share of a call two processes' functions differ though they do the same."""

NO_STEP = 0.01
"""A relative step that is smaller is not told from none."""


@dataclass(frozen=True)
class Pair:
    """What one pair of processes saw, (parent, child).

    Attributes:
        profiles: each build's.
        plain_seconds: a call without a profiler, a value a sample; taken in turn.
        fault: why PyTorch's profiler told nothing, though there is torch.
    """

    profiles: tuple[Profile, Profile]
    plain_seconds: tuple[tuple[float, ...], tuple[float, ...]]
    fault: str = ""


@dataclass(frozen=True)
class Question:
    """What is to be explained.

    Attributes:
        nothing: the explanation as yet; names the workload and the commits.
        workload: what was looked into.
        levels: seconds of a call in each build, where that was measured well.
        paths: the repository's files that differ.
        compiled_differs: whether the builds' compiled files may differ.
    """

    nothing: Explanation
    workload: Workload
    levels: tuple[float, float] | None = None
    paths: tuple[str, ...] = ()
    compiled_differs: bool = True


def is_settled(question: Question, pairs: Sequence[Pair], files: tuple[Files, Files]) -> bool:
    """Whether another pair of processes would tell little that these do not."""
    return bool(_assembled(question, _alike(pairs), files).reason) or (
        doubt(question, pairs, files) <= SETTLED
    )


def doubt(question: Question, pairs: Sequence[Pair], files: tuple[Files, Files]) -> float:
    """The standard error of the share of a step that is explained, from how pairs differ.

    Where memory happens to lie makes a process faster or slower as a whole and function by
    function, so that pairs are never thought to agree better than ``LAYOUT`` lets them.
    """
    pairs = _alike(pairs)
    levels = _assembled(question, pairs, files).level_seconds
    # Each pair's own step errs by as much again, and says nothing of how it is made up.
    told = replace(question, levels=levels)
    alone = [_assembled(told, [pair], files) for pair in pairs]
    shares = [each.explained_seconds / each.step_seconds for each in alone]
    expected = LAYOUT * max(levels) / abs(levels[1] - levels[0])
    seen = statistics.stdev(shares) if len(shares) > 1 else 0.0
    return max(expected, seen) / math.sqrt(len(shares))


def assemble(question: Question, pairs: Sequence[Pair], files: tuple[Files, Files]) -> Explanation:
    """The explanation; its ``reason`` says so when there is no time to explain.

    Args:
        question: what is to be explained.
        pairs: at least one.
        files: what the executed files of each build define.
    """
    found = _assembled(question, _alike(pairs), files)
    if found.reason:
        return found
    error = doubt(question, pairs, files)
    if error <= SETTLED:
        return found
    uncertain = (
        f"of the share explained, {error * 100:.0f} % either way is chance: the step is small "
        "beside what the place of things in memory does to a process"
    )
    return replace(found, notes=(*found.notes, uncertain))


def _assembled(
    question: Question, pairs: Sequence[Pair], files: tuple[Files, Files]
) -> Explanation:
    workload = question.workload
    sides = ([p.profiles[0] for p in pairs], [p.profiles[1] for p in pairs])
    plain = unprofiled(pairs)
    is_time = workload.kind == "time" and workload.unit == "seconds"
    level = question.levels if question.levels is not None and is_time else plain
    profiles = [profile for side in sides for profile in side]
    spots = {context.spot for profile in profiles for context in profile.contexts}
    sources = Sources(
        changes(spots, *files),
        lines(spots, *files),
        {name: label for profile in profiles for name, label in profile.labels.items()},
    )
    root = grow(sides[0], sides[1], level)
    operators = _operators(sides[0], level[0]), _operators(sides[1], level[1])
    functions = sorted(
        rows(root, sources.changes, sources.lines, sources.labels),
        key=lambda row: -abs(row.grew_seconds),
    )
    step = level[1] - level[0]
    seen = replace(
        question.nothing,
        level_seconds=level,
        profiled_seconds=(
            middle([profile.profiled_seconds for profile in sides[0]]),
            middle([profile.profiled_seconds for profile in sides[1]]),
        ),
        functions=tuple(functions[:MOST_ROWS]),
        operators=tuple(operator_differences(*operators)[:MOST_ROWS]),
        touched=touched(question.paths, spots, *files),
        methods=_methods(profiles),
    )
    seen = replace(seen, notes=tuple(_notes(seen, plain, pairs)))
    reason = ""
    if not is_time:
        reason = f"{workload.unit} are measured, not time; what ran differently is listed"
    elif abs(step) < NO_STEP * max(level):
        reason = "no step of 1 % or more was seen: there is nothing to explain"
    if reason:
        return replace(seen, reason=reason)
    causes = find_causes(root, sources, operators, step, compiled_differs=question.compiled_differs)
    if not causes:
        reason = "nothing that ran differs enough to explain it"
    return replace(seen, causes=causes, reason=reason)


def _alike(pairs: Sequence[Pair]) -> list[Pair]:
    """The same with one cost of profiling for all processes."""
    common = pooled([pair.profiles for pair in pairs])
    return [replace(pair, profiles=sides) for pair, sides in zip(pairs, common, strict=True)]


def unprofiled(pairs: Sequence[Pair]) -> tuple[float, float]:
    """What a call takes with no profiler: the parent's median, and the median paired ratio."""
    ratio = middle(
        [
            middle([after / before for before, after in zip(*pair.plain_seconds, strict=True)])
            for pair in pairs
        ]
    )
    level = middle([middle(pair.plain_seconds[0]) for pair in pairs])
    return level, level * ratio


def _operators(profiles: Sequence[Profile], level_seconds: float) -> Mapping[str, Operator]:
    """The rows of the first profile that has any."""
    for profile in profiles:
        if profile.operators:
            return operator_rows(profile, level_seconds)
    return {}


def _methods(profiles: Sequence[Profile]) -> tuple[str, ...]:
    used = dict.fromkeys(profile.method for profile in profiles if profile.method)
    return ("cProfile", *used)


def _notes(seen: Explanation, plain: tuple[float, float], pairs: Sequence[Pair]) -> list[str]:
    slower = [
        f"{after / before:.1f}" if before else "?"
        for before, after in zip(plain, seen.profiled_seconds, strict=True)
    ]
    notes = [
        f"the profiler made a call {slower[0]} and {slower[1]} times slower; its cost, measured "
        "on empty functions, is taken off, and the rest scaled to the unprofiled call"
    ]
    step, told = plain[1] - plain[0], seen.step_seconds
    if told and not 0.5 <= step / told <= 2:
        notes.append(
            "between the profiled calls the step was "
            f"{step / plain[0]:+.1%}, not {told / seen.level_seconds[0]:+.1%}: "
            "look again on a quieter machine"
        )
    if any(profile.busy for pair in pairs for profile in pair.profiles):
        notes.append("other programs used the core, so the processor's time was profiled")
    if any(profile.engine_apart for pair in pairs for profile in pair.profiles):
        notes.append("autograd's own thread was profiled apart; its wait is taken off")
    notes += [f"no operators: {fault}" for fault in dict.fromkeys(p.fault for p in pairs) if fault]
    return notes
