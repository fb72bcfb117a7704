"""The session log: round trips, crashes, full disks and other versions."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
import resource
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from bisectorch.errors import EnvironmentFailure, LogError, UsageError
from bisectorch.model import (
    BuildEvent,
    Cause,
    CodeChange,
    Commit,
    CommitRange,
    Conditions,
    Count,
    Difference,
    End,
    Explanation,
    MachineState,
    Observation,
    Outcome,
    PathClass,
    Purpose,
    Rebuilds,
    Route,
    Run,
    Session,
    SessionHeader,
    SideBranch,
    SpentIn,
    TouchedFile,
    Trace,
    Workload,
)
from bisectorch.report import record
from bisectorch.report.record import SessionLog, latest, load, log_path, logs, read_header
from factories import make_findings, make_session
from hypothesis import given
from hypothesis import strategies as st

END = End(1.5)


def write(path: Path, session: Session) -> None:
    """The whole session, as a bisection writes it."""
    with SessionLog.create(path, session.header) as log:
        for event in session.events:
            log.append(event)


@pytest.fixture
def session() -> Session:
    """A realistic session with every kind of event."""
    return make_session()


@pytest.fixture
def path(tmp_path: Path, session: Session) -> Path:
    """Its log."""
    path = log_path(tmp_path / "sessions", session.header.session)
    write(path, session)
    return path


def test_a_session_comes_back_as_it_was(path: Path, session: Session) -> None:
    """Load returns exactly what was appended, types included."""
    assert load(path) == session
    assert read_header(path) == session.header


def test_each_line_is_json_and_the_first_one_names_the_version(path: Path) -> None:
    """The documented shape: a versioned header, then one event under its kind a line."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["bisectorch_log"] == record.VERSION
    kinds = [tuple(line) for line in lines[1:]]
    events = {"build", "observation", "side_branch", "trace", "explanation", "end"}
    events |= {"conditions", "state", "count", "rebuilds"}
    assert set(kinds) == {(kind,) for kind in events}


def test_a_salt_is_written_where_a_build_is_not_the_usual(tmp_path: Path, session: Session) -> None:
    """Older logs have none, and text that looks like one is no such end."""
    events = (
        BuildEvent("1" * 40, Route.SOURCE, 3.0, 'ends like one,"salt":0}'),
        BuildEvent("1" * 40, Route.SOURCE, 3.0, "", 2),
        Observation("a.b", "1" * 40, Outcome.MEASURED, (Run(1.0),), "", Purpose.REPEAT),
        Observation("a.b", "1" * 40, Outcome.MEASURED, (Run(1.0),), "", Purpose.REBUILD, 2),
    )
    salted = Session(session.header, events)
    path = log_path(tmp_path, "salts")
    write(path, salted)
    assert load(path) == salted
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    written = [next(iter(line.values())).get("salt") for line in lines]
    assert written == [None, 2, None, 2]


def test_a_prior_is_written_where_one_was_given(tmp_path: Path, session: Session) -> None:
    """Only commits that the user weighed carry it; all others are as in older logs."""
    line = session.header.range.line
    tricky = replace(line[1], subject='ends like one,"prior":1.0}')
    weighed = (line[0], tricky, replace(line[2], prior=0.25), *line[3:])
    header = replace(session.header, range=replace(session.header.range, line=weighed))
    path = log_path(tmp_path, "priors")
    write(path, replace(session, header=header, events=()))
    assert load(path).header == header
    written = json.loads(path.read_text().splitlines()[0])["header"]["range"]["line"]
    assert [commit.get("prior") for commit in written[:4]] == [None, None, 0.25, None]


