"""The session log: append-only JSON lines, on disk event by event, readable by later versions.

The first line is ``{"bisectorch_log": 2, "header": {...}}``; every further line holds one event
under its kind, the name of a field of ``_Line``.
``docs/report-schema.md`` documents each field. Everything Bisectorch says of a session is derived
from its log.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import filelock
import msgspec

from bisectorch.errors import EnvironmentFailure, LogError, UsageError
from bisectorch.model import (
    BuildEvent,
    Conditions,
    Count,
    End,
    Event,
    Explanation,
    MachineState,
    Observation,
    Rebuilds,
    Session,
    SessionHeader,
    SideBranch,
    Trace,
)

VERSION = 2
"""The version this module writes; it reads this one and older ones, and refuses newer ones."""

SUFFIX = ".jsonl"

BLOCK_BYTES = 16 << 20
"""So much of a log is read at a time."""

_NO_PRIOR = b',"prior":1.0}'
"""How a commit ends of which nothing was said beforehand; in a text the marks would be escaped."""

_NO_SALT = b',"salt":0}'
"""How an event of a commit's usual build ends; likewise."""

_SAMPLES = re.compile(rb'"samples":\[[^\]]*\],?')
"""A run's samples as we write them; inside a text the quotation marks would be escaped."""


class _Head(msgspec.Struct, frozen=True):
    """The first line."""

    bisectorch_log: int
    header: SessionHeader


class _Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False, frozen=True):
    """Any other line: exactly one of these."""

    build: BuildEvent | None = None
    observation: Observation | None = None
    side_branch: SideBranch | None = None
    trace: Trace | None = None
    explanation: Explanation | None = None
    conditions: Conditions | None = None
    state: MachineState | None = None
    count: Count | None = None
    rebuilds: Rebuilds | None = None
    end: End | None = None

    @property
    def event(self) -> Event | None:
        return (
            self.observation
            or self.build
            or self.side_branch
            or self.trace
            or self.explanation
            or self.state
            or self.conditions
            or self.count
            or self.rebuilds
            or self.end
        )


class _Version(msgspec.Struct):
    """What every version of the first line has."""

    bisectorch_log: int


_encoder = msgspec.json.Encoder()
_head_decoder = msgspec.json.Decoder(_Head)
_line_decoder = msgspec.json.Decoder(_Line)


def log_path(sessions_dir: Path, session: str) -> Path:
    """Where the log of this session lies."""
    return sessions_dir / f"{session}{SUFFIX}"


class SessionLog:
    """A session log held open for appending by this process alone; a context manager.

    An event is on disk when :meth:`append` returns. A lock beside the log (``<log>.lock``) keeps
    a second process from writing it; where locks bind nobody, as on some network file systems,
    the log's size tells that another process wrote, and nothing is written over it. Make one
    with :meth:`create` or :meth:`reopen`.
    """

    def __init__(self, path: Path, descriptor: int, size: int, lock: filelock.BaseFileLock) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = size
        self._lock = lock
        self.session: Session | None = None

    @classmethod
    def create(cls, path: Path, header: SessionHeader) -> SessionLog:
        """Start a new log, its folder included, with the header on disk when this returns.

        Raises UsageError when the log exists or another process writes it, EnvironmentFailure
        when the disk refuses.
        """
        with _disk_faults(path):
            _make_durable(path.parent)
        lock = _lock(path)
        try:
            with _disk_faults(path):
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
                log = cls(path, os.open(path, flags, 0o644), 0, lock)
        except BaseException as error:
            lock.release()
            if isinstance(error.__cause__, FileExistsError):
                raise UsageError(
                    f"{path} exists already; resume that session or start one of another name"
                ) from None
            raise
        try:
            log._write(_encode(_Head(VERSION, header)))
            with _disk_faults(path):
                _sync_directory(path.parent)
        except BaseException:
            log.close()
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return log

    @classmethod
    def reopen(cls, path: Path) -> SessionLog:
        """Go on with a log, after cutting off a last line that a crash left incomplete.

        Its ``session`` then is what the log holds, without the samples of the runs. Raises what
        :func:`load` raises, and UsageError when another process writes the log.
        """
        if not path.is_file():
            raise LogError(f"there is no session log {path}; `bisectorch log` lists the sessions")
        lock = _lock(path)
        try:
            session, size = _read(path, samples=False)
            with _disk_faults(path):
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
                if os.fstat(descriptor).st_size != size:
                    os.ftruncate(descriptor, size)
                    os.fsync(descriptor)
        except BaseException:
            lock.release()
            raise
        log = cls(path, descriptor, size, lock)
        log.session = session
        return log

    def append(self, event: Event) -> None:
        """Write one event durably.

        Raises EnvironmentFailure when the disk refuses, with the log as it was before, or when
        another process has written the log; ValueError for a measurement that is not a finite
        number, which no run can yield.
        """
        self._write(_encode(_line(event)))

    def close(self) -> None:
        """Release the log; closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._lock.release()

    def __enter__(self) -> SessionLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        self._refuse_others()
        try:
            with _disk_faults(self.path):
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
                os.fsync(self._descriptor)
        except BaseException:
            # Half a line in the middle would make every later event unreadable.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
                os.fsync(self._descriptor)
            raise
        self._size += len(line)

    def _refuse_others(self) -> None:
        """A log that is not as we left it is somebody else's: to cut or go on would lose theirs."""
        with _disk_faults(self.path):
            size = os.fstat(self._descriptor).st_size
        if size != self._size:
            raise EnvironmentFailure(
                f"another process has written the session log {self.path} meanwhile; "
                "see that one session is resumed in one place at a time, then `bisectorch resume`"
            )


