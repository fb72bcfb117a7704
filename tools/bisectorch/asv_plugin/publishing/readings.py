"""asv's results, read once: what did not change since the last publish is not parsed again.

Values are sorted by benchmark, since whatever is published is; a benchmark whose values did not
change keeps its bytes, and with them everything made from it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import msgspec
from asv import _stats, util
from asv.console import log
from asv.results import Results, iter_results_paths

from bisectorch.asv_plugin.publishing.cores import on_every_core

Values = list[float | None]


class Entry(msgspec.Struct, array_like=True, gc=False):
    """What one results file says of one benchmark, a value for each choice of parameters.

    Attributes:
        file: the number of the file.
        values, weights: as asv's graphs take them.
        lows, highs: asv's 99 % interval; None where it has none.
        counts: how many samples stand behind the value.
        started: when it was measured, milliseconds since the epoch; None if unknown.
    """

    file: int
    values: Values
    weights: Values
    lows: Values
    highs: Values
    counts: list[int]
    started: int | None = None


class Header(msgspec.Struct, array_like=True):
    """What one results file says beside its values.

    Attributes:
        number: stays with the file from one publish to the next.
        commit: the full object name; empty where asv could not load the file.
        date: milliseconds since the epoch.
        params: asv's machine and environment parameters.
        env_vars: variables set when it was measured.
        environment: asv's name of the environment.
        size, modified: of the file, to see whether it changed.
        marks: a checksum a benchmark, by the benchmarks' order; 0 where it has no value.
        stale: which benchmarks it has in another version only, by the same order.
    """

    number: int
    commit: str = ""
    date: int = 0
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    env_vars: dict[str, Any] = msgspec.field(default_factory=dict)
    environment: str = ""
    size: int = -1
    modified: int = 0
    marks: list[int] = msgspec.field(default_factory=list)
    stale: list[int] = msgspec.field(default_factory=list)


class Store(msgspec.Struct):
    """What is kept from one publish to the next.

    Attributes:
        stamp: of the benchmarks and of this program; another one makes the rest void.
        names: the benchmarks, in order.
        files: each results file's header by its path, in asv's order.
        entries: the encoded entries of each benchmark.
    """

    stamp: str = ""
    names: list[str] = msgspec.field(default_factory=list)
    files: dict[str, Header] = msgspec.field(default_factory=dict)
    entries: dict[str, bytes] = msgspec.field(default_factory=dict)


_encoder = msgspec.msgpack.Encoder()
_entries_decoder = msgspec.msgpack.Decoder(list[Entry])
_entry_decoder = msgspec.msgpack.Decoder(Entry)
_file_decoder = msgspec.msgpack.Decoder(tuple[Header, dict[str, msgspec.Raw], str])
_store_decoder = msgspec.msgpack.Decoder(Store)


class Readings:
    """Every result of a project, by benchmark.

    ``changed`` names the benchmarks whose values differ from those of the last publish.
    """

    def __init__(
        self, store: Store, changed: frozenset[str], fresh: Mapping[int, Mapping[str, msgspec.Raw]]
    ) -> None:
        self._store = store
        self.changed = changed
        self._fresh = fresh
        self.every = store.names
        self.headers = {h.number: h for h in store.files.values() if h.commit}
        """By the number of their file, in asv's order."""

    @property
    def names(self) -> Sequence[str]:
        """The benchmarks that have values."""
        return [name for name in self._store.names if name in self._store.entries]

    def entries(self, name: str) -> list[Entry]:
        """What the files say of a benchmark, by file."""
        packed = self._store.entries.get(name)
        return _entries_decoder.decode(packed) if packed else []

    def read_anew(self, number: int) -> dict[str, Entry]:
        """What a file that changed since the last publish says, by benchmark; else nothing."""
        return {n: _entry_decoder.decode(raw) for n, raw in self._fresh.get(number, {}).items()}

    def digest(self, name: str) -> int:
        """A checksum of the benchmark's values."""
        return zlib.crc32(self._store.entries.get(name, b""))

    def save(self, path: Path) -> None:
        """Keep what was read for the next publish."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".new")
        scratch.write_bytes(_encoder.encode(self._store))
        scratch.replace(path)


def read(
    results_dir: str, benchmarks: Mapping[str, Mapping[str, Any]], kept: Path, stamp: str
) -> Readings:
    """All results in ``results_dir`` of these benchmarks' present versions.

    ``kept`` is where the last publish left what it read. Files that asv cannot load are left out
    with asv's own warning.
    """
    names = sorted(benchmarks)
    identities = repr([(name, _identity(benchmarks[name])) for name in names])
    stamp = f"{stamp} {zlib.crc32(identities.encode('utf-8', 'replace'))}"
    old = _load(kept, stamp)
    store = Store(stamp, names)
    changed: set[str] = set()
    reread: set[int] = set()
    by_file: dict[int, dict[str, msgspec.Raw]] = {}
    gone = dict(old.files)
    free = max((header.number for header in old.files.values()), default=-1) + 1
    todo: dict[str, tuple[str, int]] = {}
    for path, machine in _paths(results_dir):
        known = gone.pop(path, None)
        header = known or Header(free)
        store.files[path] = header
        if (header.size, header.modified) != _state(path):
            todo[path] = machine, header.number
        free = max(free, header.number + 1)

    def encoded(path: str) -> tuple[str, bytes]:
        return path, _encoder.encode(_read_file(path, *todo[path], benchmarks, names))

    for path, content in on_every_core(encoded, list(todo)):
        header, entries, warning = _file_decoder.decode(content)
        if warning:
            log.warning(warning)
        changed.update(_differing(names, store.files[path].marks, header.marks))
        store.files[path] = header
        by_file[header.number] = entries
    reread.update(by_file)
    for header in gone.values():
        reread.add(header.number)
        changed.update(_differing(names, header.marks, ()))
    for name in names:
        if name not in changed:
            if name in old.entries:
                store.entries[name] = old.entries[name]
            continue
        packed = old.entries.get(name)
        now: dict[int, Entry | msgspec.Raw] = {
            entry.file: entry
            for entry in (_entries_decoder.decode(packed) if packed else ())
            if entry.file not in reread
        }
        now |= {number: rows[name] for number, rows in by_file.items() if name in rows}
        if now:
            store.entries[name] = _encoder.encode([now[number] for number in sorted(now)])
    return Readings(store, frozenset(changed), by_file)


def _state(path: str) -> tuple[int, int]:
    """What tells whether a file changed: size and time."""
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns


def _differing(names: Sequence[str], before: Sequence[int], now: Sequence[int]) -> Iterator[str]:
    """The benchmarks of which a file says something else than before; 0 says nothing."""
    for name, was, mark in zip_longest(names, before, now, fillvalue=0):
        if was != mark:
            yield str(name)


def _identity(benchmark: Mapping[str, Any]) -> tuple[Any, ...]:
    return benchmark.get("version"), benchmark.get("params")


def _load(kept: Path, stamp: str) -> Store:
    """What the last publish read; nothing where that is unknown or no longer holds."""
    try:
        store = _store_decoder.decode(kept.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return Store()
    return store if store.stamp == stamp else Store()


def _paths(results_dir: str) -> Iterator[tuple[str, str]]:
    """Each results file, in asv's order, with its machine."""
    for root, filename, machine in iter_results_paths(results_dir):
        yield str(Path(root) / filename), machine


