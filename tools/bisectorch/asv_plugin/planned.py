"""A plan as text for people, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bisectorch.asv_plugin.planning import Experience
from bisectorch.model import CommitRange, PathClass
from bisectorch.report.wording import duration, one_line
from bisectorch.search.forecast import Amount, Forecast, Ground, Opening, Tried

VERSION = 1
"""Of the JSON form."""


@dataclass(frozen=True)
class Plan:
    """What a search of the range will probably take.

    Attributes:
        commits: the range.
        ground: what the search stands on.
        known: where noise and the cost of runs were taken from.
        sigma_given: the noise was said, not known.
        smallest_step, confidence: as ``bisect`` will be told.
        opening: the cost of what is certain.
        forecasts: by scenario; empty where nothing was simulated.
        budget_seconds: None where none was said.
        reachable: the smallest step within the budget; None where none is.
        tried: the smallest steps that were tried against the budget.
    """

    commits: CommitRange
    ground: Ground
    known: Experience
    sigma_given: bool
    smallest_step: float
    confidence: float
    opening: Opening
    forecasts: tuple[Forecast, ...] = ()
    budget_seconds: float | None = None
    reachable: float | None = None
    tried: tuple[Tried, ...] = ()


def as_json(plan: Plan) -> dict[str, Any]:
    """Plain values; seconds, shares and relative steps as numbers."""
    line, ground = plan.commits.line, plan.ground
    classes = Counter(commit.path_class for commit in line[1:])
    return {
        "bisectorch_plan": VERSION,
        "range": {"spec": plan.commits.spec, "from": line[0].sha, "to": line[-1].sha},
        "commits": len(line),
        "classes": {each.value: classes[each] for each in PathClass},
        "native_states": len(set(ground.states)),
        "built": _built(ground),
        "unbuildable": len(ground.failing),
        "build_seconds": max(ground.costs),
        "python_build_seconds": ground.python_seconds,
        "smallest_step": plan.smallest_step,
        "confidence": plan.confidence,
        "sigma": ground.sigma,
        "run_seconds": ground.run_seconds,
        "session": plan.known.session or None,
        "certain": asdict(plan.opening),
        "scenarios": [
            {**asdict(each), "scenario": each.scenario.name, "ratios": list(each.scenario.ratios)}
            for each in plan.forecasts
        ],
        "budget": None
        if plan.budget_seconds is None
        else {
            "seconds": plan.budget_seconds,
            "smallest_step": plan.reachable,
            "tried": [asdict(each) for each in plan.tried],
        },
    }


def lines(plan: Plan) -> Iterator[str]:
    """For people: the division, the ground of the figures, what is certain, what is probable."""
    yield from _ground_lines(plan)
    if plan.forecasts:
        yield ""
        yield from _table(plan.forecasts)
        yield (
            f"Means of {plan.forecasts[0].trials} simulated searches each; in brackets, where "
            "eight of ten lie. false: culprits named where nothing changed, a search."
        )
        yield "Not in it: other workloads, explanations of culprits, side branches of merges."
    yield from _budget(plan)


def _ground_lines(plan: Plan) -> Iterator[str]:
    ground, known, first = plan.ground, plan.known, plan.opening
    count = Counter(commit.path_class for commit in plan.commits.line[1:])
    states = len(set(ground.states))
    yield (
        f"{one_line(plan.commits.spec)}: {ground.size} commits with the baseline; after it "
        f"{count[PathClass.NATIVE]} native, {count[PathClass.PYTHON]} Python only, "
        f"{count[PathClass.IRRELEVANT]} irrelevant"
    )
    yield (
        f"{states} native state{'s' if states > 1 else ''}; "
        f"{_built(ground)} of {ground.size} commits built; the dearest build takes about "
        f"{duration(max(ground.costs))}, a further commit of a built state "
        f"{duration(ground.python_seconds)}"
    )
    if ground.failing:
        yield f"{len(ground.failing)} commits are known to have no build; see `bisectorch doctor`"
    told = f"as in session {known.session}" if known.session else "a first guess"
    spread = "as you said" if plan.sigma_given else told
    yield (
        f"runs take {duration(ground.run_seconds)} ({told}) and spread by {100 * ground.sigma:.3g} "
        f"% ({spread}); smallest step {100 * plan.smallest_step:.3g} %, confidence "
        f"{100 * plan.confidence:.3g} %"
    )
    yield (
        f"certain: both ends and the starting grid, {first.positions} commits: {first.builds} "
        f"builds ({first.natives} native), {first.runs} runs, {duration(first.seconds)}"
    )


def _built(ground: Ground) -> int:
    return sum(cost == 0 for cost in ground.costs) - len(ground.failing)


def _table(forecasts: tuple[Forecast, ...]) -> Iterator[str]:
    rows = [("if", "builds", "of them native", "runs", "time", "found", "false")]
    for each in forecasts:
        seconds = each.seconds
        rows.append(
            (
                each.scenario.name,
                _counted(each.builds),
                _counted(each.natives),
                _counted(each.runs),
                f"{duration(seconds.mean)} ({duration(seconds.low)} to {duration(seconds.high)})",
                "" if each.found is None else f"{each.found:.0%}",
                f"{each.false:.2g}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _counted(amount: Amount) -> str:
    return f"{amount.mean:.0f} ({amount.low:.0f} to {amount.high:.0f})"


def _budget(plan: Plan) -> Iterator[str]:
    if plan.budget_seconds is None:
        return
    yield ""
    budget = duration(plan.budget_seconds)
    for each in plan.tried:
        yield (
            f"--smallest-step {each.smallest_step:.0%}, one step of twice that: "
            f"{duration(each.mean_seconds)}, the mean of {each.trials}"
        )
    if plan.reachable is None:
        yield f"no smallest step fits a budget of {budget}: take a shorter range or a larger budget"
    else:
        yield f"within {budget}: --smallest-step {plan.reachable:.0%}"
