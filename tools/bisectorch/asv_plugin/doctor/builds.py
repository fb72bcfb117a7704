"""Checks of how builds are obtained and kept: the store and the routes."""

from __future__ import annotations

import os
import shutil
from typing import Any

from bisectorch.asv_plugin.doctor.finding import Check, gib, missing, note, ok, output
from bisectorch.asv_plugin.settings import Settings
from bisectorch.build import Store, WheelSources

ENOUGH_BYTES = 10 << 30
BYTES_A_JOB = 2 << 30
"""What one compilation of PyTorch's largest files takes."""


def store_and_disk(settings: Settings) -> Check:
    """Whether trees can be kept, and room is left for them."""
    store = Store(settings.store)
    root = store.root
    while not root.exists():
        root = root.parent
    if not os.access(root, os.W_OK):
        yield missing(
            f"the store {store.root} cannot be written: set BISECTORCH_STORE to another directory"
        )
        return
    free = shutil.disk_usage(root).free
    entries = list(store.entries())
    held = sum(entry.bytes for entry in entries)
    text = f"store {store.root}: {len(entries)} trees, {gib(held)}; {gib(free)} free on its disk"
    if free < ENOUGH_BYTES:
        yield note(f"{text}, which a few native builds of PyTorch would fill")
    else:
        yield ok(f"{text}; it stays within {gib(settings.most_bytes)}")


def routes(conf: Any, settings: Settings, *, offline: bool) -> Check:
    """How a commit becomes a build, and what that takes."""
    if settings.base_wheel is not None:
        yield ok(
            f"route WHEEL: {settings.base_wheel.requirement} under commits without native files"
        )
    if settings.wheels is not None:
        yield from _wheels(settings.wheels)
    if settings.source is None:
        yield note("route SOURCE: off; a commit with native files cannot be built")
        return
    yield ok("route SOURCE: " + ("asv's build_command" if conf.build_command else "pip wheel"))
    for name, what in (("CC", "cc"), ("CXX", "c++")):
        program = os.environ.get(name) or what
        said = output([*program.split(), "--version"]).partition("\n")[0]
        yield (
            ok(f"compiler {program}: {said}")
            if said
            else missing(f"no compiler {program}: install gcc and g++ (Debian: build-essential)")
        )
    if shutil.which("ccache"):
        yield ok("ccache is used")
    else:
        yield note("ccache is not installed: native builds near to each other would share work")
    jobs = settings.source.jobs or len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < jobs * BYTES_A_JOB:
        yield note(
            f"{jobs} compilations at once may take {gib(jobs * BYTES_A_JOB)}, there are "
            f'{gib(memory)}: set "source": {{"jobs": {max(1, memory // BYTES_A_JOB)}}}'
        )


def _wheels(sources: WheelSources) -> Check:
    gone = [str(folder) for folder in sources.folders if not folder.is_dir()]
    if gone:
        yield missing(f"folders of wheels that do not exist: {', '.join(gone)}")
    places = [str(folder) for folder in sources.folders]
    places += [sources.table] if sources.table else []
    places += [f"releases of {sources.project} by their tags"] if sources.releases else []
    yield ok(f"route WHEEL: {', '.join(places) or 'no place to look in'}")
