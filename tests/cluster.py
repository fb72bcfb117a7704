"""A Dask cluster of two workers on loopback, each a process with a store of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Cluster:
    """A scheduler and its workers, each a process with a store of its own."""

    address: str
    workers: list[subprocess.Popen[bytes]]
    stores: list[Path]


def variables(home: Path, **more: str) -> dict[str, str]:
    """As for a person who has never run this before."""
    return {
        **os.environ,
        "PYENV_ROOT": os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv"),
        "HOME": str(home),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.file.allow",
        "GIT_CONFIG_VALUE_0": "always",
        **more,
    }


@contextmanager
def started(*arguments: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own group, killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """On loopback."""
    with ExitStack() as stack:
        contact = tmp_path / "scheduler.json"
        environment = variables(tmp_path)
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        scheduler = ("distributed.cli.dask_scheduler", *options, "--scheduler-file", str(contact))
        stack.enter_context(started(*scheduler, environment=environment))
        until = time.monotonic() + 120
        while not contact.exists() and time.monotonic() < until:
            time.sleep(0.1)
        address = json.loads(contact.read_text())["address"]
        workers, stores = [], []
        for number in (1, 2):
            stores.append(tmp_path / f"store-{number}")
            environment = variables(tmp_path, BISECTORCH_STORE=str(stores[-1]))
            options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
            place = ("--local-directory", str(tmp_path / f"dask-{number}"))
            worker = ("distributed.cli.dask_worker", address, *options, *place)
            workers.append(stack.enter_context(started(*worker, environment=environment)))
        yield Cluster(address, workers, stores)
