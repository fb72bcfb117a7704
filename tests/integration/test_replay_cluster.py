"""The whole replay bisected with a real torch on a cluster of two workers, one killed meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bisectorch.replay import write_replay
from cluster import Cluster, variables

pytest.importorskip("distributed")
WORKLOAD = "linear.Linear.time_forward(1, 10)"


def observed(directory: Path) -> int:
    """How many lines the session's log holds so far."""
    return sum(log.read_bytes().count(b"\n") for log in directory.glob("sessions/**/*.jsonl"))


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("torch_installation")
def test_the_replay_on_a_cluster_that_loses_a_worker(cluster: Cluster, tmp_path: Path) -> None:
    """Every true culprit of the workload and no other, as without a cluster."""
    replay = tmp_path / "replay"
    write_replay(replay)
    expected = json.loads((replay / "expected.json").read_text())
    what = [expected["range"], "-b", r"linear\.Linear\.time_forward\(1, 10\)", "--no-explain"]
    how = ["--dask", cluster.address, "--format", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bisectorch", "bisect", *what, *how],
        cwd=replay,
        env=variables(tmp_path, BISECTORCH_STORE=str(tmp_path / "store")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 900
    while observed(replay) < 10 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    cluster.workers[0].send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    (workload,) = json.loads(out)["workloads"]
    found = {c["commit"] for c in workload["culprits"]}
    assert found == {c["commit"] for c in expected["workloads"][WORKLOAD]}
