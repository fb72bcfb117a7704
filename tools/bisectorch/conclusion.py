"""From a session's log to its findings, without building or measuring anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bisectorch.knowledge import BuildName, FreeOfBlocks, Knowledge, Logs, Search
from bisectorch.model import (
    Commit,
    Cost,
    Culprit,
    Decision,
    End,
    Findings,
    Noise,
    Run,
    Session,
    SessionHeader,
    Side,
    Step,
    Verdict,
    Workload,
    WorkloadFindings,
)
from bisectorch.seams import Searcher

NoiseOf = Callable[[Mapping[BuildName, Sequence[Run]], Mapping[BuildName, Sequence[float]]], Noise]
"""How far one workload's runs spread: from its runs by build, and their freed logarithms."""


def conclude(
    session: Session,
    searcher: Searcher,
    *,
    free_of_blocks: FreeOfBlocks,
    logs: Logs,
    noise_of: NoiseOf | None = None,
) -> Findings:
    """Derive the findings from a session's log alone; ``noise_of`` tells how far runs spread."""
    header = session.header
    knowledge = Knowledge(session.events, free_of_blocks, logs)
    ended = [event.seconds for event in session.events if isinstance(event, End)]
    return Findings(
        session=header.session,
        range=header.range,
        workloads=tuple(
            _with_noise(
                _workload_findings(header, knowledge, workload, searcher), knowledge, noise_of
            )
            for workload in header.workloads
        ),
        cost=Cost(knowledge.builds, knowledge.run_count, ended[-1] if ended else knowledge.seconds),
        smallest_step=header.smallest_step,
        confidence=header.confidence,
        machine=header.machine,
        environment=header.environment,
        created_seconds=header.created_seconds,
        finished=knowledge.finished,
        conditions=knowledge.conditions,
        states=tuple(knowledge.states),
    )


def noise_in(knowledge: Knowledge, workload: Workload, noise_of: NoiseOf) -> Noise | None:
    """How far the workload's runs spread; None where no commit was measured twice."""
    runs = knowledge.runs[workload.name]
    if all(len(own) < 2 for own in runs.values()):
        return None
    rebuilds = knowledge.rebuilds.get(workload.name)
    noise = noise_of(runs, knowledge.freed(workload))
    return replace(noise, build=rebuilds.sigma if rebuilds else None)


def _with_noise(
    found: WorkloadFindings, knowledge: Knowledge, noise_of: NoiseOf | None
) -> WorkloadFindings:
    if noise_of is None:
        return found
    return replace(found, noise=noise_in(knowledge, found.workload, noise_of))


def _workload_findings(
    header: SessionHeader, knowledge: Knowledge, workload: Workload, searcher: Searcher
) -> WorkloadFindings:
    search = Search(workload, header.range.line)
    observations = knowledge.accounts(workload, [commit.sha for commit in search.line])
    failure = knowledge.failure(workload, search.line[0].sha)
    if failure or not knowledge.runs[workload.name]:
        needed = "nothing was measured yet"
        if failure:
            needed = f"FROM cannot be measured: {failure.outcome.value}: {failure.reason}"
        return WorkloadFindings(
            workload, Verdict.INCONCLUSIVE, (), math.inf, needed, observations, None
        )
    decision = searcher.decide(
        replace(knowledge.evidence(search), budget_seconds=header.budget_seconds), 1
    )
    culprits = [
        culprit
        for step in decision.steps
        if step.confirmed
        for culprit in _culprits_of(header, knowledge, search, step, decision, searcher)
        if header.options.get("invert") != "true" or not culprit.is_regression
    ]
    verdict, needed = decision.verdict, decision.needed
    if verdict is None:
        verdict = Verdict.INCONCLUSIVE
        if not knowledge.finished:
            needed = f"the session was cut short; go on with `bisectorch resume {header.session}`"
    elif verdict is Verdict.CULPRITS and not culprits:
        verdict = Verdict.NO_CHANGE
    return WorkloadFindings(
        workload=workload,
        verdict=Verdict.CULPRITS if culprits else verdict,
        culprits=tuple(culprits),
        limit=decision.limit,
        needed=needed,
        observations=observations,
        posterior=decision.posterior,
    )


def _culprits_of(
    header: SessionHeader,
    knowledge: Knowledge,
    search: Search,
    step: Step,
    decision: Decision,
    searcher: Searcher,
) -> list[Culprit]:
    """The culprits behind one step: the side branch's own where the step is a merge."""
    merge = search.line[step.position]
    side = knowledge.side_branches.get((merge.sha, search.workload.name))
    if side is None or len(side.line) < 2:
        return [_culprit(header, knowledge, search, step, decision, None)]
    inner = Search(search.workload, side.line, merge.sha)
    inner_evidence = knowledge.evidence(inner)
    inner_steps: list[Step] = []
    inner_decision = decision
    if 0 not in inner_evidence.failed and inner_evidence.values:
        inner_decision = searcher.decide(inner_evidence, 1)
        inner_steps = [s for s in inner_decision.steps if s.confirmed]
    if not inner_steps:
        return [_culprit(header, knowledge, search, step, decision, None)]
    return [
        _culprit(header, knowledge, inner, inner_step, inner_decision, merge)
        for inner_step in inner_steps
    ]


def _culprit(
    header: SessionHeader,
    knowledge: Knowledge,
    search: Search,
    step: Step,
    decision: Decision,
    merge: Commit | None,
) -> Culprit:
    workload = search.workload
    parent, child = search.line[step.left], search.line[step.right]
    before = math.exp(decision.posterior.level[step.left])
    ratio, low, high = (math.exp(x) for x in (step.log_ratio, step.log_low, step.log_high))
    return Culprit(
        commit=search.line[step.position],
        merge=merge,
        ratio=ratio,
        ratio_interval=(low, high),
        delta=before * (ratio - 1),
        delta_interval=(before * (low - 1), before * (high - 1)),
        probability=step.probability,
        credible_set=tuple(search.line[index].sha for index in step.credible),
        parent=_side(knowledge, workload, parent, before),
        child=_side(knowledge, workload, child, before * ratio),
        command=(
            f"bisectorch bisect {parent.sha[:10]}..{child.sha[:10]} "
            f"-b '^{_escaped(workload.name)}$' --smallest-step {header.smallest_step * 100:g}%"
            + (" --metric instructions" if workload.unit == "instructions" else "")
        ),
        explanation=knowledge.explanations.get((workload.name, parent.sha, child.sha)),
        instructions=knowledge.instructions(workload, parent.sha, child.sha),
    )


def _side(knowledge: Knowledge, workload: Workload, commit: Commit, level: float) -> Side:
    logs = knowledge.values(workload, commit.sha)
    return Side(commit.sha, tuple(math.exp(log) for log in logs), level)


def _escaped(name: str) -> str:
    """The name as a regular expression, escaped only where it must be, for people to read."""
    return "".join("\\" + c if c in r".()[]{}*+?|^$\\" else c for c in name)
