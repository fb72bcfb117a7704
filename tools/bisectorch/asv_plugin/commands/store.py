"""``bisectorch store list|verify|prune``: what the store of builds holds."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from asv import config
from asv.commands import Command

from bisectorch.asv_plugin.commands import arguments
from bisectorch.asv_plugin.commands.base import TeachingErrors
from bisectorch.asv_plugin.settings import Settings
from bisectorch.build import Store
from bisectorch.errors import EnvironmentFailure


class StoreCommand(TeachingErrors, Command):  # type: ignore[misc]
    """Look after the builds."""

    @classmethod
    def setup_arguments(cls, subparsers: Any) -> argparse.ArgumentParser:
        """One word says what to do."""
        parser: argparse.ArgumentParser = subparsers.add_parser(
            "store",
            help="List, verify or prune the builds that are kept",
            description="""Lists the builds in the store with their sizes, verifies that they
            are as they were made (exit code 4 when one is not), or evicts the least recently
            used until the rest fits. What a running session stands on is never evicted.""",
        )
        parser.add_argument("action", choices=("list", "verify", "prune"))
        parser.add_argument(
            "--to",
            type=arguments.memory,
            metavar="SIZE",
            help="prune: how much may stay (20G, 500M). Default: store_size of asv.conf.json.",
        )
        parser.add_argument(
            "--builders",
            action="store_true",
            help="prune: also the checkouts that builds are made in; they are made again.",
        )
        parser.add_argument(
            "--remove", action="store_true", help="verify: remove what is not as it was made."
        )
        parser.set_defaults(func=cls.run_from_args)
        return parser

    @classmethod
    def run_from_args(cls, args: argparse.Namespace) -> int:
        """As any command, but without a configuration the default store is meant."""
        if args.config or Path("asv.conf.json").exists():
            return super().run_from_args(args)
        return cls.run_from_conf_args(config.Config(), args)

    @classmethod
    def run_from_conf_args(cls, conf: Any, args: argparse.Namespace) -> int:
        """Do what the word says."""
        settings = Settings.from_conf(conf)
        store = Store(settings.store)
        if args.action == "list":
            return _list(store)
        if args.action == "verify":
            return _verify(store, remove=args.remove)
        return _prune(store, settings.most_bytes if args.to is None else args.to, args.builders)


def _list(store: Store) -> int:
    entries = sorted(store.entries(), key=lambda entry: -entry.used_seconds)
    held = store.held()
    for entry in entries:
        about = entry.about
        age = _age(time.time() - entry.used_seconds)
        what = str(about.get("what", "not to be trusted"))
        kind = str(about.get("kind", "?"))
        mark = "held" if entry.key in held else ""
        what = what[:10] if len(what) == 40 else what
        _say(f"{entry.key[:12]}  {kind:8} {what:20} {_size(entry.bytes):>9}  {age:>8}  {mark}")
    total = sum(entry.bytes for entry in entries)
    failures = len(list((store.root / "failures").glob("*.json")))
    _say(
        f"{len(entries)} trees, {_size(total)}, in {store.root}"
        + (f"; {failures} native fingerprints are known not to build" if failures else "")
    )
    return 0


def _verify(store: Store, *, remove: bool) -> int:
    damaged = []
    entries = list(store.entries())
    for entry in entries:
        for fault in store.faults(entry.key):
            damaged.append(entry.key)
            _say(f"{entry.key[:12]}  {entry.about.get('what', '')}: {fault}")
    count = len(set(damaged))
    _say(f"{len(entries)} trees, {count} not as they were made")
    if not count:
        return 0
    if remove:
        gone = store.remove(sorted(set(damaged)))
        _say(f"removed {len(gone)} trees")
        return 0 if set(damaged) <= set(gone) else EnvironmentFailure.exit_code
    _say("remove them with `bisectorch store verify --remove`: they are made again when needed")
    return EnvironmentFailure.exit_code


def _prune(store: Store, most_bytes: int, builders: bool) -> int:
    sizes = {entry.key: entry.bytes for entry in store.entries()}
    gone = store.prune(most_bytes)
    freed = sum(sizes.get(key, 0) for key in gone)
    _say(f"removed {len(gone)} trees, {_size(freed)}")
    left = sum(sizes.values()) - freed
    if left > most_bytes:
        _say(f"{_size(left)} stay, because running sessions stand on them")
    if builders:
        _say(f"removed {_remove_builders(store)} builders")
    return 0


def _remove_builders(store: Store) -> int:
    removed = 0
    # Not the compiler's cache, which keeps itself within a size of its own.
    for home in {path.parent for path in (store.root / "builders").glob("*/lock")}:
        with contextlib.suppress(BlockingIOError), store.builder_lock(home):
            shutil.rmtree(home, ignore_errors=True)
            removed += 1
    return removed


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _age(seconds: float) -> str:
    for most, unit, divisor in ((3600, "min", 60), (86400, "h", 3600)):
        if seconds < most:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def _say(line: str) -> None:
    print(line, file=sys.stdout)  # noqa: T201
