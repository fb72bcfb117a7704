"""What a plan stands on: the range, what its builds would cost, and what earlier sessions tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisectorch.asv_plugin.settings import Settings
from bisectorch.asv_plugin.workshop import TIMED_START_RUNS, is_counted
from bisectorch.bisection import batch_size
from bisectorch.build import Ladder, Store, plan
from bisectorch.build.learned import Learned
from bisectorch.conclusion import noise_in
from bisectorch.errors import LogError, UsageError
from bisectorch.knowledge import FIRST_RUN_SECONDS, Knowledge, weights_of
from bisectorch.measure.noise import free_of_blocks, logs, within_and_between
from bisectorch.model import CommitRange, Route
from bisectorch.report import record
from bisectorch.search import BayesSearcher
from bisectorch.search.forecast import Ground, Player

FIRST_SIGMA = 0.01
"""How far runs of one build are expected to spread before any has been measured."""
MOST_BYTES = 16 << 20
"""A log that is larger takes too long to read for a plan."""


@dataclass(frozen=True)
class Experience:
    """What runs take and how far they spread, and the session that tells; empty for a guess."""

    run_seconds: float = FIRST_RUN_SECONDS
    sigma: float = FIRST_SIGMA
    session: str = ""
    workloads: tuple[str, ...] = ()


def experience(settings: Settings, project: str, patterns: Sequence[str]) -> Experience:
    """Of the latest session of this project that measured a workload that matches.

    The mean of the runs' cost, and the widest spread. Raises UsageError for what is no regular
    expression.
    """
    try:
        wanted = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise UsageError(f"-b is no regular expression: {error}") from error
    for path in record.logs(Path(settings.sessions_dir)):
        try:
            if path.stat().st_size > MOST_BYTES:
                continue
            header = record.read_header(path)
            names = {w.name for w in header.workloads if _matches(wanted, w.name)}
            if not names or header.project != project or is_counted(header):
                continue
            session = record.load(path)
        except (LogError, OSError):
            continue
        knowledge = Knowledge(session.events, free_of_blocks, logs)
        workloads = [w for w in header.workloads if w.name in names and knowledge.runs.get(w.name)]
        seconds = [
            run.seconds for w in workloads for own in knowledge.runs[w.name].values() for run in own
        ]
        noises = [noise_in(knowledge, workload, within_and_between) for workload in workloads]
        sigmas = [noise.run for noise in noises if noise is not None]
        if seconds and sigmas:
            mean = sum(seconds) / len(seconds)
            return Experience(mean, max(sigmas), path.stem, tuple(w.name for w in workloads))
    return Experience()


def _matches(patterns: Sequence[re.Pattern[str]], name: str) -> bool:
    return not patterns or any(pattern.search(name) for pattern in patterns)


def ground(
    commits: CommitRange, ladder: Ladder, settings: Settings, sigma: float, run_seconds: float
) -> Ground:
    """The range as a search meets it now: what is in the store costs nothing."""
    quotes = [ladder.quote(commit) for commit in commits.line]
    number: dict[str, int] = {}
    return Ground(
        states=tuple(number.setdefault(c.fingerprint, len(number)) for c in commits.line),
        costs=tuple(quote.seconds for quote in quotes),
        python_seconds=plan.expected_seconds(plan.OVERLAY, learned(settings).seconds()),
        weights=weights_of(commits.line),
        sigma=sigma,
        run_seconds=run_seconds,
        # A ladder quotes at nothing, from source, what it knows not to build.
        failing=frozenset(
            index
            for index, quote in enumerate(quotes)
            if quote.route is Route.SOURCE and quote.seconds == 0
        ),
    )


def learned(settings: Settings) -> Learned:
    """What builds cost so far."""
    return Learned(Store(settings.store).root / "learned.jsonl")


def player(confidence: float) -> Player:
    """A session as ``bisect`` runs it, with one builder."""
    return Player(
        searcher=lambda step: BayesSearcher(step, confidence, start_runs=TIMED_START_RUNS),
        batch=lambda evidence: batch_size(evidence, 1),
    )
