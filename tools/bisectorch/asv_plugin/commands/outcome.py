"""How a session ends: run, saved for asv, and turned into an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from bisectorch.asv_plugin.explaining import explained
from bisectorch.asv_plugin.results import save_results
from bisectorch.asv_plugin.workshop import Workshop, is_counted, run_session
from bisectorch.model import BuildEvent, Event, Findings, Observation, Session, Verdict
from bisectorch.report.progress import ConsoleReporter
from bisectorch.report.record import SessionLog, load, read_events

EXIT = {Verdict.CULPRITS: 0, Verdict.INCONCLUSIVE: 3, Verdict.NO_CHANGE: 1}


def exit_code(findings: Findings) -> int:
    """0 when any workload has culprits, else 3 when any is inconclusive, else 1."""
    verdicts = {found.verdict for found in findings.workloads}
    return next(EXIT[verdict] for verdict in EXIT if verdict in verdicts)


def finish_session(
    workshop: Workshop,
    session: Session,
    log: SessionLog,
    reporter: ConsoleReporter,
    benchmarks: Mapping[str, Mapping[str, Any]],
    *,
    show_stderr: bool,
) -> Findings:
    """Bisect to the end; whatever was measured is saved for asv, also when it is cut short."""
    try:
        findings = run_session(
            workshop,
            session,
            log,
            reporter,
            attributes=json.loads(session.header.options.get("attributes", "{}")),
        )
        if not any(found.culprits for found in findings.workloads):
            return findings
        recorded = Session(session.header, load(log.path).events)
        return explained(workshop, recorded, findings, log, reporter)
    except KeyboardInterrupt:
        reporter.found(f"stopped; go on with `bisectorch resume {session.header.session}`")
        raise
    finally:
        if show_stderr:
            _show_failures(read_events(log.path))
        if not is_counted(session.header):  # asv's graphs of these benchmarks hold seconds
            save_results(
                workshop.conf.results_dir,
                session.header,
                read_events(log.path),
                benchmarks,
                workshop.environment,
                workshop.repo,
            )


def _show_failures(events: Iterable[Event]) -> None:
    for event in events:
        if isinstance(event, (BuildEvent, Observation)) and event.reason:
            print(f"{event.sha[:10]}: {event.reason}", file=sys.stderr)  # noqa: T201
