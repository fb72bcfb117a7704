"""How many fresh rounds a step needs."""

from __future__ import annotations

from bisectorch.search.culprits import Confirmation, confirm

SIGMA = 0.02


def test_one_round_that_says_ten_to_one_is_enough() -> None:
    """A step of ten times the noise: one round is asked for, and settles it."""
    assert confirm((), 0.2, SIGMA) == (Confirmation.WANTED, 1)
    assert confirm((0.2,), 0.2, SIGMA) == (Confirmation.AGREED, 0)


def test_a_step_near_the_noise_takes_two_rounds_at_least() -> None:
    """Two are asked for; one that says less than ten to one is not enough."""
    assert confirm((), 0.05, SIGMA)[1] >= 2
    assert confirm((0.05,), 0.05, SIGMA)[0] is Confirmation.WANTED


def test_a_round_that_says_nothing_of_a_plain_step_is_not_enough() -> None:
    """However large the step is believed to be."""
    assert confirm((0.0,), 0.2, SIGMA)[0] is Confirmation.WANTED