def _read_file(
    path: str,
    machine: str,
    number: int,
    benchmarks: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
) -> tuple[Header, dict[str, Entry], str]:
    """One results file; empty, with a warning, where asv cannot load it."""
    size, modified = _state(path)
    try:
        plain = _plain(path, machine)
        facts, rows = plain if plain is not None else _by_asv(path, machine)
    except util.UserError as error:
        return Header(number, size=size, modified=modified), {}, str(error)
    entries: dict[str, Entry] = {}
    marks = []
    stale = []
    for place, name in enumerate(names):
        row = rows.get(name)
        benchmark = benchmarks[name]
        version = row.get("version") if row is not None else None
        if row is None or (version is not None and version != benchmark.get("version")):
            if row is not None:
                stale.append(place)
            marks.append(0)
            continue
        entry = _entry(number, row, benchmark["params"])
        entries[name] = entry
        # asv's graphs also depend on these; 0 is kept for "no value".
        seed = f"{facts[0]} {facts[2]} {facts[3]}".encode("utf-8", "replace")
        marks.append(zlib.crc32(_encoder.encode(entry), zlib.crc32(seed)) or 1)
    commit, date, params, env_vars, environment = facts
    header = Header(
        number, commit, date, params, env_vars, environment, size, modified, marks, stale
    )
    return header, entries, ""


