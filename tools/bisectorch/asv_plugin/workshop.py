"""The wiring: from asv's configuration to the seams that the loop receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.console import log
from asv.environment import get_environments
from asv.repo import get_repo

from bisectorch.asv_plugin.corroborate import Counter, chosen_tool, corroborate
from bisectorch.asv_plugin.executors import executor_for
from bisectorch.asv_plugin.rebuilds import measure_rebuilds
from bisectorch.asv_plugin.settings import Settings
from bisectorch.bisection import bisect
from bisectorch.build import Ladder
from bisectorch.conclusion import conclude
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.explain import ProfilingExplainer
from bisectorch.history import GitHistory
from bisectorch.measure import CountingMeasurer, PairedMeasurer
from bisectorch.measure.counts import find_tool
from bisectorch.measure.gauge import MachineGauge
from bisectorch.measure.noise import free_of_blocks, logs, within_and_between
from bisectorch.model import Findings, Session, SessionHeader
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.record import SessionLog, load
from bisectorch.seams import Measurer, Provider, Rebuilder, Recorder, Reporter
from bisectorch.search import BayesSearcher


@dataclass(frozen=True)
class Workshop:
    """Everything a session works with: history, environment, ladder."""

    conf: Any
    settings: Settings
    repo: Any
    history: Any
    environment: Any
    ladder: Ladder


def open_workshop(
    conf: Any, env_spec: Sequence[str], reporter: ConsoleReporter, *, quotes_only: bool = False
) -> Workshop:
    """Open the repository and make the environment; no environment for ``quotes_only``.

    Raises UsageError for a repository that is not one, EnvironmentFailure when no environment
    can be made.
    """
    settings = Settings.from_conf(conf)
    repo = _open_repo(conf)
    history = GitHistory(Path(repo._path), settings.classes, conf.branches[0])
    environment = _choose_environment(conf, env_spec, reporter)
    if not quotes_only:
        reporter.progress(f"preparing environment {environment.name}")
        environment.create()
        log.flush()
    ladder = environment.ladder(conf, repo, reporter.progress, quotes_only=quotes_only)
    return Workshop(conf, settings, repo, history, environment, ladder)


def _open_repo(conf: Any) -> Any:
    is_url = "://" in conf.repo or (":" in conf.repo and not Path(conf.repo).exists())
    if not is_url and not Path(conf.repo).is_dir():
        raise UsageError(f"repo {conf.repo!r} in asv.conf.json does not exist")
    if not is_url and not any((Path(conf.repo) / name).exists() for name in (".git", "objects")):
        raise UsageError(f"repo {conf.repo!r} in asv.conf.json is not a git repository")
    repo = get_repo(conf)
    repo.pull()
    return repo


def _choose_environment(conf: Any, env_spec: Sequence[str], reporter: ConsoleReporter) -> Any:
    if not conf.environment_type:
        raise UsageError("asv.conf.json names no environment_type: `bisectorch init` adds ours")
    environments = list(get_environments(conf, list(env_spec)))
    ours = [env for env in environments if hasattr(env, "ladder")]
    if not ours:
        wanted = ", ".join(env_spec) or f"Python {', '.join(conf.pythons)}"
        raise EnvironmentFailure(
            f"no environment for {wanted}: install that Python, or change pythons or -E "
            '(environment_type must be "bisectorch")'
        )
    if len(ours) > 1:
        reporter.found(f"{len(ours)} environments match; using {ours[0].name} (choose with -E)")
    return ours[0]


TIMED_START_RUNS = 2
"""How many runs each end gets at first where the metric is a time."""


def searcher_for(header: SessionHeader) -> BayesSearcher:
    """The search at the session's own smallest step and confidence.

    A count of instructions is worth more than a time: one is enough to begin with.
    """
    start_runs = 1 if is_counted(header) else TIMED_START_RUNS
    return BayesSearcher(header.smallest_step, header.confidence, start_runs=start_runs)


def is_counted(header: SessionHeader) -> bool:
    """Whether the session's metric is instructions, not what the benchmarks yield."""
    return header.options.get("metric") == "instructions"


EXPLAIN = "explain"
"""The session's option: ``yes``, ``no``, or none where nothing was said, which means yes."""


def looks_into_builds(header: SessionHeader) -> bool:
    """Whether builds are looked into: for what workloads reach, and to explain culprits."""
    return header.options.get(EXPLAIN) != "no"


def findings_of(session: Session) -> Findings:
    """What a session's log amounts to, without measuring anything."""
    return conclude(
        session,
        searcher_for(session.header),
        free_of_blocks=free_of_blocks,
        logs=logs,
        noise_of=within_and_between,
    )


def rebuilder_of(ladder: Ladder) -> Rebuilder | None:
    """What builds a commit again; None where a wheel, which is always the same, may serve it."""
    return ladder if ladder.compiles else None


def run_session(
    workshop: Workshop,
    session: Session,
    log: SessionLog,
    reporter: ConsoleReporter,
    *,
    attributes: Mapping[str, Any] | None = None,
) -> Findings:
    """Bisect to the end, going on from what the session's log already holds."""
    attributes = dict(attributes or {})
    cores = attributes.pop("cpu_affinity", None)
    benchmark_dir = Path(workshop.conf.benchmark_dir).absolute()
    core = cores[0] if cores else None
    measurer: Measurer
    if is_counted(session.header):
        measurer = CountingMeasurer(benchmark_dir, find_tool(), attributes=attributes)
    else:
        measurer = PairedMeasurer(benchmark_dir, core=core, attributes=attributes)
    rebuilt = tuple(measure_rebuilds(session, workshop.ladder, measurer, log, reporter))
    session = Session(session.header, (*session.events, *rebuilt))
    with executor_for(workshop.conf, workshop.environment.name, workshop.ladder) as executor:
        findings = bisect(
            session,
            history=workshop.history,
            provider=workshop.ladder,
            executor=executor,
            measurer=measurer,
            searcher=searcher_for(session.header),
            recorder=log,
            reporter=reporter,
            free_of_blocks=free_of_blocks,
            logs=logs,
            noise_of=within_and_between,
            gauge=MachineGauge(benchmark_dir, core=core, attributes=attributes),
            tracer=(
                ProfilingExplainer(benchmark_dir, core=core, attributes=attributes)
                if looks_into_builds(session.header)
                else None
            ),
            sharer=measurer if isinstance(measurer, PairedMeasurer) else None,
            rebuilder=None if is_counted(session.header) else rebuilder_of(workshop.ladder),
            anchored=not is_counted(session.header),
        )
    tool = chosen_tool(session.header)
    if tool is None:
        return findings
    with CountingMeasurer(benchmark_dir, tool, attributes=attributes) as counter:
        return corroborated(load(log.path), findings, counter, workshop.ladder, log, reporter)


def corroborated(
    session: Session,
    findings: Findings,
    counter: Counter,
    provider: Provider,
    recorder: Recorder,
    reporter: Reporter,
) -> Findings:
    """The findings with the instructions of every culprit's two builds beside its times."""
    counts = tuple(corroborate(session, findings, counter, provider, recorder, reporter))
    if not counts:
        return findings
    return findings_of(Session(session.header, (*session.events, *counts)))
