"""An explanation in words and as plain values, for every report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from enum import Enum
from typing import Any

from bisectorch.model import Cause, Difference, Explanation, TouchedFile
from bisectorch.report import wording
from bisectorch.report.wording import digits_short, quantity, short

CAUSES_SHOWN = 5


def values(explanation: Explanation) -> dict[str, Any]:
    """The explanation as plain values, with what follows from them."""
    found = asdict(explanation, dict_factory=_plain)
    found["step_seconds"] = explanation.step_seconds
    found["explained_seconds"] = explanation.explained_seconds
    found["unexplained_seconds"] = explanation.unexplained_seconds
    found["explained"] = explanation.explained
    return found


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value.value if isinstance(value, Enum) else value for key, value in pairs}


def place(cause: Cause | Difference) -> str:
    """``torch/nn/modules/linear.py:57``; empty for what has no source."""
    return f"{cause.path}:{cause.line}" if cause.path else ""


def calls(pair: tuple[float, float]) -> str:
    """``1 → 3``, or a single number when it did not change."""
    before, after = (digits_short(number) for number in pair)
    return before if before == after else f"{before} → {after}"


def headline(explanation: Explanation) -> str:
    """What the step is, and how much of it is explained."""
    before, after = explanation.level_seconds
    ratio = wording.percent(after / before) if before else ""
    step = quantity(explanation.step_seconds, "seconds", sign=True)
    return (
        f"{quantity(before, 'seconds')} at {short(explanation.parent)}, "
        f"{quantity(after, 'seconds')} at {short(explanation.child)}: {step} ({ratio}), "
        f"of which {explanation.explained * 100:.0f} % is explained"
    )


def first_cause(explanation: Explanation) -> str:
    """The first cause and its share, in a few words; empty when there is none."""
    if not explanation.causes:
        return ""
    cause = explanation.causes[0]
    why = f", {cause.why}" if cause.why else ""
    return f"{cause.name}{why} ({cause.share * 100:.0f} % of the step)"


def facts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """A line or more for a culprit's list of facts, the first under the name ``why``."""
    if not explanation.causes:
        yield "why", f"not explained: {explanation.reason}"
        return
    name = "why"
    for cause in explanation.causes[:CAUSES_SHOWN]:
        yield name, cause_words(cause)
        name = ""
    yield "", rest_words(explanation)


def cause_words(cause: Cause) -> str:
    """One cause in one line."""
    where = f" ({place(cause)})" if cause.path else ""
    why = f": {cause.why}" if cause.why else ""
    return (
        f"{cause.share * 100:.0f} %  {cause.name}{where}{why}; "
        f"{quantity(cause.seconds, 'seconds', sign=True)}, calls {calls(cause.calls)}"
    )


def rest_words(explanation: Explanation) -> str:
    """What the causes leave of the step."""
    rest = quantity(explanation.unexplained_seconds, "seconds", sign=True)
    share = explanation.unexplained_seconds / explanation.step_seconds * 100
    return f"{share:.0f} %  unexplained; {rest}"


def touched_words(file: TouchedFile) -> str:
    """What the workload has to do with a changed file."""
    if file.functions:
        return f"changed and executed: {', '.join(file.functions[:6])}"
    if file.executed:
        return "executed, but not what changed in it"
    return "not executed"
