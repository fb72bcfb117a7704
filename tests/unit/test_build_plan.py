from __future__ import annotations

from bisectorch.build import plan
from bisectorch.build.plan import FIRST_GUESS_SECONDS, ROUTES, Situation, expected_seconds, quote
from bisectorch.model import Quote, Route
from hypothesis import given
from hypothesis import strategies as st

SHA = "a" * 40
SITUATION = st.builds(
    Situation,
    base=st.sampled_from([None, plan.WHEEL, plan.SOURCE_STEP, plan.SOURCE_FROM_NOTHING]),
    overlay=st.booleans(),
)


def test_what_is_there_costs_nothing() -> None:
    """Nothing is to be made."""
    assert quote(SHA, Situation(None, False), {}) == Quote(SHA, Route.CACHED, 0.0)


def test_the_base_is_paid_for_with_the_first_overlay() -> None:
    """And no longer once it is there."""
    first = quote(SHA, Situation(plan.WHEEL, True), {})
    later = quote(SHA, Situation(None, True), {})
    assert first.route is later.route is Route.OVERLAY
    assert first.seconds - later.seconds == FIRST_GUESS_SECONDS[plan.WHEEL]


def test_a_commit_without_files_is_its_base() -> None:
    """Its route is the base's own."""
    assert quote(SHA, Situation(plan.WHEEL, False), {}).route is Route.WHEEL
    assert quote(SHA, Situation(plan.SOURCE_STEP, False), {}).route is Route.SOURCE


def test_experience_replaces_the_first_guess() -> None:
    """By its median, so that one odd build does not mislead."""
    learned = {plan.OVERLAY: [0.1, 0.2, 60.0]}
    assert expected_seconds(plan.OVERLAY, learned) == 0.2
    assert expected_seconds(plan.WHEEL, learned) == FIRST_GUESS_SECONDS[plan.WHEEL]


def test_every_kind_of_work_has_a_first_guess_and_a_route() -> None:
    """Whatever the ladder does can be quoted."""
    assert set(FIRST_GUESS_SECONDS) == set(ROUTES)


@given(SITUATION)
def test_every_quote_is_for_one_commit_and_never_below_zero(situation: Situation) -> None:
    """Zero if and only if nothing has to be made."""
    found = quote(SHA, situation, {})
    nothing_to_do = situation.base is None and not situation.overlay
    assert (found.seconds == 0) is nothing_to_do is (found.route is Route.CACHED)
    assert found.seconds >= 0
