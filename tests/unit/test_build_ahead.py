"""Both ends built side by side before discovery, where there is more than one builder."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from bisectorch.asv_plugin.ahead import build_ends
from bisectorch.asv_plugin.workshop import Workshop
from bisectorch.errors import EnvironmentFailure
from bisectorch.model import Build, Commit
from fakes import FakeProvider, FakeReporter, line

LINE = line(4)


def workshop(provider: FakeProvider, builders: int) -> Workshop:
    """As much of one as builds are made with."""
    conf = SimpleNamespace(bisectorch_builders=builders)
    environment = SimpleNamespace(name="bisectorch-py3.11")
    return Workshop(conf, None, None, None, environment, provider)  # type: ignore[arg-type]


def test_both_ends_are_built_and_recorded() -> None:
    """The first and the last commit, and nothing between."""
    provider = FakeProvider()
    events = build_ends(workshop(provider, 2), LINE, FakeReporter())
    assert set(provider.provided) == {LINE[0].sha, LINE[-1].sha}
    assert {event.sha for event in events} == {LINE[0].sha, LINE[-1].sha}
    assert all(event.route is not None for event in events)


def test_one_builder_builds_nothing_ahead() -> None:
    """It would only make discovery wait."""
    assert build_ends(workshop(FakeProvider(), 1), LINE, FakeReporter()) == ()


def test_an_end_that_is_there_already_leaves_one_build() -> None:
    """Which discovery or the search's first round makes."""
    provider = FakeProvider(seconds=0.0)
    assert build_ends(workshop(provider, 2), LINE, FakeReporter()) == ()
    assert provider.provided == []


def test_an_end_that_cannot_be_built_is_recorded() -> None:
    """With its reason, as the search would have, and said."""
    provider = FakeProvider(broken={LINE[-1].sha: "no compiler flag"})
    reporter = FakeReporter()
    failed = [e for e in build_ends(workshop(provider, 2), LINE, reporter) if e.reason]
    assert [event.sha for event in failed] == [LINE[-1].sha]
    assert reporter.findings == [f"{LINE[-1].sha[:10]} cannot be built: no compiler flag"]


def test_a_fault_of_the_machine_is_raised() -> None:
    """It is none of the commit."""

    class Full(FakeProvider):
        def provide(self, commit: Commit) -> Build:
            raise EnvironmentFailure("the disk is full")

    with pytest.raises(EnvironmentFailure, match="disk is full"):
        build_ends(workshop(Full(), 2), LINE, FakeReporter())
