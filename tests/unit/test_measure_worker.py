"""The worker's own arithmetic, and what it may be made of."""

from __future__ import annotations

import ast
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bisectorch.measure import worker
from bisectorch.measure.worker import Session, answer, describe, fill, repeat_limits

SOURCE = Path(worker.__file__).read_text()


def test_it_is_written_for_old_interpreters() -> None:
    """Python 3.6 parses it."""
    ast.parse(SOURCE, feature_version=(3, 6))


def test_it_imports_the_standard_library_and_asv_runner_only() -> None:
    """It runs where the tracker is not installed."""
    roots = set()
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").split(".")[0])
    assert roots <= set(sys.stdlib_module_names) | {"asv_runner"}


class FakeClock:
    """Tells prepared walls and losses, one a reading."""

    def __init__(self, *told: tuple[float, float]) -> None:
        self.told = iter(told)

    def read(self) -> tuple[float, float, float]:
        """Nothing that matters."""
        return (0.0, 0.0, 0.0)

    def since(self, before: tuple[float, float, float]) -> tuple[float, float]:
        """As prepared."""
        return next(self.told)


def timed(session: Session, duration: float, wall: float, lost: float) -> float:
    """What one sample of one unit comes to."""
    session.core_clock = FakeClock((wall, lost))  # type: ignore[assignment]
    session.take = lambda units: duration
    return session.sample()


def test_waiting_for_the_core_is_not_the_builds_time() -> None:
    """4 ms of 14 were lost while it was timed."""
    assert timed(Session(), 0.014, wall=0.01401, lost=0.004) == pytest.approx(0.010)


def test_waiting_before_or_after_the_timing_is_not_taken_off_twice() -> None:
    """The loss fell into the gap between the clocks, which was short the time before."""
    session = Session()
    timed(session, 0.010, wall=0.01002, lost=0.0)
    assert timed(session, 0.010, wall=0.01502, lost=0.005) == pytest.approx(0.010)
    assert timed(session, 0.013, wall=0.01502, lost=0.005) == pytest.approx(0.010)


def test_units_with_setups_between_them_lose_each_its_own() -> None:
    """One of three waited 5 ms while it was timed, another during its setup."""
    session = Session()
    durations = iter([0.001, 0.006, 0.001])
    session.take = lambda units: next(durations)
    session.apart, session.units, session.calls = True, 3, 3
    clock = FakeClock((0.0011, 0.0), (0.0061, 0.005), (0.0051, 0.004))
    session.core_clock = clock  # type: ignore[assignment]
    assert session.sample() == pytest.approx(0.001)


def test_the_calls_before_a_sample_are_not_counted() -> None:
    """They find the caches cold."""
    session = Session()
    durations = iter([0.009, 0.001])
    session.take = lambda units: next(durations)
    session.reheat = 1
    assert session.sample() == 0.001


def test_filling_a_sample() -> None:
    """At least one unit; ten times more when nothing was seen to pass."""
    assert fill(10, 0.002, 0.01) == 50
    assert fill(10, 0.2, 0.01) == 1
    assert fill(10, 0.0, 0.01) == 100


@pytest.mark.parametrize(
    ("repeat", "limits"),
    [(0, [None, None]), (5, [5, None]), ((1, 10, 2.5), [10, 2.5]), ([2, 3, 1], [3, 1.0])],
)
def test_repeat_in_all_of_asvs_forms(repeat: Any, limits: list[float | None]) -> None:
    """A number, or least, most and seconds."""
    assert repeat_limits(repeat) == limits


def test_an_exception_becomes_one_line() -> None:
    """Its type, the first line of its message in bounded length, and its place."""
    try:
        raise ValueError("x" * 1000 + "\nsecond line")
    except ValueError as error:
        text = describe(error)
    assert text.startswith("ValueError: xxx")
    assert "..." in text
    assert text.rsplit("(", 1)[1].startswith("test_measure_worker.py:")
    assert len(text) < 400
    assert "\n" not in text


def test_an_exception_that_cannot_be_shown() -> None:
    """Its message itself raises."""

    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Rude()) == "Rude: (message cannot be shown)"


def test_an_unknown_command_is_answered() -> None:
    """No answer at all would look like a hang."""
    assert answer(Session(), {"do": "dance", "with": {}})["fault"] == "raised"


def test_a_sample_before_the_first_call_is_an_error() -> None:
    """And not a number."""
    assert "before the first call" in answer(Session(), {"do": "sample", "with": {}})["error"]


@pytest.mark.parametrize("result", [math.nan, {"samples": [1.0, math.nan]}, {"samples": []}])
def test_results_that_mean_skipped(result: Any) -> None:
    """asv writes n/a for them."""
    session = Session()
    session.benchmark = SimpleNamespace(do_run=lambda: result, type="track")
    assert answer(session, {"do": "run", "with": {}}) == {"skipped": "skipped"}


@pytest.mark.parametrize("first", [0.3, 2.0])
def test_a_slow_first_call_does_not_settle_the_number(
    first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that loads something is not what the others cost; one of seconds is believed."""
    session = Session()
    durations = iter([first])
    session.benchmark = SimpleNamespace(warmup_time=0.0, _attr_sources=[])
    session.timed_and_wall = lambda units: (  # type: ignore[method-assign]
        (d := next(durations, 0.001 * units)),
        d,
    )
    monkeypatch.setattr(worker, "how_to_take", lambda benchmark: (lambda units: 0.0, 1, False))
    session.sampled = True
    session.call_once()
    assert session.calibrate(0.01)["number"] == (10 if first < 1 else 1)


def test_what_is_not_sampled_is_not_called_ahead() -> None:
    """A tracked number or a peak of memory belongs to its one run."""
    session = Session()
    session.benchmark = SimpleNamespace()
    assert answer(session, {"do": "call_once", "with": {}}) == {"ok": None}
    assert session.take is None
