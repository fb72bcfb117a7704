"""What a worker of a cluster does: ``python -m bisectorch.asv_plugin.jobs``, a job on its input.

One JSON line in, one JSON object out. The input then stays open: its end means that nobody waits
for the result any more, and the process ends with all that it started.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from asv import config, util
from asv.plugin_manager import plugin_manager

import bisectorch
from bisectorch.asv_plugin.executors import PROGRAM
from bisectorch.asv_plugin.signals import stoppable
from bisectorch.asv_plugin.workshop import open_workshop
from bisectorch.build import parcel
from bisectorch.build.store import Store
from bisectorch.errors import BisectorchError, Unbuildable, UsageError
from bisectorch.report.progress import ConsoleReporter


def build(job: Mapping[str, Any]) -> dict[str, Any]:
    """Make one build in this worker's store; returns its key, route and cost."""
    with ConsoleReporter(sys.stderr) as reporter:
        conf = _conf(job)
        conf.bisectorch_builders = job["builders"]
        workshop = open_workshop(conf, [job["environment"]], reporter)
        commit = workshop.history.commit(job["commit"])
        if workshop.ladder.native_key(commit) != job["key"]:
            raise UsageError(
                "builds made here differ from the tracker's: give this worker the same Python, "
                "compilers and build variables (CC, CFLAGS, USE_...)"
            )
        made = workshop.ladder.provide(commit)
        store = Store(workshop.settings.store)
        about = store.about(made.key) or {}
        return {
            "keys": [str(about.get("base") or made.key)],
            "route": made.route.value,
            "seconds": made.seconds,
            "pack": {"program": PROGRAM, "version": job["version"], "do": "pack",
                     "store": str(store.root)},
        }  # fmt: skip


def pack(job: Mapping[str, Any]) -> dict[str, Any]:
    """Pack one build into a file beside nothing else; returns its path and size."""
    with tempfile.NamedTemporaryFile(suffix=".parcel", delete=False) as file:
        try:
            parcel.pack(Store(job["store"]), job["key"], file)
        except BaseException:
            Path(file.name).unlink()
            raise
        return {"path": file.name, "bytes": file.tell()}


def _conf(job: Mapping[str, Any]) -> Any:
    """The configuration, in the tracker's folder where this host has it, else in one of ours."""
    folder = Path(job["folder"])
    if not (folder / "asv.conf.json").exists():
        name = hashlib.sha256(json.dumps(job["conf"], sort_keys=True).encode()).hexdigest()[:16]
        folder = Path(os.environ.get("BISECTORCH_WORKER_DIR", "bisectorch-worker"), name)
        folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    conf = config.Config()
    vars(conf).update(job["conf"])
    for plugin in conf.plugins:
        plugin_manager.import_plugin(plugin)
    return conf


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """Do what the job says; faults as plain data."""
    try:
        if job.get("version") != bisectorch.__version__:
            raise UsageError(
                f"Bisectorch {bisectorch.__version__} is installed here, the tracker is "
                f"{job.get('version')}: install the same"
            )
        return {"build": build, "pack": pack}[job["do"]](job)
    except Unbuildable as error:
        return {"unbuildable": error.reason}
    except (BisectorchError, util.UserError, OSError) as error:
        return {"refused": str(error)}


def main() -> int:
    """Read the job, do it, write the answer."""
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_our_input, daemon=True).start()
    with stoppable():
        try:
            with contextlib.redirect_stdout(sys.stderr):
                done = answer(job)
        except KeyboardInterrupt:
            return 130
    print(json.dumps(done))  # noqa: T201
    return 0


def _end_with_our_input() -> NoReturn:
    while os.read(0, 1 << 16):  # not through a lock that the interpreter wants when it ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()
    raise SystemExit


if __name__ == "__main__":
    sys.exit(main())
