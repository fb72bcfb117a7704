from __future__ import annotations

import io

import pytest
from bisectorch.errors import EnvironmentFailure
from bisectorch.history.rawlog import read_log

SHA = b"1" * 40
HEADER = b"\0commit\0" + SHA + b"\0" + b"2" * 40 + b"\0An Author\0" + b"1500000000\0subject\0\0"
CHANGE = b"\n:100644 000000 " + b"3" * 40 + b" " + b"0" * 40 + b" D\0:odd path\0"


def test_a_path_that_looks_like_a_record_is_a_path() -> None:
    """Records are read by position, so no file name can break out of its place."""
    [entry] = read_log(io.BytesIO(HEADER + CHANGE))
    assert [change.path for change in entry.changes] == [":odd path"]


def test_commits_without_changes_follow_each_other() -> None:
    """An empty commit has no changes and does not take its neighbour's."""
    entries = list(read_log(io.BytesIO(HEADER + HEADER + CHANGE)))
    assert [len(entry.changes) for entry in entries] == [0, 1]


@pytest.mark.parametrize("cut", [3, 30, 60, len(HEADER) + 20, len(HEADER + CHANGE) - 3])
def test_a_stream_that_was_cut_short_is_told(cut: int) -> None:
    """Half a record is an error, never a commit."""
    with pytest.raises(EnvironmentFailure, match="cut short"):
        list(read_log(io.BytesIO((HEADER + CHANGE)[:cut])))
