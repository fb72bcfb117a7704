"""Why each culprit of a session changed its workload: looked into once it is confirmed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bisectorch.asv_plugin.workshop import EXPLAIN, Workshop, findings_of, looks_into_builds
from bisectorch.errors import Unbuildable
from bisectorch.explain import MOST_PAIRS, ProfilingExplainer
from bisectorch.model import (
    Build,
    Commit,
    Culprit,
    Explanation,
    Findings,
    Session,
    SessionHeader,
    SideBranch,
    Workload,
)
from bisectorch.report.account import cause_line
from bisectorch.seams import Explainer, Provider, Recorder, Reporter


def options(asked: bool | None) -> dict[str, str]:
    """What was asked for, as a session's options."""
    return {} if asked is None else {EXPLAIN: "yes" if asked else "no"}


def explainer_for(
    workshop: Workshop, attributes: Mapping[str, Any], *, pairs: int = MOST_PAIRS
) -> ProfilingExplainer:
    """An explainer on the core that measures."""
    cores = attributes.get("cpu_affinity")
    return ProfilingExplainer(
        Path(workshop.conf.benchmark_dir).absolute(),
        core=cores[0] if cores else None,
        pairs=pairs,
        attributes=attributes,
    )


def explained(
    workshop: Workshop,
    session: Session,
    findings: Findings,
    recorder: Recorder,
    reporter: Reporter,
) -> Findings:
    """The findings with an explanation beside every culprit, each recorded once it is known."""
    header = session.header
    if not looks_into_builds(header):
        return findings
    if header.budget_seconds is not None and findings.cost.seconds >= header.budget_seconds:
        reporter.found(
            "the budget is spent, so the culprits are not explained: "
            f"`bisectorch resume {header.session} --budget TIME` with more of it does"
        )
        return findings
    attributes = json.loads(header.options.get("attributes", "{}"))
    explainer = explainer_for(workshop, attributes)
    made = tuple(explain_all(session, findings, explainer, workshop.ladder, recorder, reporter))
    if not made:
        return findings
    return findings_of(Session(header, (*session.events, *made)))


def explain_all(
    session: Session,
    findings: Findings,
    explainer: Explainer,
    provider: Provider,
    recorder: Recorder,
    reporter: Reporter,
) -> Iterator[Explanation]:
    """Explain every culprit that has no explanation yet; yields what was recorded."""
    commits = _commits(session)
    for found in findings.workloads:
        for culprit in found.culprits:
            if culprit.explanation is not None or not is_explicable(session.header, found.workload):
                continue
            reporter.progress(
                f"{found.workload.name}: explaining {culprit.commit.sha[:10]} "
                f"{culprit.commit.subject}"
            )
            explanation = _explain(commits, culprit, found.workload, explainer, provider)
            recorder.append(explanation)
            yield explanation
            reporter.found(told(explanation, culprit))


def is_explicable(header: SessionHeader, workload: Workload) -> bool:
    """Whether the session's metric is the time that the profilers divide."""
    return workload.kind == "time" and header.options.get("metric") != "instructions"


def told(explanation: Explanation, culprit: Culprit) -> str:
    """The first cause, in one line."""
    name = f"{culprit.commit.sha[:10]}: "
    if not explanation.causes:
        return f"{name}not explained: {explanation.reason}"
    first = cause_line(explanation.causes[0], explanation.step_seconds)
    return f"{name}{first} ({explanation.explained:.0%} explained)"


def _explain(
    commits: Mapping[str, Commit],
    culprit: Culprit,
    workload: Workload,
    explainer: Explainer,
    provider: Provider,
) -> Explanation:
    sides = (culprit.parent, culprit.child)
    nothing = Explanation(workload.name, culprit.parent.sha, culprit.child.sha)
    builds = []
    for side in sides:
        built = _build(provider, commits.get(side.sha))
        if isinstance(built, str):
            reason = f"{side.sha[:10]} cannot be built: {built}"
            return Explanation(nothing.workload, nothing.parent, nothing.child, reason=reason)
        builds.append(built)
    touching = [commits[sha] for sha in culprit.credible_set if sha in commits]
    paths = dict.fromkeys(path for commit in [*touching, culprit.commit] for path in commit.paths)
    prints = [commits[side.sha].fingerprint for side in sides]
    return explainer.explain(
        builds[0],
        builds[1],
        workload,
        levels=(culprit.parent.level, culprit.child.level),
        paths=tuple(paths),
        compiled_differs=not prints[0] or prints[0] != prints[1],
    )


def _build(provider: Provider, commit: Commit | None) -> Build | str:
    if commit is None:
        return "its commit is not in the session's log"
    try:
        return provider.provide(commit)
    except Unbuildable as error:
        return error.reason


def _commits(session: Session) -> dict[str, Commit]:
    """The session's commits by name, those inside merges too."""
    lines = [session.header.range.line]
    lines += [event.line for event in session.events if isinstance(event, SideBranch)]
    return {commit.sha: commit for line in lines for commit in line}
