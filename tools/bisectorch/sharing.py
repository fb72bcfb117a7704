"""Which blocks share the start of their builds' processes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bisectorch.model import Block

MOST_BUILDS = 12
"""Processes of so many builds are alive at once, at most."""


def shared_starts(queues: Sequence[Sequence[Block]]) -> list[list[Block]]:
    """Put blocks together that are of different workloads and have builds in common.

    Runs of one workload never share a process: what the layout of memory adds to them must be
    seen again and again. Each block joins the group with most of its builds.

    Args:
        queues: for each workload its blocks, in order; no workload has two queues.
    """
    groups: list[list[Block]] = []
    for queue in queues:
        for block in queue:
            own = _builds([block])
            free = [
                group
                for group in groups
                if all(other.workload != block.workload for other in group)
                and len(own | _builds(group)) <= MOST_BUILDS
            ]
            best = max(free, key=lambda group: len(own & _builds(group)), default=None)
            if best is not None and own & _builds(best):
                best.append(block)
            else:
                groups.append([block])
    return groups


def _builds(blocks: Sequence[Block]) -> set[tuple[str, int]]:
    return {(build.sha, build.salt) for block in blocks for build in block.builds}
