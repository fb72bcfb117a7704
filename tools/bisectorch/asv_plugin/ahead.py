"""Both ends of a range built side by side, before one of them alone would be for discovery."""

from __future__ import annotations

from collections.abc import Sequence

from bisectorch.asv_plugin.executors import executor_for
from bisectorch.asv_plugin.workshop import Workshop
from bisectorch.model import BuildEvent, Commit
from bisectorch.probing import build_event
from bisectorch.seams import Reporter


def build_ends(
    workshop: Workshop, line: Sequence[Commit], reporter: Reporter
) -> tuple[BuildEvent, ...]:
    """What became of the builds of both ends; nothing where one builder makes one by one.

    Each is needed: discovery imports the benchmarks in the first that can be imported, and the
    search begins with both. Raises what the builder raises for a fault of the machine.
    """
    ends = [line[0], line[-1]]
    quotes = [workshop.ladder.quote(commit).seconds for commit in ends]
    if getattr(workshop.conf, "bisectorch_builders", 1) < 2 or not all(quotes):
        return ()
    reporter.progress(f"obtaining both ends (about {max(quotes):.0f} s)")
    with executor_for(workshop.conf, workshop.environment.name, workshop.ladder) as executor:
        made = executor.build(ends)
        return tuple(build_event(commit, result, reporter) for commit, result in made)
