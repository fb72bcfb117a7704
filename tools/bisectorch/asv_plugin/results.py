"""What a session measured, saved as asv results."""

from __future__ import annotations

import datetime
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asv.console import log
from asv.results import Results
from asv.runner import BenchmarkResult
from asv.util import UserError

from bisectorch.model import Event, Observation, SessionHeader, Workload


@dataclass
class _Kept:
    """What asv keeps of one workload on one commit; a session may have millions of runs."""

    samples: array[float] = field(default_factory=lambda: array("d"))
    number: int = 1
    started_seconds: float = math.inf
    seconds: float = 0.0

    def add(self, observation: Observation) -> None:
        for run in observation.runs:
            if not self.samples:
                self.number = run.number
            self.samples.extend(run.samples or (run.value,))
            self.started_seconds = min(self.started_seconds, run.started_seconds)
            self.seconds += run.seconds


def save_results(
    results_dir: str,
    header: SessionHeader,
    events: Iterable[Event],
    benchmarks: Mapping[str, Mapping[str, Any]],
    environment: Any,
    repo: Any,
) -> int:
    """Write every observation of the session into asv's results; returns the commits written.

    All samples are recorded. Saving twice changes nothing: what this session measured of a
    benchmark replaces what was there, as a plain rerun of asv does, and the parameters that it
    did not measure are kept. Commits inside merges are left out: asv follows first parents.
    """
    line = {commit.sha for commit in header.range.line}
    workloads = {workload.name: workload for workload in header.workloads}
    by_commit: dict[str, dict[str, _Kept]] = defaultdict(lambda: defaultdict(_Kept))
    for event in events:
        if isinstance(event, Observation) and event.sha in line:
            by_commit[event.sha][event.workload].add(event)
    for sha, by_workload in by_commit.items():
        params = dict(header.machine) | {"python": environment.python} | environment.requirements
        results = Results(
            params,
            environment.requirements,
            sha,
            repo.get_date(sha),
            environment.python,
            environment.name,
            environment.env_vars,
        )
        _load(results, results_dir)
        for name, kept in by_workload.items():
            workload = workloads[name]
            _add(results, benchmarks[workload.benchmark], workload, kept)
        results.save(results_dir)
    return len(by_commit)


def _load(results: Any, results_dir: str) -> None:
    """What was there; a file that asv was killed in the middle of is put aside and said so."""
    try:
        results.load_data(results_dir)
    except (UserError, ValueError, KeyError):
        path = Path(results_dir, results._filename)
        path.replace(path.with_name(f"{path.name}.damaged"))
        log.warning(f"{path} is damaged and was put aside; asv's other results of it are lost")


def _add(results: Any, benchmark: Mapping[str, Any], workload: Workload, kept: _Kept) -> None:
    count = math.prod(len(values) for values in benchmark["params"]) if benchmark["params"] else 1
    index = workload.param_index or 0
    value, samples, number = _empty(count), _empty(count), _empty(count)
    if kept.samples:
        samples[index], number[index] = kept.samples.tolist(), kept.number
        value[index] = samples[index][0]
    results.add_result(
        benchmark,
        BenchmarkResult(
            result=value, samples=samples, number=number, errcode=0, stderr="", profile=None
        ),
        started_at=datetime.datetime.fromtimestamp(
            kept.started_seconds if kept.samples else 0.0, datetime.timezone.utc
        ),
        duration=kept.seconds,
        record_samples=True,
        selected_idx={index},
    )


def _empty(count: int) -> list[Any]:
    return [None] * count