def load(path: Path, *, samples: bool = True) -> Session:
    """Read a session from its log; without the samples of its runs, a tenth of the memory.

    A last line that a crash cut is left out. Raises LogError, in one line, for a log of a newer
    version, for one that holds no header, and for a corrupt line before the last one.
    """
    session, _ = _read(path, samples=samples)
    return session


def read_header(path: Path) -> SessionHeader:
    """What the session set out to do, without reading its events; raises LogError as load."""
    return _head(path)[0]


def read_events(path: Path) -> Iterator[Event]:
    """The session's events one by one, never all of them in memory; raises LogError as load."""
    for events, _ in _parts(path, samples=True):
        yield from events


def logs(sessions_dir: Path) -> tuple[Path, ...]:
    """Every session log in the folder, newest session first; unreadable ones come last."""
    ages: dict[Path, float] = {}
    for path in sessions_dir.glob(f"*{SUFFIX}"):
        try:
            ages[path] = read_header(path).created_seconds
        except LogError:
            ages[path] = -math.inf
    return tuple(sorted(ages, key=lambda path: (ages[path], path.name), reverse=True))


def latest(sessions_dir: Path) -> Path | None:
    """The log of the newest session, or None when there is no log."""
    return next(iter(logs(sessions_dir)), None)


def _read(path: Path, *, samples: bool) -> tuple[Session, int]:
    """The session, and how many bytes of the log are complete lines."""
    events: list[Event] = []
    header, size = _head(path)
    with _without_collections():
        for some, length in _parts(path, samples=samples):
            events += some
            size += length
    return Session(header, tuple(events)), size


def _head(path: Path) -> tuple[SessionHeader, int]:
    try:
        with path.open("rb") as stream:
            line = stream.readline()
    except OSError as error:
        raise _unreadable(path, error) from error
    return _header(path, line), len(line)


def _parts(path: Path, *, samples: bool) -> Iterator[tuple[list[Event], int]]:
    """The events, some at a time, and how many bytes these take in the log."""
    number = 2
    try:
        with path.open("rb") as stream:
            stream.readline()
            for block, is_last in _blocks(stream):
                whole = block
                try:
                    lines = _decode_lines(block, samples=samples)
                except msgspec.DecodeError:
                    # A block device may have kept the end of the last write, not its beginning.
                    whole = block[: block.rfind(b"\n", 0, -1) + 1]
                    if not is_last or not _is_torn(block[len(whole) :]):
                        raise _corrupt(path, block, number) from None
                    try:
                        lines = _decode_lines(whole, samples=samples)
                    except msgspec.DecodeError:
                        raise _corrupt(path, whole, number) from None
                # Nearly all are observations, and there may be millions.
                events = [
                    event for line in lines if (event := line.observation or line.event) is not None
                ]
                if len(events) != len(lines):
                    raise _corrupt(path, whole, number)
                number += len(events)
                yield events, len(whole)
    except OSError as error:
        raise _unreadable(path, error) from error


