from __future__ import annotations

from bisectorch.build.plan import FIRST_GUESS_SECONDS, Situation, expected_seconds, quote
from bisectorch.model import Quote, Route
from hypothesis import given
from hypothesis import strategies as st

SHA = "a" * 40
SITUATION = st.builds(
    Situation,
    cached=st.booleans(),
    base=st.sampled_from([(), (Route.WHEEL,), (Route.SOURCE,)]),
    files=st.integers(0, 9),
)


def test_what_is_in_the_store_costs_nothing() -> None:
    """Whatever else would have to be done."""
    assert quote(SHA, Situation(True, (Route.WHEEL,), 3), {}) == Quote(SHA, Route.CACHED, 0.0)


def test_the_base_is_paid_for_with_the_first_overlay() -> None:
    """And no longer once it is there."""
    first = quote(SHA, Situation(False, (Route.WHEEL,), 3), {})
    later = quote(SHA, Situation(False, (), 3), {})
    assert first.route is later.route is Route.OVERLAY
    assert first.seconds - later.seconds == FIRST_GUESS_SECONDS[Route.WHEEL]


def test_a_commit_without_files_is_its_base() -> None:
    """Its route is the base's own."""
    assert quote(SHA, Situation(False, (Route.WHEEL,), 0), {}).route is Route.WHEEL


def test_experience_replaces_the_first_guess() -> None:
    """By its median, so that one odd build does not mislead."""
    learned = {Route.OVERLAY: [0.1, 0.2, 60.0]}
    assert expected_seconds(Route.OVERLAY, learned) == 0.2
    assert expected_seconds(Route.WHEEL, learned) == FIRST_GUESS_SECONDS[Route.WHEEL]


@given(SITUATION)
def test_every_quote_is_for_one_commit_and_never_below_zero(situation: Situation) -> None:
    """Zero if and only if nothing has to be made."""
    found = quote(SHA, situation, {})
    nothing_to_do = situation.cached or (not situation.base and not situation.files)
    assert (found.seconds == 0) is nothing_to_do is (found.route is Route.CACHED)
    assert found.seconds >= 0
