"""From ``-b`` to workloads, through asv's own discovery."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from asv.benchmarks import Benchmarks
from asv.console import log

from bisectorch.errors import UsageError
from bisectorch.model import Workload


def discover(
    conf: Any, repo: Any, environment: Any, shas: Sequence[str], patterns: Sequence[str]
) -> tuple[tuple[Workload, ...], Mapping[str, Mapping[str, Any]]]:
    """The workloads that the patterns match, and asv's description of their benchmarks.

    Discovery imports the benchmarks in a build of the first of ``shas`` that can be imported,
    and saves asv's benchmarks.json. Raises UsageError when nothing matches.
    """
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"-b {pattern!r} is not a regular expression: {error}") from error
    with contextlib.redirect_stdout(sys.stderr):
        benchmarks = Benchmarks.discover(
            conf, repo, [environment], list(shas), regex=list(patterns)
        )
        log.flush()
    benchmarks.save()
    workloads = tuple(
        workload
        for name, benchmark in sorted(benchmarks.items())
        for workload in _workloads(
            benchmark, benchmarks.benchmark_selection.get(name), conf.default_benchmark_timeout
        )
    )
    if not workloads:
        known = sorted(benchmarks._all_benchmarks)
        listed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise UsageError(f"no benchmark matches {' '.join(patterns)!r}; there are: {listed}")
    return workloads, dict(benchmarks)


def _workloads(
    benchmark: Mapping[str, Any], selection: Sequence[int] | None, default_timeout: float
) -> list[Workload]:
    common = {
        "benchmark": benchmark["name"],
        "unit": benchmark["unit"],
        "kind": benchmark["type"],
        "timeout_seconds": float(benchmark.get("timeout") or default_timeout),
        "version": benchmark["version"],
    }
    if not benchmark["params"]:
        return [Workload(**common)]
    choices = list(itertools.product(*benchmark["params"]))
    chosen = range(len(choices)) if selection is None else selection
    return [Workload(params=choices[i], param_index=i, **common) for i in chosen]
