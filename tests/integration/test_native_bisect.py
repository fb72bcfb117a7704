"""The whole ladder under bisect and asv run: a real C extension, two interpreters, real faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bisectorch.asv_plugin.interpreters import find_python
from nativehistory import (
    CULPRITS,
    UNBUILDABLE,
    NativeHistory,
    make_history,
    write_native_project,
)

RUNNING = f"{sys.version_info[0]}.{sys.version_info[1]}"
OLD = pytest.param(
    "3.6", marks=pytest.mark.skipif(find_python("3.6") is None, reason="no Python 3.6 here")
)


@dataclass
class Projects:
    """The history, one store and one folder of environments for all interpreters."""

    root: Path
    story: NativeHistory

    def project(self, name: str, python: str, **overrides: object) -> Path:
        """A project with results and sessions of its own."""
        folder = self.root / name
        overrides = {"env_dir": str(self.root / "env"), **overrides}
        config = write_native_project(folder, self.story, self.root / "store", python, **overrides)
        machine = {"machine": "m", "os": "", "arch": "", "cpu": ""}
        (folder / ".asv-machine.json").write_text(json.dumps({"version": 1, "m": machine}))
        return config

    def run(self, module: str, config: Path, *arguments: str) -> tuple[int, str, str]:
        """Run bisectorch or asv; never a traceback."""
        home = Path.home()
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments, "--config", str(config)],
            cwd=config.parent,
            env={
                **os.environ,
                "PYENV_ROOT": os.environ.get("PYENV_ROOT") or str(home / ".pyenv"),
                "HOME": str(config.parent),
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "protocol.file.allow",
                "GIT_CONFIG_VALUE_0": "always",
                "BISECTORCH_STORE": "",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """Made once."""
    root = tmp_path_factory.mktemp("projects")
    return Projects(root, make_history(root / "history"))


@pytest.mark.parametrize("python", [RUNNING, OLD])
def test_bisect_names_every_culprit(projects: Projects, python: str) -> None:
    """A native one, Python-only ones, one in a merged branch, one next to broken commits."""
    config = projects.project(f"bisect-{python}", python)
    spec = projects.story.range
    code, out, err = projects.run(
        "bisectorch", config, "bisect", spec, "-b", "track_cost", "--format", "json"
    )
    assert code == 0, err
    names = {sha: label for label, sha in projects.story.shas.items()}
    found = json.loads(out)["workloads"][0]["culprits"]
    assert {names[c["commit"]]: 1 if c["ratio"] > 1 else -1 for c in found} == CULPRITS
    about = {names[culprit["commit"]]: culprit for culprit in found}
    assert names[about["side costly"]["merge"]] == "merge"
    beside_broken = {names[sha] for sha in about["mended"]["credible_set"]}
    assert beside_broken == {"mended", *UNBUILDABLE}
    assert all(len(about[n]["credible_set"]) == 1 for n in CULPRITS if n != "mended")
    assert "csrc/unit0.c:1:" in err, "the compiler's own line is shown"
    code, out, _ = projects.run("bisectorch", config, "report")
    assert code == 0
    told = [line for line in out.splitlines() if "unbuildable: " in line]
    for label in UNBUILDABLE:
        sha = projects.story.shas[label][:10]
        assert any(sha in line and "csrc/unit0.c:1:" in line for line in told), "and is reported"
    code, out, err = projects.run(
        "bisectorch", config, "resume", "--retry-failed", "--format", "json"
    )
    assert code == 0
    assert err.count("cannot be built") == len(UNBUILDABLE), "they are tried again"
    again = json.loads(out)["workloads"][0]["culprits"]
    assert {culprit["commit"] for culprit in again} == {culprit["commit"] for culprit in found}


def test_asv_run_walks_the_same_ladder(projects: Projects) -> None:
    """Every commit as itself; each native fingerprint compiled once, however asv orders them."""
    config = projects.project("run", RUNNING, bisectorch={
        "store": str(projects.root / "own-store"),
        "classes": {"python_only": ["quick/**/*.py", "quick/data/*.txt"],
                    "irrelevant": ["docs/**", "*.md"]},
    })  # fmt: skip
    code, out, _ = projects.run("asv", config, "run", projects.story.range, "-m", "m")
    assert code == 2, "asv's own code for failures"
    names = {sha: label for label, sha in projects.story.shas.items()}
    seen = {}
    for path in (config.parent / "results" / "m").glob("*-*.json"):
        stored = json.loads(path.read_text())
        value = stored["results"]["costs.track_cost"][0]
        seen[names[stored["commit_hash"]]] = value[0] if value else None
    first, *_ = projects.story.shas
    side = [label for label in projects.story.shas if label.startswith("side ")]
    expected = {k: v for k, v in projects.story.costs.items() if k not in (first, *side)}
    assert seen == expected
    manifests = list((projects.root / "own-store" / "trees").glob("*/*/manifest.json"))
    shas = {json.loads(path.read_text())["sha"] for path in manifests}
    assert len(manifests) == len(shas)
    assert out.count("from source") + out.count("from nothing") == len(manifests) + 3


def test_the_store_can_be_looked_after(projects: Projects) -> None:
    """list, verify and prune say what there is, what is damaged, and what went."""
    config = projects.project("bisect-" + RUNNING, RUNNING)
    code, out, _ = projects.run("bisectorch", config, "store", "list")
    assert code == 0
    assert "native fingerprints are known not to build" in out
    code, out, _ = projects.run("bisectorch", config, "store", "verify")
    assert (code, out.splitlines()[-1].split(", ")[1]) == (0, "0 not as they were made"), out
    tree = next((projects.root / "store" / "trees").glob("*/*/manifest.json")).parent / "tree"
    (tree / "quick" / "ops.py").write_text("damaged")
    code, out, _ = projects.run("bisectorch", config, "store", "verify")
    assert code == 4
    assert "its files changed" in out
    assert projects.run("bisectorch", config, "store", "verify", "--remove")[0] == 0
    code, out, _ = projects.run("bisectorch", config, "store", "prune", "--to", "1K", "--builders")
    assert code == 0
    assert "builders" in out
    code, out, _ = projects.run("bisectorch", config, "store", "list")
    assert out.startswith("0 trees")