def _blocks(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """The complete lines of the rest of a log, some at a time, and whether these are the last."""
    size = os.fstat(stream.fileno()).st_size
    while data := stream.read(BLOCK_BYTES):
        end = data.rfind(b"\n") + 1
        if not end:
            data += stream.readline()
            end = data.rfind(b"\n") + 1
        if not end:
            return
        stream.seek(end - len(data), os.SEEK_CUR)
        yield data[:end], stream.tell() + len(data) - end >= size


def _decode_lines(body: bytes, *, samples: bool) -> list[_Line]:
    if not samples:
        body = _SAMPLES.sub(b"", body)
    return _line_decoder.decode_lines(body)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Millions of new objects and no garbage: collections would double the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Nor is it ever looked at again in search of garbage, of which there is none.
        gc.freeze()
        if collecting:
            gc.enable()


def _is_torn(line: bytes) -> bool:
    """Not JSON at all, as opposed to JSON that does not fit."""
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return True
    return False


def _header(path: Path, line: bytes) -> SessionHeader:
    """The header in the first line, newline included."""
    if not line.endswith(b"\n"):
        raise LogError(
            f"{path} holds no complete header, so nothing was measured in it; "
            "delete it and start anew"
        )
    try:
        version = msgspec.json.decode(line, type=_Version).bisectorch_log
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise LogError(f"{path} is not a session log of Bisectorch") from None
    if version > VERSION:
        raise LogError(
            f"{path} was written by a newer version of Bisectorch (log version {version}, "
            f"this one reads up to {VERSION}); upgrade Bisectorch to read it"
        )
    try:
        return _head_decoder.decode(line).header
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError(f"{path}, line 1 is corrupt ({error}); restore it from a copy") from None


def _corrupt(path: Path, body: bytes, first: int) -> LogError:
    """Names the first line that is no event, in lines that begin at this number."""
    number, why = first, "it holds no event"
    for number, line in enumerate(body.split(b"\n"), start=first):  # noqa: B007 (used after it)
        try:
            if _line_decoder.decode(line).event is None:
                break
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            why = str(error)
            break
    return LogError(f"{path}, line {number} is corrupt ({why}); restore it from a copy")


def _unreadable(path: Path, error: OSError) -> LogError:
    return LogError(f"the session log {path} cannot be read: {error.strerror or error}")


def _line(event: Event) -> _Line:
    if isinstance(event, Observation):
        for run in event.runs:
            if not all(map(math.isfinite, (run.value, *run.samples))):
                raise ValueError(f"a run of {event.sha} has a value that is not finite")
        return _Line(observation=event)
    if isinstance(event, BuildEvent):
        return _Line(build=event)
    if isinstance(event, SideBranch):
        return _Line(side_branch=event)
    if isinstance(event, Trace):
        return _Line(trace=event)
    if isinstance(event, Explanation):
        return _Line(explanation=event)
    if isinstance(event, Conditions):
        return _Line(conditions=event)
    if isinstance(event, MachineState):
        return _Line(state=event)
    if isinstance(event, Count):
        return _Line(count=event)
    if isinstance(event, Rebuilds):
        if not all(map(math.isfinite, (*event.levels, event.sigma))):
            raise ValueError(f"a rebuild of {event.sha} has a level that is not finite")
        return _Line(rebuilds=event)
    return _Line(end=event)


def _encode(line: _Head | _Line) -> bytes:
    try:
        encoded = _encoder.encode(line)
    except UnicodeEncodeError:
        # Git's paths and a process's last words need not be UTF-8; JSON must be.
        encoded = _encoder.encode(_valid_text(msgspec.to_builtins(line)))
    return encoded.replace(_NO_PRIOR, b"}").replace(_NO_SALT, b"}") + b"\n"


def _valid_text(value: object) -> object:
    """The same with every lone surrogate replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_valid_text(key): _valid_text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_valid_text(item) for item in value]
    return value


def _lock(path: Path) -> filelock.BaseFileLock:
    lock = filelock.FileLock(f"{path}.lock", timeout=0, thread_local=False)
    try:
        with _disk_faults(path):
            lock.acquire()
    except filelock.Timeout:
        raise UsageError(
            f"the session {path.stem} is being written by another process; "
            "wait until it ends, or stop it, then resume"
        ) from None
    return lock


def _make_durable(directory: Path) -> None:
    """Make a directory and those above it, so that a loss of power cannot take them away."""
    if not directory.is_dir():
        _make_durable(directory.parent)
        directory.mkdir(exist_ok=True)
        _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _disk_faults(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into one line that says what to do."""
    try:
        yield
    except filelock.Timeout:
        raise
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write the session log {path}: {error.strerror or error}; "
            "what was recorded before is kept: make room or mend the disk, then `bisectorch resume`"
        ) from error
