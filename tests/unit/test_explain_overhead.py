"""What looking costs: common to all processes, and what makes functions add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bisectorch.explain.overhead import Fit, fitted, pooled
from bisectorch.explain.profile import Overhead, Profile, corrected
from profiles import Call, builtin, call, profile, python

MICRO = 1e-6
MEASURED = Overhead((0.3 * MICRO, 0.5 * MICRO), (0.2 * MICRO, 0.4 * MICRO), 2.5)
"""As it is measured on functions that do little."""
BENCH, FORWARD = python("time_it", "bench.py", own=False), python("Layer.forward")


def picture(calls: float = 100) -> Call:
    """A workload with so many calls of Python code, and one compiled call in each."""
    inner = call(builtin("dot"), 1, 0.5 * MICRO)
    return call(BENCH, 1, 2 * MICRO, call(FORWARD, calls, 0.4 * MICRO, inner))


def seen(calls: float, fit: Fit, told: Overhead = MEASURED) -> Profile:
    """A process in which looking cost what ``fit`` says, and which told what it measured."""
    return replace(profile(picture(calls), overhead=fit.of(MEASURED)), overhead=told)


@pytest.mark.parametrize("fit", [Fit(1.0, 1.0), Fit(0.8, 0.9), Fit(1.3, 0.4), Fit(1.1, 0.0)])
def test_functions_add_up_to_the_plain_call(fit: Fit) -> None:
    """In both builds, whatever calls and Python code really cost beside what was measured."""
    sides = seen(100, fit), seen(140, fit)
    for side in pooled([sides, sides])[0]:
        assert sum(corrected(side).values()) == pytest.approx(side.plain_seconds, rel=0.02)


def test_dear_calls_are_not_taken_for_the_new_functions_own_time() -> None:
    """With the cost as measured a small step of many calls looks larger than it is by a third."""
    fit = Fit(1.4, 0.6)
    plain = call(BENCH, 1, 10 * MICRO)
    more = call(BENCH, 1, 10 * MICRO, call(builtin("size"), 400, 0.2 * MICRO))
    sides = tuple(
        replace(profile(shape, picture(1000), overhead=fit.of(MEASURED)), overhead=MEASURED)
        for shape in (plain, more)
    )
    new = (BENCH, builtin("size"))
    assert corrected(sides[1])[new] > 1.35 * 400 * 0.2 * MICRO
    _, after = pooled([(sides[0], sides[1])])[0]
    assert corrected(after)[new] == pytest.approx(400 * 0.2 * MICRO, rel=0.15)


def test_what_cannot_be_is_not_fitted() -> None:
    """Whatever does not add up is not all put into what looking costs."""
    cheaper = [replace(p, plain_seconds=p.plain_seconds * 5) for p in (seen(100, Fit()),) * 2]
    assert fitted([(cheaper[0], cheaper[1])]) == Fit(0.6, 0.0)
    dearer = [replace(p, plain_seconds=p.plain_seconds / 3) for p in (seen(100, Fit()),) * 2]
    assert fitted([(dearer[0], dearer[1])]) == Fit(1.5, 1.0)


def test_the_interpreters_cost_is_common_to_all_processes() -> None:
    """What one process measured of it wrongly is no difference of the builds."""
    wrong = replace(MEASURED, slower=3.5, python=(0.6 * MICRO, 0.5 * MICRO))
    pairs = [(seen(100, Fit(), told), seen(100, Fit())) for told in (wrong, MEASURED, MEASURED)]
    for pair in pooled(pairs):
        for side in pair:
            assert sum(corrected(side).values()) == pytest.approx(side.plain_seconds, rel=0.01)


def test_another_clock_and_another_interpreter_have_costs_of_their_own() -> None:
    """Processor time is dear to read; a build of another Python is not corrected by this one's."""
    dear = Overhead((1.3 * MICRO, 1.5 * MICRO), (1.2 * MICRO, 1.4 * MICRO), 1.2)
    usual = profile(picture(), overhead=MEASURED)
    other = profile(picture(), overhead=dear)
    for apart in (replace(other, busy=True), replace(other, interpreter="3.13")):
        for pair in pooled([(usual, apart), (usual, usual), (apart, usual)]):
            for side in pair:
                assert sum(corrected(side).values()) == pytest.approx(side.plain_seconds, rel=0.01)


def test_beside_another_thread_nothing_is_fitted() -> None:
    """Its time is no part of the call's."""
    apart = replace(seen(100, Fit(1.5, 0.5)), engine_apart=True)
    assert fitted([(apart, apart)]) == Fit()
