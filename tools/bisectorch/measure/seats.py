"""A build's place in a block: its worker, or the fault that emptied it, and what it yielded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bisectorch.measure.child import Fault
from bisectorch.measure.noise import block_values
from bisectorch.model import Build, Observation, Outcome, Purpose, Run, Workload


class Worker(Protocol):
    """A process that measures one build; ``answer`` and ``ask`` raise Fault."""

    def send(self, command: str, timeout_seconds: float, **arguments: Any) -> None:
        """Give a command."""

    def answer(self) -> Any:
        """Await the result of the earliest command not yet answered."""

    def ask(self, command: str, timeout_seconds: float, **arguments: Any) -> Any:
        """Give a command and await its answer."""

    def pin(self, core: int) -> None:
        """Move it to one core."""

    def close(self) -> None:
        """Kill it, and all it started."""


Start = Callable[[Build, Mapping[str, str], Path, "int | None"], Worker]
"""Starts a worker for a build, with these variables, in this directory, on this core."""


@dataclass
class Seat:
    """One build's place in a block.

    Attributes:
        build: what is measured.
        directory: where its worker runs; removed with it.
        worker: None before it starts and once the seat is empty.
        fault: why the seat is empty.
        setting_up: the setups were sent for.
        sampled: samples can be asked for one by one.
        samples: what the worker yielded, in the workload's unit.
        number: how many calls one sample averages over.
    """

    build: Build
    directory: Path
    worker: Worker | None = None
    fault: Fault | None = None
    setting_up: bool = False
    sampled: bool = True
    samples: tuple[float, ...] = ()
    number: int = 1

    def attempt(self, action: Callable[[Worker], Any]) -> Any:
        """The action's result; None once the seat is empty, or is emptied by it."""
        if self.worker is None:
            return None
        try:
            return action(self.worker)
        except Fault as fault:
            self.fail(fault)
            return None

    def fail(self, fault: Fault) -> None:
        """Keep the fault, drop the samples, kill the worker."""
        self.fault = fault
        self.samples = ()
        self.vacate()

    def vacate(self) -> None:
        """Kill the worker."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None
            shutil.rmtree(self.directory, ignore_errors=True)


def vacate(seats: Sequence[Seat]) -> None:
    """Kill the workers of these seats."""
    for seat in seats:
        seat.vacate()


def observations(
    seats: Sequence[Seat],
    workload: Workload,
    purpose: Purpose,
    block: str,
    started_seconds: float,
    seconds: float,
) -> Iterator[Observation]:
    """One observation a seat, values adjusted within the block."""
    filled = [seat for seat in seats if seat.fault is None]
    values = block_values(
        [seat.samples for seat in filled],
        paired=all(seat.sampled for seat in filled),
        averaged=all(seat.number > 1 for seat in filled),
    )
    value_of = {id(seat): value for seat, value in zip(filled, values, strict=True)}
    for seat in seats:
        if seat.fault is not None:
            yield Observation(
                workload.name,
                seat.build.sha,
                seat.fault.outcome,
                (),
                seat.fault.reason,
                purpose,
                seat.build.salt,
            )
        else:
            run = Run(
                value_of[id(seat)], block, seat.samples, seat.number, started_seconds, seconds
            )
            yield Observation(
                workload.name,
                seat.build.sha,
                Outcome.MEASURED,
                (run,),
                "",
                purpose,
                seat.build.salt,
            )
