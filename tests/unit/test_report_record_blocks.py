"""A log read in blocks, without samples, and written by two processes where locks bind nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.errors import EnvironmentFailure, LogError
from bisectorch.model import End, Observation, Outcome, Run, Session
from bisectorch.report import record
from bisectorch.report.record import SessionLog, load, log_path, read_events
from factories import make_session

END = End(1.0)
HOSTILE = '"samples":[1,2],"runs":[{"value":7'


@pytest.fixture
def session() -> Session:
    """Every kind of event, and a reason that looks like a run's samples."""
    made = make_session()
    odd = Observation("w", "a" * 40, Outcome.FAILED, (), HOSTILE)
    return replace(made, events=(*made.events, odd))


@pytest.fixture
def path(tmp_path: Path, session: Session) -> Path:
    """The session's log."""
    path = log_path(tmp_path, "a")
    with SessionLog.create(path, session.header) as log:
        for event in session.events:
            log.append(event)
    return path


def bare(session: Session) -> Session:
    """The session without samples."""
    events = (
        replace(event, runs=tuple(replace(run, samples=()) for run in event.runs))
        if isinstance(event, Observation)
        else event
        for event in session.events
    )
    return replace(session, events=tuple(events))


@pytest.mark.parametrize("size", [1, 100, 1000, 4096, 1 << 24])
def test_blocks_of_any_size_yield_the_same(
    path: Path, session: Session, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also ones that are shorter than a line."""
    monkeypatch.setattr(record, "BLOCK_BYTES", size)
    assert load(path) == session
    assert load(path, samples=False) == bare(session)
    assert tuple(read_events(path)) == session.events


@pytest.mark.parametrize("size", [100, 1 << 24])
def test_a_torn_end_is_left_out_in_any_block(
    path: Path, session: Session, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line, and a line that is whole but for its beginning."""
    monkeypatch.setattr(record, "BLOCK_BYTES", size)
    whole = path.read_bytes()
    for torn in (b'{"end": {"sec', b'\0\0\0nds": 1}}\n'):
        path.write_bytes(whole + torn)
        assert load(path) == session
        with SessionLog.reopen(path) as log:
            assert log.session == bare(session)
        assert path.read_bytes() == whole


def test_a_corrupt_line_is_named_in_any_block(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number in the file."""
    monkeypatch.setattr(record, "BLOCK_BYTES", 500)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[6] = b"not json\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(LogError, match="line 7 is corrupt"):
        load(path)


def test_a_log_that_somebody_else_wrote_is_left_alone(
    path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where locks bind nobody: the later writer stops, and what the other reported stays."""

    class NoLock:
        """Can always be had."""

        def acquire(self) -> None:
            """Had."""

        def release(self) -> None:
            """Given back."""

    monkeypatch.setattr(record, "_lock", lambda path: NoLock())
    mine, theirs = SessionLog.reopen(path), SessionLog.reopen(path)
    theirs.append(END)
    with pytest.raises(EnvironmentFailure, match="another process"):
        mine.append(END)
    theirs.append(END)
    assert load(path).events == (*session.events, END, END)
    mine.close()
    theirs.close()


def test_values_survive_without_samples(tmp_path: Path, session: Session) -> None:
    """A run's other fields are as they were, whichever of them stands last."""
    path = log_path(tmp_path, "b")
    run = Run(1.5, "3.0", (1.5, 2.5), 10, 5.0, 0.25)
    seen = Observation("w", "b" * 40, Outcome.MEASURED, (run, replace(run, samples=())))
    with SessionLog.create(path, session.header) as log:
        log.append(seen)
    [read] = load(path, samples=False).events
    assert read == replace(seen, runs=(replace(run, samples=()),) * 2)
