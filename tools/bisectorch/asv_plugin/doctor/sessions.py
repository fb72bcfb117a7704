"""What the latest session here told of noise: of this project's benchmarks, not of ours."""

from __future__ import annotations

from pathlib import Path

from bisectorch.asv_plugin.doctor.finding import Check, ok
from bisectorch.asv_plugin.settings import Settings
from bisectorch.conclusion import noise_in
from bisectorch.knowledge import Knowledge
from bisectorch.measure.noise import free_of_blocks, logs, within_and_between
from bisectorch.report.account import noise_words
from bisectorch.report.record import latest, load

MOST_WORKLOADS = 3
MOST_BYTES = 16 << 20
"""A log that is larger takes too long to read for a check."""


def noise(settings: Settings) -> Check:
    """One line a workload, where a session measured any of them twice."""
    path = latest(Path(settings.sessions_dir))
    if path is None or path.stat().st_size > MOST_BYTES:
        return
    session = load(path)
    knowledge = Knowledge(session.events, free_of_blocks, logs)
    told = 0
    for workload in session.header.workloads:
        words = noise_words(noise_in(knowledge, workload, within_and_between))
        if words and told < MOST_WORKLOADS:
            told += 1
            yield ok(f"{workload.name}, in session {path.stem}: {words}")