finite = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
commits = st.builds(
    Commit,
    sha=text,
    parents=st.lists(text, max_size=2).map(tuple),
    author=text,
    date_seconds=st.integers(-(2**40), 2**40),
    subject=text,
    paths=st.lists(text, max_size=2).map(tuple),
    path_class=st.sampled_from(PathClass),
    fingerprint=text,
    prior=st.just(1.0) | st.floats(1e-9, 1.0),
)
runs = st.builds(
    Run,
    finite,
    text,
    st.lists(finite, max_size=3).map(tuple),
    st.integers(1, 2**40),
    finite,
    finite,
)
texts_of = st.lists(text, max_size=2).map(tuple)
pairs = st.tuples(finite, finite)
differences = st.builds(
    Difference,
    text,
    st.sampled_from(SpentIn),
    text,
    st.integers(0, 2**20),
    st.sampled_from(CodeChange),
    pairs,
    pairs,
    pairs,
    st.none() | pairs,
)
several = st.lists(differences, max_size=2).map(tuple)
causes = st.builds(
    Cause,
    text,
    st.sampled_from(SpentIn),
    text,
    st.integers(0, 2**20),
    st.sampled_from(CodeChange),
    finite,
    finite,
    pairs,
    text,
    several,
)
explanations = st.builds(
    Explanation,
    text,
    text,
    text,
    pairs,
    pairs,
    st.lists(causes, max_size=2).map(tuple),
    several,
    several,
    st.lists(st.builds(TouchedFile, text, st.booleans(), texts_of, texts_of), max_size=2).map(
        tuple
    ),
    texts_of,
    texts_of,
    text,
)
events = st.one_of(
    st.builds(Trace, text, text, texts_of, texts_of, texts_of, texts_of),
    explanations,
    st.builds(BuildEvent, text, st.none() | st.sampled_from(Route), finite, text),
    st.builds(
        Observation,
        text,
        text,
        st.sampled_from(Outcome),
        st.lists(runs, max_size=3).map(tuple),
        text,
        st.sampled_from(Purpose),
    ),
    st.builds(SideBranch, text, text, st.lists(commits, max_size=2).map(tuple)),
    st.builds(End, finite),
    st.builds(Conditions, st.dictionaries(text, text, max_size=2)),
    st.builds(MachineState, text, finite, *[st.none() | finite] * 3),
    st.builds(Count, text, text, st.none() | finite, text, finite, text),
    st.builds(
        Rebuilds, text, text, st.lists(finite, max_size=3).map(tuple), st.integers(1, 9), finite
    ),
)
texts = st.dictionaries(text, text, max_size=2)
workloads = st.builds(
    Workload,
    text,
    st.lists(text, max_size=2).map(tuple),
    st.none() | st.integers(0, 99),
    text,
    text,
    finite,
    text,
)
headers = st.builds(
    SessionHeader,
    session=text,
    created_seconds=finite,
    range=st.builds(CommitRange, text, st.lists(commits, max_size=3).map(tuple)),
    workloads=st.lists(workloads, max_size=2).map(tuple),
    smallest_step=finite,
    confidence=finite,
    budget_seconds=st.none() | finite,
    machine=texts,
    environment=text,
    python=text,
    project=text,
    show_commit_url=text,
    options=texts,
)


@given(header=headers, happened=st.lists(events, max_size=5))
def test_any_session_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, header: SessionHeader, happened: list
) -> None:
    """Whatever the fields hold, the log loses nothing."""
    path = tmp_path_factory.mktemp("log") / "any.jsonl"
    write(path, Session(header, tuple(happened)))
    assert load(path) == Session(header, tuple(happened))


def test_text_that_is_not_unicode_is_kept_readable(tmp_path: Path, session: Session) -> None:
    """A lone surrogate, as git's paths can hold, costs one character and not the event."""
    path = tmp_path / "odd.jsonl"
    seen = Observation("w", "a" * 40, Outcome.FAILED, (), "caf\udce9 \U0001f9a5")
    write(path, Session(session.header, (seen,)))
    assert load(path).events == (replace(seen, reason="caf\ufffd \U0001f9a5"),)


def test_a_value_that_is_no_number_is_refused(path: Path) -> None:
    """JSON has no NaN, and no run can yield one."""
    seen = Observation("w", "a" * 40, Outcome.MEASURED, (Run(float("nan")),))
    before = path.read_bytes()
    with SessionLog.reopen(path) as log, pytest.raises(ValueError, match="not finite"):
        log.append(seen)
    assert path.read_bytes() == before


@pytest.mark.parametrize("keep", range(1, 30, 4))
def test_a_cut_last_line_is_ignored_and_cut_back(path: Path, session: Session, keep: int) -> None:
    """A crash in the middle of a write costs that event alone; going on repairs the log."""
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    path.write_bytes(whole[: min(start + keep, len(whole) - 1)])
    assert load(path).events == session.events[:-1]
    with SessionLog.reopen(path) as log:
        assert path.read_bytes() == whole[:start]
        log.append(session.events[-1])
    assert path.read_bytes() == whole


