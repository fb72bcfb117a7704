"""--sandbox: the history's code has no network and can write nowhere but in its own directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bisectorch.asv_plugin import sandbox
from bisectorch.asv_plugin.sandbox import confined, confined_python, refuse_without
from bisectorch.errors import EnvironmentFailure
from minihistory import MiniRepo, make_wheel, write_project
from nativehistory import BUILD_COMMAND, CLASSES, NativeHistory, header, start

needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None
    or subprocess.run([*confined([]), "true"], capture_output=True, check=False).returncode != 0,
    reason="no bubblewrap that works here",
)
PROBE = """\
import os, socket
def attempt(action):
    try:
        action()
        return 1
    except OSError:
        return 0
def network():
    socket.create_connection(("127.0.0.1", int(os.environ["PROBE_PORT"])), timeout=5).close()
def escape():
    open(os.environ["PROBE_FILE"], "a").close()
def scratch():
    open("mine", "w").close()
"""
BENCHMARKS = (
    PROBE
    + """
import mini

def track_network():
    return attempt(network)
def track_escape():
    return attempt(escape)
def track_scratch():
    return attempt(scratch)
def track_value():
    return mini.value()
for each in (track_network, track_escape, track_scratch):
    each.unit = "successes"
"""
)


def test_without_bubblewrap_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line; nothing then runs unconfined."""
    monkeypatch.setattr(sandbox, "PROGRAM", "no-such-bwrap")
    with pytest.raises(EnvironmentFailure, match="install it"):
        refuse_without()


def test_a_sandbox_that_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container without user namespaces."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sandbox, "PROGRAM", str(fake))
    with pytest.raises(EnvironmentFailure, match="No permissions"):
        refuse_without()


@needs_bwrap
def test_a_confined_python_passes_words_on_as_they_are(tmp_path: Path) -> None:
    """Spaces, quotes and shell's own characters in paths and arguments."""
    folder = tmp_path / "a folder; touch 'x' $HOME"
    folder.mkdir()
    python = confined_python(sys.executable, folder)
    odd = "a b; $HOME `x` \"'"
    code = "import sys, os; open('here', 'w').write(sys.argv[1]); print(os.environ['TMPDIR'])"
    command = [str(python), "-c", code, odd]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(folder)
    assert (folder / "here").read_text() == odd
    done = subprocess.run(
        [str(python), "-c", f"open({str(tmp_path / 'out')!r}, 'w')"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode
    assert not (tmp_path / "out").exists()


@needs_bwrap
def test_measured_code_is_confined(tmp_path: Path) -> None:
    """It measures as ever, reaches no port of this host, and writes in its own folder only."""
    import socket

    repo = MiniRepo(tmp_path / "repo")
    for value in (100, 150):
        text = f"def value():\n    return {value}\n"
        repo.commit(f"Return {value}", {"mini/nn/linear.py": text})
    make_wheel(tmp_path / "wheels")
    config = write_project(tmp_path / "project", repo.path, tmp_path / "wheels", tmp_path / "store")
    (config.parent / "benchmarks" / "tracked.py").write_text(BENCHMARKS)
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "PROBE_PORT": str(server.getsockname()[1]),
            "PROBE_FILE": str(tmp_path / "escaped"),
        }
        command = [sys.executable, "-m", "bisectorch", "bisect", "main~1..main", "-b", "track_"]
        done = subprocess.run(
            [*command, "--sandbox", "--format", "json", "--config", str(config)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    found = {each["benchmark"]: each for each in report["workloads"]}
    assert found["tracked.track_value"]["verdict"] == "culprits"
    log = next((config.parent / "sessions").glob("*.jsonl")).read_text().splitlines()
    seen: dict[str, set[float]] = {}
    for line in log[1:]:
        for run in json.loads(line).get("observation", {}).get("runs", ()):
            workload = json.loads(line)["observation"]["workload"]
            seen.setdefault(workload, set()).add(run["value"])
    assert seen["tracked.track_network"] == {0.0}
    assert seen["tracked.track_escape"] == {0.0}
    assert seen["tracked.track_scratch"] == {1.0}
    assert not (tmp_path / "escaped").exists()


@needs_bwrap
def test_a_build_is_confined(tmp_path: Path) -> None:
    """setup.py cannot write beside its checkout; what it builds is as good as ever."""
    repo = MiniRepo(tmp_path / "repo")
    story = NativeHistory(repo)
    escape = f"open({str(tmp_path / 'escaped')!r}, 'w')"
    setup = f"try:\n    {escape}\nexcept OSError:\n    pass\n" + start()["setup.py"]
    files = {**start(), "setup.py": setup, "third_party/tally/tally.h": "#define TALLY 0\n"}
    story.add("start", 100, files)
    story.add("costly", 160, header(160))
    benchmarks = tmp_path / "project" / "benchmarks"
    benchmarks.mkdir(parents=True)
    (benchmarks / "__init__.py").write_text("")
    (benchmarks / "costs.py").write_text(
        "import quick\n\n\ndef track_cost():\n    return quick.cost()\n"
    )
    config = tmp_path / "project" / "asv.conf.json"
    config.write_text(
        json.dumps({
            "version": 1, "project": "quick", "repo": str(repo.path), "branches": ["main"],
            "environment_type": "bisectorch", "plugins": [".bisectorch.asv_plugin"],
            "pythons": [f"{sys.version_info[0]}.{sys.version_info[1]}"],
            "build_command": BUILD_COMMAND,
            "bisectorch": {"store": str(tmp_path / "store"), "classes": CLASSES},
        })
    )  # fmt: skip
    command = [sys.executable, "-m", "bisectorch", "bisect", story.range, "-b", "track_cost"]
    done = subprocess.run(
        [*command, "--sandbox", "--format", "json", "--config", str(config)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [culprit] = json.loads(done.stdout)["workloads"][0]["culprits"]
    assert culprit["commit"] == story.shas["costly"]
    assert not (tmp_path / "escaped").exists()
