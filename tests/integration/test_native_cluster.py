"""The whole native history bisected on a cluster of two workers, one killed in mid-build."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from nativehistory import CULPRITS, UNBUILDABLE, NativeHistory, make_history, write_native_project

pytest.importorskip("distributed")


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


@pytest.fixture
def story(tmp_path: Path) -> NativeHistory:
    """The native history."""
    return make_history(tmp_path / "history")


def building(store: Path) -> bool:
    """Whether a build is running in this store."""
    return any(store.glob("builders/*/running.json"))


def mentioned(path: Path) -> list[str]:
    """The living processes whose command line names this path."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = command.read_bytes()
        except OSError:
            continue
        if os.fsencode(path) in words:
            found.append(words.replace(b"\0", b" ").decode())
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_finds_the_same_and_a_killed_worker_changes_nothing(
    cluster: Cluster, story: NativeHistory, tmp_path: Path
) -> None:
    """Builds come from the workers' own stores; one worker dies with a compiler under it."""
    store = tmp_path / "store"
    config = write_native_project(tmp_path / "project", story, store, env_dir=str(tmp_path / "env"))
    machine = {"machine": "m", "os": "", "arch": "", "cpu": ""}
    (tmp_path / "project" / ".asv-machine.json").write_text(
        json.dumps({"version": 1, "m": machine})
    )
    command = [sys.executable, "-m", "bisectorch", "bisect", story.range, "-b", "track_cost"]
    process = subprocess.Popen(
        [*command, "--format", "json", "--dask", cluster.address, "--config", str(config)],
        cwd=config.parent,
        env=variables(config.parent, BISECTORCH_STORE=str(store)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 600
    while not any(map(building, cluster.stores)) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    victim = next(n for n in (0, 1) if building(cluster.stores[n]))
    cluster.workers[victim].send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    names = {sha: label for label, sha in story.shas.items()}
    found = json.loads(out)["workloads"][0]["culprits"]
    assert {names[c["commit"]]: 1 if c["ratio"] > 1 else -1 for c in found} == CULPRITS
    beside_broken = next(c for c in found if names[c["commit"]] == "mended")
    assert {names[sha] for sha in beside_broken["credible_set"]} == {"mended", *UNBUILDABLE}
    here = {path.parent.name for path in store.glob("trees/*/*/manifest.json")}
    there = {
        path.parent.name for each in cluster.stores for path in each.glob("trees/*/*/manifest.json")
    }
    assert len(here) > 3, "the tracker has what it measured"
    assert len(here - there) == 1, "and compiled no more than what benchmarks are listed in"
    assert not mentioned(cluster.stores[victim]), "the killed worker's compiler died with it"
