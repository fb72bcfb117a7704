"""From ``-b`` to workloads, through asv's own discovery."""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asv.benchmarks import Benchmarks
from asv.console import log
from asv.runner import BENCHMARK_RUN_SCRIPT
from asv.util import ProcessError

from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.model import Workload


def discover(
    conf: Any, repo: Any, environment: Any, shas: Sequence[str], wanted: Sequence[str] | None
) -> tuple[tuple[Workload, ...], Mapping[str, Mapping[str, Any]]]:
    """The workloads that any of the patterns matches, and asv's description of their benchmarks.

    All of them where none is given.

    Discovery imports the benchmarks in a build of the first of ``shas`` that can be imported,
    and saves asv's benchmarks.json. Raises UsageError when nothing matches.
    """
    patterns = wanted or ["."]
    refuse_bad_patterns(patterns)
    found = _discover(conf, repo, environment, shas)
    benchmarks = Benchmarks(conf, found, regex=list(patterns))
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


def refuse_bad_patterns(patterns: Sequence[str]) -> None:
    """Raise UsageError where one is no regular expression."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"-b {pattern!r} is not a regular expression: {error}") from error


def _discover(conf: Any, repo: Any, environment: Any, shas: Sequence[str]) -> Any:
    """asv's descriptions, from the first of these commits in which the benchmarks import.

    asv's own discovery does the same, but shows each commit's traceback and, when none is left,
    does not say why.
    """
    Benchmarks.check_tree(conf.benchmark_dir)
    reason = ""
    for sha in shas:
        try:
            environment.install_project(conf, repo, sha)
            with tempfile.TemporaryDirectory() as folder:
                listing = Path(folder) / "benchmarks.json"
                root = str(Path(conf.benchmark_dir).absolute())
                environment.run(
                    [BENCHMARK_RUN_SCRIPT, "discover", root, str(listing)],
                    cwd=folder,
                    env={**os.environ, **environment.env_vars},
                    dots=False,
                    display_error=False,
                )
                return json.loads(listing.read_bytes())
        except ProcessError as error:
            said = [line for line in (error.stderr or "").splitlines() if line.strip()]
            reason = f"{sha[:10]}: {said[-1].strip() if said else error}"
        finally:
            log.flush()
    raise EnvironmentFailure(
        f"the benchmarks in {conf.benchmark_dir!r} cannot be imported at any of "
        f"{len(shas)} commits tried; the last said {reason}"
    )


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
