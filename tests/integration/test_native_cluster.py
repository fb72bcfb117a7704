"""The whole native history bisected on a cluster of two workers, one killed in mid-build."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import Cluster, variables
from nativehistory import CULPRITS, UNBUILDABLE, NativeHistory, make_history, write_native_project

pytest.importorskip("distributed")


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
