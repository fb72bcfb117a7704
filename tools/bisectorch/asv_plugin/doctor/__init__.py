"""Is everything there that a bisection needs? Each check says so in one line, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bisectorch.asv_plugin.doctor import builds, project, sessions, surroundings
from bisectorch.asv_plugin.doctor.division import describe, divide
from bisectorch.asv_plugin.doctor.finding import Check, Finding, State, missing, ok
from bisectorch.asv_plugin.doctor.floor import floor
from bisectorch.asv_plugin.doctor.project import is_url
from bisectorch.asv_plugin.settings import Settings
from bisectorch.errors import BisectorchError

__all__ = [
    "Finding",
    "State",
    "describe",
    "divide",
    "examine",
    "examine_configuration",
    "floor",
    "is_url",
]


def examine(conf: Any, *, offline: bool) -> Iterator[Finding]:
    """Everything that can be told without a range; a fault in a check is that check's finding."""
    try:
        settings = Settings.from_conf(conf)
    except BisectorchError as error:
        yield missing(str(error))
        return
    checks: list[Callable[[], Check]] = [
        lambda: project.environment_type(conf),
        project.git,
        lambda: project.repository(conf, offline=offline),
        lambda: project.interpreters(conf),
        lambda: project.benchmarks(conf),
        lambda: builds.store_and_disk(settings),
        lambda: builds.routes(conf, settings, offline=offline),
        lambda: surroundings.surroundings(conf),
        lambda: sessions.noise(settings),
    ]
    yield from _all(checks)


def examine_configuration(conf: Any) -> Iterator[Finding]:
    """What the files of the project say, wherever it is to be measured."""

    def settings() -> Check:
        Settings.from_conf(conf)
        yield ok("the settings can be read")

    yield from _all(
        [
            settings,
            lambda: project.environment_type(conf),
            lambda: project.versions(conf),
            lambda: project.syntax(conf),
        ]
    )


def _all(checks: Sequence[Callable[[], Check]]) -> Iterator[Finding]:
    for check in checks:
        try:
            yield from check()
        except BisectorchError as error:
            yield missing(str(error))
