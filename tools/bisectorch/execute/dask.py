"""Builds on the workers of a Dask cluster: one that runs already, or one of our own on this host.

A job is plain data (what to build, by which route, for which project); the worker hands it to a
program of its own installation, which runs in a process of its own. That process ends when the
job is cancelled, when the worker dies, and when the tracker goes away.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from bisectorch.errors import BisectorchError, EnvironmentFailure, Unbuildable, UsageError
from bisectorch.model import Build, Commit, Route
from bisectorch.seams import Provider

CHUNK_BYTES = 16 << 20
"""A build travels through Dask in pieces of this size."""

MOST_LOSSES = 2
"""A job whose worker is lost goes elsewhere; so often, and it is given up."""

CONNECT_SECONDS = 30
NO_WORKER_SECONDS = 600.0
POLL_SECONDS = 0.2
GRACE_SECONDS = 15.0

Job = Mapping[str, Any]
"""Plain JSON data; ``program`` names the module that performs it (``python -m``)."""


class Depot(Protocol):
    """Where builds are kept here, by their content key."""

    def has(self, key: str) -> bool:
        """Whether the build is here."""

    def take(self, key: str, parcel: Path) -> None:
        """Put a packed build in its place; EnvironmentFailure when it is not whole."""


@dataclass(frozen=True)
class _Task:
    """A job under way, and every commit that its build serves."""

    commits: tuple[Commit, ...]
    future: Any


class DaskExecutor:
    """Builds from source fan out over the workers; what is cheap is made here.

    Args:
        client: of ``distributed``.
        provider: makes and quotes builds here.
        describe: the job that builds a commit.
        depot: where builds are kept here.
    """

    def __init__(
        self, client: Any, provider: Provider, describe: Callable[[Commit], Job], depot: Depot
    ) -> None:
        self._client = client
        self._provider = provider
        self._describe = describe
        self._depot = depot

    @property
    def width(self) -> int:
        """How many workers there are, at least 1."""
        return max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))

    def build(self, commits: Sequence[Commit]) -> Iterator[tuple[Commit, Build | Exception]]:
        """Make these builds, each native state once; closing the generator cancels them."""
        afar: dict[str, list[Commit]] = defaultdict(list)
        here = []
        for commit in commits:
            quote = self._provider.quote(commit)
            if quote.route is Route.SOURCE and quote.seconds > 0:
                afar[commit.fingerprint or commit.sha].append(commit)
            else:
                here.append(commit)
        tasks = [_Task(tuple(alike), self._submit(alike[0])) for alike in afar.values()]
        try:
            for commit in here:
                yield commit, self._attempt(commit)
            while tasks:
                for task in self._ended(tasks):
                    tasks.remove(task)
                    yield from self._received(task)
        finally:
            self._client.cancel([task.future for task in tasks], force=True)

    def _submit(self, commit: Commit) -> Any:
        job = {"id": f"{commit.sha}-{secrets.token_hex(4)}", **self._describe(commit)}
        return self._client.submit(perform, job, pure=False, key=f"bisectorch-{job['id']}")

    def _attempt(self, commit: Commit) -> Build | Exception:
        try:
            return self._provider.provide(commit)
        except BisectorchError as error:
            return error

    def _ended(self, tasks: Sequence[_Task]) -> list[_Task]:
        """Those that are done; waits for one."""
        lonely_since = time.monotonic()
        while True:
            ended = [task for task in tasks if task.future.done()]
            if ended:
                return ended
            if self._client.status != "running":
                raise EnvironmentFailure(
                    "the Dask scheduler is gone: start it again, then `bisectorch resume`"
                )
            if self._client.scheduler_info(n_workers=-1)["workers"]:
                lonely_since = time.monotonic()
            elif time.monotonic() - lonely_since > NO_WORKER_SECONDS:
                raise EnvironmentFailure(
                    f"the Dask cluster has had no worker for {NO_WORKER_SECONDS / 60:.0f} min: "
                    "start workers, then `bisectorch resume`"
                )
            time.sleep(POLL_SECONDS)

    def _received(self, task: _Task) -> Iterator[tuple[Commit, Build | Exception]]:
        first, *others = task.commits
        try:
            answer = self._answer(task.future)
            for key in answer["keys"]:
                if not self._depot.has(key):
                    self._fetch(key, answer)
        except Unbuildable as error:
            # What one of them lacks, all lack: they share their native files.
            for commit in task.commits:
                yield commit, error
            return
        built = self._attempt(first)
        if isinstance(built, Build):
            route = Route(answer["route"])
            built = replace(built, route=route, seconds=float(answer["seconds"]))
        yield first, built
        for commit in others:
            yield commit, self._attempt(commit)

    def _answer(self, future: Any) -> Mapping[str, Any]:
        from distributed import KilledWorker

        try:
            answer: Mapping[str, Any] = future.result()
        except KilledWorker:
            answer = {"lost": MOST_LOSSES}
        except BisectorchError:
            raise
        except Exception as error:
            raise EnvironmentFailure(
                f"a Dask worker could not do its job ({type(error).__name__}: {error}): "
                "is the same Bisectorch installed there?"
            ) from error
        if "lost" in answer:
            raise Unbuildable(
                f"the worker that built it was lost {answer['lost']} times: out of memory?"
            )
        if answer.get("unbuildable"):
            raise Unbuildable(answer["unbuildable"])
        if answer.get("refused"):
            raise EnvironmentFailure(f"on worker {answer['host']}: {answer['refused']}")
        return answer

    def _fetch(self, key: str, answer: Mapping[str, Any]) -> None:
        """Bring a build from the worker that made it, in pieces."""
        there = {"workers": [answer["worker"]], "pure": False}
        job = {"id": secrets.token_hex(8), **answer["pack"], "key": key}
        packed = self._answer(self._client.submit(perform, job, **there))
        with tempfile.NamedTemporaryFile(suffix=".parcel") as parcel:
            try:
                for offset in range(0, packed["bytes"], CHUNK_BYTES):
                    parcel.write(
                        self._client.submit(read, packed["path"], offset, **there).result()
                    )
                parcel.flush()
            except OSError as error:
                raise EnvironmentFailure(
                    f"a build from {answer['host']} cannot be kept: {error}"
                ) from error
            finally:
                self._client.submit(discard, packed["path"], **there).result()
            self._depot.take(key, Path(parcel.name))


@contextlib.contextmanager
def connect(where: str) -> Iterator[Any]:
    """A client of the cluster ``tcp://HOST:PORT``, or of ``local:N`` workers started for it.

    UsageError for what is neither, EnvironmentFailure where ``distributed`` is missing or the
    scheduler does not answer.
    """
    kind, _, rest = where.partition(":")
    is_local = kind == "local" and rest.isdigit() and int(rest) > 0
    if not is_local and not where.startswith(("tcp://", "tls://")):
        raise UsageError(
            f"--dask {where!r}: write tcp://HOST:PORT, or local:2 for two workers here"
        )
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise EnvironmentFailure(
            "--dask needs dask.distributed: pip install 'bisectorch[dask]'"
        ) from error
    # What Dask says of itself would stand between our own lines.
    logging.getLogger("distributed").propagate = False
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    quiet = {
        # Builds take most of a machine's memory, and that is none of Dask's business.
        "distributed.worker.memory.terminate": False,
        "distributed.worker.memory.pause": False,
        # One that dies twice within this time would not be started again.
        "distributed.deploy.lost-worker-timeout": "52 weeks",
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(quiet))
        try:
            address = where
            if is_local:
                make: Any = LocalCluster
                cluster = make(
                    n_workers=int(rest),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address=None,
                    silence_logs=50,
                )
                address = stack.enter_context(cluster).scheduler_address
            join: Any = Client
            client = join(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise EnvironmentFailure(
                f"no Dask scheduler answers at {where}: start one with `dask scheduler`, "
                f"and workers with `dask worker {where} --nthreads 1`"
            ) from error
        yield stack.enter_context(client)


def perform(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job in a process of its own; runs on a worker, and returns plain data."""
    from distributed import get_worker

    worker: Any = get_worker()
    losses = _count_start(job["id"])
    if losses >= MOST_LOSSES:
        return {"lost": losses}
    key = worker.get_current_task()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", str(job["program"])],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=complaints,
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            # It stays open: its end tells the program that we are gone.
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            while process.poll() is None:
                if not _is_wanted(worker, key):
                    raise RuntimeError("cancelled")
                time.sleep(POLL_SECONDS)
        except BrokenPipeError:
            pass
        finally:
            _end(process)
        said.seek(0)
        try:
            answer: dict[str, Any] = json.loads(said.read())
        except ValueError:
            complaints.seek(0)
            lines = complaints.read().decode("utf-8", "replace").strip().splitlines()
            last = lines[-1] if lines else f"it ended with status {process.returncode}"
            answer = {"refused": f"{job['program']}: {last}"}
        return {"host": os.uname().nodename, **answer, "worker": worker.address}


def read(path: str, offset: int) -> bytes:
    """One piece of a packed build; runs on the worker that packed it."""
    with _parcel(path).open("rb") as file:
        file.seek(offset)
        return file.read(CHUNK_BYTES)


def discard(path: str) -> None:
    """Remove a packed build; runs on the worker that packed it."""
    _parcel(path).unlink(missing_ok=True)


def _parcel(path: str) -> Path:
    if not path.endswith(".parcel"):
        raise ValueError(f"{path} is no packed build")
    return Path(path)


def _count_start(job: str) -> int:
    """How often this job was begun before; each time its worker was lost."""
    from distributed import get_client

    client: Any = get_client()
    topic = f"bisectorch-{job}"
    before = len(client.get_events(topic) or ())
    client.log_event(topic, "begun")
    return before


def _is_wanted(worker: Any, key: str) -> bool:
    """Whether the scheduler still wants this task: it was neither cancelled nor forgotten."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state not in ("cancelled", "released", "forgotten")


def _end(process: subprocess.Popen[bytes]) -> None:
    """First as a scheduler asks, so that it ends what it started; then for good."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
