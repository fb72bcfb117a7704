"""What a watch remembers and finds, look by look, over simulated measurements."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.asv_plugin.watching import ends_of, load_state, save_state
from bisectorch.errors import EnvironmentFailure, LogError, UsageError
from bisectorch.model import CommitRange, PathClass
from fakes import line
from watched import Watched, levels_of

FAST, SLOW = "suite.time_fast", "suite.time_slow"


def watched(tmp_path: Path, count: int, **steps: dict[int, float]) -> Watched:
    """A branch of so many commits on which two workloads take these steps."""
    commits = line(count)
    levels = {name: levels_of(commits, steps.get(name[11:], {})) for name in (FAST, SLOW)}
    return Watched(commits, levels, tmp_path / "watch" / "main.json")


def test_the_first_look_only_remembers(tmp_path: Path) -> None:
    """There is nothing to compare the first tip with."""
    branch = watched(tmp_path, 4)
    assert branch.look(1)
    assert not branch.studied
    assert branch.look(1)
    assert not branch.studied, "nor is there on a second look at the same tip"


def test_a_change_in_a_gap_is_bisected_and_found_once(tmp_path: Path) -> None:
    """Only the workload that moved is bisected; later looks do not find it again."""
    branch = watched(tmp_path, 24, slow={9: 0.2})
    branch.look(0)
    assert branch.look(16)
    assert branch.found == [(SLOW, 9, "")]
    assert branch.studied == [(2, 2), (17, 1)]
    assert branch.look(23)
    assert branch.found == [(SLOW, 9, "")]
    assert [(news.event, news.known.commit) for news in branch.news] == [
        ("found", branch.line[9].sha)
    ]


def test_one_new_commit_needs_one_session(tmp_path: Path) -> None:
    """The two ends are the whole range."""
    branch = watched(tmp_path, 3, fast={1: 0.2})
    branch.look(0)
    branch.look(1)
    assert branch.found == [(FAST, 1, "")]
    assert branch.studied == [(2, 2)]


def test_a_revert_closes_what_it_undoes(tmp_path: Path) -> None:
    """The level is back where it was; a change of another size closes nothing."""
    branch = watched(tmp_path, 9, slow={2: 0.3, 5: 1 / 1.3 - 1}, fast={3: 0.3, 6: -0.1})
    for position in range(9):
        assert branch.look(position)
    assert branch.found == [(SLOW, 2, "5"), (FAST, 3, ""), (SLOW, 5, ""), (FAST, 6, "")]
    events = [(news.event, news.known.workload) for news in branch.news]
    assert events == [("found", SLOW), ("found", FAST), ("closed", SLOW)]


def test_a_hook_that_fails_is_called_again(tmp_path: Path) -> None:
    """By the next look, until it was told."""
    branch = watched(tmp_path, 5, slow={1: 0.3})
    branch.hook = False
    branch.look(0)
    branch.look(1)
    branch.look(1)
    assert len(branch.news) == 2
    branch.hook = True
    branch.look(1)
    branch.look(1)
    assert len(branch.news) == 3


def test_a_spent_budget_waits_for_the_next_day(tmp_path: Path) -> None:
    """Nothing is measured, nothing is forgotten; also when the clock jumps backwards."""
    branch = watched(tmp_path, 12, slow={5: 0.3})
    branch.budget_seconds = 90.0
    branch.look(0)
    branch.look(2)
    studied = len(branch.studied)
    assert studied
    assert not branch.look(11)
    branch.now -= 3600.0
    assert not branch.look(11)
    assert len(branch.studied) == studied
    branch.budget_seconds, branch.now = 1e9, branch.now + 90_000.0
    assert branch.look(11)
    assert branch.found == [(SLOW, 5, "")]


def test_documentation_is_not_measured(tmp_path: Path) -> None:
    """Commits that cannot change anything cost nothing."""
    branch = watched(tmp_path, 5)
    branch.line = (
        branch.line[0],
        *(replace(commit, path_class=PathClass.IRRELEVANT) for commit in branch.line[1:]),
    )
    branch.look(0)
    assert branch.look(4)
    assert not branch.studied


def test_a_broken_tip_is_waited_out(tmp_path: Path) -> None:
    """What cannot be measured now is compared when it can be; no change is lost with it."""
    branch = watched(tmp_path, 12, slow={4: 0.3})
    branch.unimportable = {branch.line[i].sha: "SyntaxError" for i in range(4, 10)}
    branch.look(0)
    for position in range(4, 10):
        assert not branch.look(position)
    assert branch.look(11)
    [(name, position, _)] = branch.found
    assert name == SLOW
    assert position in range(4, 11), "one of those that could not be told apart"


def test_a_workload_that_stays_unclear_is_left_behind(tmp_path: Path) -> None:
    """After some tries, and it is said."""
    branch = watched(tmp_path, 8)
    branch.look(0)

    def unclear(commits, workloads, left, stage):  # type: ignore[no-untyped-def]
        findings = branch.study(commits, workloads, left, stage)
        from bisectorch.model import Verdict

        found = tuple(replace(f, verdict=Verdict.INCONCLUSIVE) for f in findings.workloads)
        return replace(findings, workloads=found)

    assert not branch.look(1, unclear)
    assert not branch.look(2, unclear)
    assert branch.look(3, unclear)
    assert any("stayed inconclusive" in said for said in branch.reporter.findings)


def test_a_rewritten_branch_begins_anew(tmp_path: Path) -> None:
    """There is no line from what was known to the tip."""
    branch = watched(tmp_path, 6, slow={3: 0.3})
    branch.look(1)
    refused = branch.path

    def rewritten(*_: object) -> None:
        raise UsageError("FROM cannot be measured")

    assert branch.look(5, rewritten)  # type: ignore[arg-type]
    assert set(load_state(refused, "main").level_at.values()) == {branch.line[5].sha}


def test_the_ends_stand_for_all_between(tmp_path: Path) -> None:
    """Documentation at the tip does not make the gap implausible."""
    commits = list(line(5))
    commits[1] = replace(commits[1], path_class=PathClass.NATIVE)
    commits[4] = replace(commits[4], path_class=PathClass.IRRELEVANT)
    ends = ends_of(CommitRange("a..b", tuple(commits)))
    assert [each.sha for each in ends.line] == [commits[0].sha, commits[4].sha]
    assert ends.tip.path_class is PathClass.NATIVE


def test_a_damaged_memory_is_one_clear_line(tmp_path: Path) -> None:
    """With what to do."""
    path = tmp_path / "main.json"
    path.write_text('{"version": 1, "branch"')
    with pytest.raises(LogError, match="remove it"):
        load_state(path, "main")
    path.write_text('{"version": 99}')
    with pytest.raises(LogError, match="newer"):
        load_state(path, "main")


def test_a_full_disk_leaves_the_memory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written whole or not at all."""
    branch = watched(tmp_path, 3)
    branch.look(0)
    before = branch.path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bisectorch.asv_plugin.watching.os.fsync", full)
    with pytest.raises(EnvironmentFailure, match="No space left"):
        save_state(branch.path, load_state(branch.path, "main"))
    assert branch.path.read_bytes() == before