def test_a_torn_last_line_is_ignored_and_cut_back(path: Path, session: Session) -> None:
    """A device may keep a write's end, newline included, and lose its beginning to zeros."""
    whole = path.read_bytes()
    with path.open("ab") as stream:
        stream.write(b"\0" * 30 + b'"sha":""}}\n')
    assert load(path) == session
    with SessionLog.reopen(path) as log:
        assert path.read_bytes() == whole
        log.append(END)
    assert load(path).events == (*session.events, END)


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"not json",
        b'{"observation": {"workload": 3}}',
        b'{"unheard_of": {}}',
    ],
)
def test_a_corrupt_middle_line_is_named(path: Path, line: bytes) -> None:
    """One clear line with the line's number, whatever is wrong with it."""
    lines = path.read_bytes().split(b"\n")
    lines[4] = line
    path.write_bytes(b"\n".join(lines))
    for read in (load, SessionLog.reopen):
        with pytest.raises(LogError, match="line 5 is corrupt") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_a_newer_version_is_refused_with_advice(path: Path) -> None:
    """The line says which version, and to upgrade."""
    path.write_bytes(path.read_bytes().replace(b'"bisectorch_log":2', b'"bisectorch_log":7', 1))
    for read in (load, SessionLog.reopen, read_header):
        with pytest.raises(LogError, match=r"newer version of Bisectorch \(log version 7.*upgrade"):
            read(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no complete header"),
        (b'{"bisectorch_log":2,"hea', "no complete header"),
        (b"hello\n", "not a session log"),
        (b'{"version": 2}\n', "not a session log"),
        (b"\xff\n", "not a session log"),
        (b'{"bisectorch_log":2,"header":{}}\n', "line 1 is corrupt"),
    ],
)
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """Each in one line that says what is wrong."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    with pytest.raises(LogError, match=message):
        load(path)


def test_a_missing_log_is_a_log_error(tmp_path: Path) -> None:
    """Neither reading nor reopening shows a traceback."""
    for read in (load, SessionLog.reopen, read_header):
        with pytest.raises(LogError):
            read(tmp_path / "none.jsonl")


def test_a_log_is_never_overwritten(path: Path, session: Session) -> None:
    """Creating twice is refused and harms nothing."""
    before = path.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        SessionLog.create(path, session.header)
    assert path.read_bytes() == before
    SessionLog.reopen(path).close()


def _try_to_reopen(path: Path, answer: multiprocessing.Queue) -> None:
    try:
        SessionLog.reopen(path).close()
        answer.put("reopened")
    except UsageError as error:
        answer.put(str(error))


def test_two_processes_cannot_write_one_session(path: Path) -> None:
    """The second one is told so at once; after the first has closed it may."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    with SessionLog.reopen(path):
        child = context.Process(target=_try_to_reopen, args=(path, answer))
        child.start()
        assert "being written by another process" in answer.get(timeout=60)
        child.join()
        with pytest.raises(UsageError, match="being written"):
            SessionLog.reopen(path)
    child = context.Process(target=_try_to_reopen, args=(path, answer))
    child.start()
    assert answer.get(timeout=60) == "reopened"
    child.join()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_leaves_the_log_as_it_was(
    path: Path, session: Session, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Half a line is cut back, the fault says what to do, the log goes on."""
    before = path.read_bytes()
    real, calls = os.write, []

    def write_half_then_fail(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            return _refuse(code)
        return real(descriptor, data[: len(data) // 2])

    with SessionLog.reopen(path) as log:
        monkeypatch.setattr(record.os, "write", write_half_then_fail)
        with pytest.raises(EnvironmentFailure, match="bisectorch resume"):
            log.append(END)
        assert len(calls) == 2
        assert path.read_bytes() == before
        monkeypatch.undo()
        log.append(END)
    assert load(path).events == (*session.events, END)


def _refuse(code: int) -> int:
    raise OSError(code, os.strerror(code))


def _write_until_killed(path: Path, event: Observation) -> None:
    with SessionLog.reopen(path) as log:
        while True:
            log.append(event)


def test_kill_nine_loses_at_most_the_event_in_flight(path: Path, session: Session) -> None:
    """A process killed while it appends leaves a log that reads, reopens and goes on."""
    event = next(e for e in session.events if isinstance(e, Observation))
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=_write_until_killed, args=(path, event))
    begun = path.stat().st_size
    child.start()
    while path.stat().st_size < begun + 5_000:
        assert child.is_alive()
    child.kill()
    child.join()
    added = load(path).events[len(session.events) :]
    assert len(added) > 10
    assert set(added) == {event}
    with SessionLog.reopen(path) as log:
        log.append(END)
    assert load(path).events == (*session.events, *added, END)


def _write_beyond_the_limit(path: Path, room: int, event: Observation, answer: object) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with SessionLog.reopen(path) as log:
        limit = path.stat().st_size + room
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            log.append(event)
        except EnvironmentFailure as error:
            answer.put(str(error))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        log.append(END)


def test_a_write_that_the_system_cuts_short_is_cut_back(path: Path, session: Session) -> None:
    """The kernel itself takes 50 bytes and refuses the rest, as a full disk does."""
    event = next(e for e in session.events if isinstance(e, Observation))
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    child = context.Process(target=_write_beyond_the_limit, args=(path, 50, event, answer))
    child.start()
    assert "File too large" in answer.get(timeout=60)
    child.join()
    assert child.exitcode == 0
    assert load(path).events == (*session.events, END)


def test_a_failed_sync_leaves_the_log_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may not have reached the disk is not believed."""
    before = path.read_bytes()
    calls = []

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, "input/output error")

    with SessionLog.reopen(path) as log:
        monkeypatch.setattr(record.os, "fsync", sync)
        with pytest.raises(EnvironmentFailure):
            log.append(END)
    assert path.read_bytes() == before