_Facts = tuple[str, int, dict[str, Any], dict[str, Any], str]
_Rows = dict[str, dict[str, Any]]


def _plain(path: str, machine: str) -> tuple[_Facts, _Rows] | None:
    """A file as asv 0.6 writes it; None for any other, which is asv's to judge."""
    content = Path(path).read_bytes()
    try:
        data = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # asv also reads NaN, which is no JSON
    if not isinstance(data, dict) or data.get("version") != Results.api_version:
        return None
    try:
        columns = data["result_columns"]
        rows = {
            name: dict(zip(columns, values, strict=False))
            for name, values in data["results"].items()
        }
        facts = (
            data["commit_hash"],
            data["date"],
            data["params"],
            data.get("env_vars", {}),
            data["env_name"],
        )
        if facts[2].get("machine") != machine:
            return None
    except (KeyError, TypeError, AttributeError):
        return None
    return facts, rows


def _by_asv(path: str, machine: str) -> tuple[_Facts, _Rows]:
    """What asv makes of a file; its UserError where it makes nothing."""
    loaded = Results.load(path, machine_name=machine)
    rows: _Rows = {}
    for name in loaded.get_all_result_keys():
        row: dict[str, Any] = {
            "result": loaded._results[name],
            "params": loaded._benchmark_params[name],
            "version": loaded._benchmark_version[name],
            "started_at": loaded._started_at[name],
        }
        stats = loaded._stats[name]
        for key in ("ci_99_a", "ci_99_b", "repeat"):
            row[f"stats_{key}"] = [each.get(key) for each in stats] if stats else None
        rows[name] = row
    facts = (loaded.commit_hash, loaded.date, loaded.params, loaded.env_vars, loaded.env_name)
    return facts, rows


def _entry(number: int, row: Mapping[str, Any], params: Sequence[Sequence[str]]) -> Entry:
    """A benchmark's values, by its present parameters."""
    result, given = row.get("result"), row.get("params") or []
    lows, highs = row.get("stats_ci_99_a"), row.get("stats_ci_99_b")
    counts = row.get("stats_repeat")
    started = row.get("started_at")
    if result is not None and given != params:
        places = {choice: place for place, choice in enumerate(product(*given))}
        wanted = [places.get(choice) for choice in product(*params)]
        result, lows, highs, counts = (
            None if each is None else [_at(each, place) for place in wanted]
            for each in (result, lows, highs, counts)
        )
    size = math.prod(map(len, params))
    values = [_number(value) for value in _filled(result, size)]
    low, high = ([_bound(v) for v in _filled(each, size)] for each in (lows, highs))
    return Entry(
        number,
        values,
        [_weight(a, b) for a, b in zip(_filled(lows, size), _filled(highs, size), strict=True)],
        low,
        high,
        [int(count) if count else 0 for count in _filled(counts, size)],
        int(started) if isinstance(started, int | float) else None,
    )


def _at(values: Sequence[Any], place: int | None) -> Any:
    return None if place is None or place >= len(values) else values[place]


def _filled(values: Sequence[Any] | None, size: int) -> Sequence[Any]:
    """As many values as there are choices; asv leaves out missing ones at the end."""
    values = values or ()
    return values if len(values) == size else [*values[:size], *[None] * (size - len(values))]


def _number(value: Any) -> float | None:
    """The value; None where it is missing or is no number."""
    return value if isinstance(value, int | float) and value == value else None


def _bound(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _weight(low: Any, high: Any) -> float | None:
    if low is None or high is None:
        return None
    weight: float | None = _stats.get_weight({"ci_99_a": low, "ci_99_b": high})
    return weight
