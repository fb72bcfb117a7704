"""Which blocks share the start of their builds."""

from __future__ import annotations

from bisectorch.model import Block, Build, Purpose, Route, Workload
from bisectorch.sharing import MOST_BUILDS, shared_starts
from hypothesis import given
from hypothesis import strategies as st

X, Y, Z = (Workload(f"mod.time_{letter}") for letter in "xyz")


def block(workload: Workload, names: str) -> Block:
    """A block of builds named by single letters."""
    builds = tuple(Build(sha, Route.CACHED, f"/trees/{sha}", "python") for sha in names)
    return Block(workload, builds, "", Purpose.SEARCH)


def shown(groups: list[list[Block]]) -> list[list[str]]:
    """Each block as its workload's letter and its builds."""
    return [[b.workload.name[-1] + "".join(u.sha for u in b.builds) for b in g] for g in groups]


def test_blocks_of_different_workloads_join_where_they_have_most_in_common() -> None:
    """A pair joins the grid that holds both its builds, not the one that holds one."""
    queues = [[block(X, "abc"), block(X, "cdef")], [block(Y, "cd"), block(Y, "ab")]]
    assert shown(shared_starts(queues)) == [["xabc", "yab"], ["xcdef", "ycd"]]


def test_what_has_nothing_in_common_stays_alone() -> None:
    """There is nothing to win."""
    assert shown(shared_starts([[block(X, "ab")], [block(Y, "cd")]])) == [["xab"], ["ycd"]]


def test_rounds_of_one_workload_never_share_a_process() -> None:
    """Each round of the one goes with a round of the other."""
    queues = [[block(w, "ab")] * 2 for w in (X, Y, Z)]
    assert shown(shared_starts(queues)) == [["xab", "yab", "zab"]] * 2


def test_not_too_many_processes_are_alive_at_once() -> None:
    """A group is as large as that and no larger."""
    many = "abcdefghijkl"
    assert len(many) == MOST_BUILDS
    queues = [[block(X, many)], [block(Y, "pq")], [block(Z, "ab")]]
    assert shown(shared_starts(queues)) == [["x" + many, "zab"], ["ypq"]]


names = st.text("abcdefgh", min_size=1, max_size=5).map(lambda text: "".join(sorted(set(text))))


@given(st.lists(st.lists(names, max_size=4), min_size=1, max_size=3))
def test_every_block_is_measured_once(queues: list[list[str]]) -> None:
    """In groups of distinct workloads, and never started more often than alone."""
    blocks = [[block(w, own) for own in queue] for w, queue in zip((X, Y, Z), queues)]  # noqa: B905
    groups = shared_starts(blocks)
    assert sorted(b for g in shown(groups) for b in g) == sorted(
        w.name[-1] + own
        for w, queue in zip((X, Y, Z), queues)  # noqa: B905
        for own in queue
    )
    for group in groups:
        workloads = [b.workload.name for b in group]
        assert len(workloads) == len(set(workloads))