def test_no_room_for_a_new_log_leaves_none(
    tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that could not begin leaves no log that looks like one."""
    monkeypatch.setattr(record.os, "write", lambda *_: _refuse(errno.ENOSPC))
    with pytest.raises(EnvironmentFailure, match="No space left"):
        SessionLog.create(tmp_path / "new.jsonl", session.header)
    assert not (tmp_path / "new.jsonl").exists()
    monkeypatch.undo()
    SessionLog.create(tmp_path / "new.jsonl", session.header).close()


def test_a_folder_that_cannot_be_made_is_an_environment_failure(
    tmp_path: Path, session: Session
) -> None:
    """A file where the sessions folder should be."""
    (tmp_path / "sessions").write_text("")
    with pytest.raises(EnvironmentFailure):
        SessionLog.create(tmp_path / "sessions" / "a.jsonl", session.header)


def test_every_event_is_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appending returns after the disk has it; creating syncs the folder as well."""
    synced = []
    monkeypatch.setattr(record.os, "fsync", synced.append)
    with SessionLog.reopen(path) as log:
        for number in range(1, 4):
            log.append(END)
            assert len(synced) == number
    synced.clear()
    SessionLog.create(path.with_name("other.jsonl"), load(path).header).close()
    assert len(synced) == 2


def test_logs_are_listed_newest_first(tmp_path: Path) -> None:
    """By when they were begun, unreadable ones last."""
    assert latest(tmp_path / "none") is None
    for name, created in (("a", 20.0), ("b", 30.0), ("c", 10.0)):
        header = make_session(make_findings(name, created)).header
        SessionLog.create(log_path(tmp_path, name), header).close()
    log_path(tmp_path, "broken").write_text("x")
    assert [path.stem for path in logs(tmp_path)] == ["b", "a", "c", "broken"]
    assert latest(tmp_path) == log_path(tmp_path, "b")


def test_logs_of_the_first_version_are_read(path: Path, session: Session) -> None:
    """They have none of what the second one added, and go on as they are."""
    later = (Conditions, MachineState, Count, Rebuilds)
    lines = path.read_bytes().split(b"\n")
    kept = [
        line
        for line in lines
        if not line.startswith((b'{"conditions"', b'{"state"', b'{"count"', b'{"rebuilds"'))
    ]
    old = b"\n".join(kept).replace(b'"bisectorch_log":2', b'"bisectorch_log":1', 1)
    assert len(kept) < len(lines)
    path.write_bytes(old)
    events = tuple(event for event in session.events if not isinstance(event, later))
    assert load(path) == replace(session, events=events)
    with SessionLog.reopen(path) as log:
        log.append(MachineState("9.0", 1.0, load=0.5))
    assert load(path).events[-1] == MachineState("9.0", 1.0, 0.5, None, None)


@pytest.mark.parametrize("levels", [(math.nan, 0.0), (0.0, math.inf)])
def test_a_rebuild_that_is_no_number_is_refused(path: Path, levels: tuple[float, ...]) -> None:
    """It would read as null, and null as a corrupt line."""
    before = path.read_bytes()
    with SessionLog.reopen(path) as log, pytest.raises(ValueError, match="not finite"):
        log.append(Rebuilds("w", "a" * 40, levels, 4, 0.1))
    assert path.read_bytes() == before
