"""A replay's directory: repository, benchmarks, asv.conf.json and the truth."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import bisectorch
from bisectorch.errors import EnvironmentFailure, UsageError
from bisectorch.replay import repository, story

PROJECT = "torch-replay"
IRRELEVANT = ["docs/**", "test/**", "*.md", ".gitignore"]


def write_replay(
    directory: Path,
    *,
    requirement: str = "torch==2.13.0",
    index_url: str | None = None,
    python: str | None = None,
) -> None:
    """Write the replay into ``directory``: made, or brought up to date where it is a replay.

    Afterwards it holds ``repo/`` (branch main; the same object names on every machine),
    ``benchmarks/``, ``asv.conf.json`` and ``expected.json``. Everything else in it stays,
    such as results/, sessions/ and html/.

    Args:
        directory: new, empty, or a replay written earlier.
        requirement: the wheel that every commit is laid over.
        index_url: the package index to take it from; pip's own choice by default.
        python: the interpreter version of the environment, for example ``3.11``; the running
            one's by default.

    Raises:
        UsageError: ``directory`` holds something else, or is no directory.
        EnvironmentFailure: git is missing, or the disk refuses.
    """
    _refuse_foreign(directory)
    version = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # First, because it is what marks the directory as a replay from now on.
        _write_json(directory / "asv.conf.json", _configuration(requirement, index_url, version))
        shutil.copytree(
            benchmarks_folder(),
            directory / "benchmarks",
            dirs_exist_ok=True,
            copy_function=shutil.copyfile,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        _write_json(directory / "expected.json", expected(_write_repository(directory)))
    except OSError as fault:
        raise EnvironmentFailure(f"cannot write the replay in {directory}: {fault}") from fault


def expected(shas: Mapping[str, str]) -> dict[str, Any]:
    """The truth, for tests and demos only: ``shas`` maps the story's labels to object names.

    ``range`` is the whole line; ``workloads`` maps a workload's name, as ``asv run -b`` matches
    it, to its steps, oldest first; ``doubtful`` holds, in the same form and each with its
    ``reason``, steps that a search may find or not; ``null_range`` holds no step.
    """
    merges = {part.label: shas[step.label] for step in story.LINE for part in step.side}
    first, last = story.NULL_RANGE

    def step(label: str) -> dict[str, Any]:
        kind = story.TRUTHS[label].kind
        return {"commit": shas[label], "kind": kind, "merge": merges.get(label)}

    return {
        "range": f"{shas[story.LINE[0].label]}..{shas[story.LINE[-1].label]}",
        "workloads": {
            name: [
                step(label)
                for label, truth in story.TRUTHS.items()
                if benchmark in truth.benchmarks
            ]
            for benchmark, parameters in story.WORKLOADS.items()
            for name in names(benchmark, parameters)
        },
        "doubtful": {
            name: [
                {**step(label), "reason": reasons[benchmark]}
                for label, reasons in story.DOUBTFUL.items()
                if benchmark in reasons
            ]
            for benchmark, parameters in story.WORKLOADS.items()
            for name in names(benchmark, parameters)
            if any(benchmark in reasons for reasons in story.DOUBTFUL.values())
        },
        "null_range": f"{shas[first]}..{shas[last]}",
    }


def names(benchmark: str, parameters: tuple[tuple[object, ...], ...]) -> Iterator[str]:
    """asv's names of a benchmark's workloads, one for each choice of parameters."""
    if not parameters:
        yield benchmark
        return
    for choice in product(*parameters):
        yield f"{benchmark}({', '.join(map(repr, choice))})"


def _configuration(requirement: str, index_url: str | None, python: str) -> dict[str, Any]:
    """asv.conf.json: the replay's history over one wheel."""
    wheel: dict[str, Any] = {"requirement": requirement, "with": ["numpy"]}
    if index_url:
        wheel["index_url"] = index_url
    return {
        "version": 1,
        "project": PROJECT,
        "repo": "repo",
        "branches": ["main"],
        "dvcs": "git",
        "environment_type": "bisectorch",
        "plugins": [".bisectorch.asv_plugin"],
        "pythons": [python],
        "matrix": {"env_nobuild": {"OMP_NUM_THREADS": ["1"]}},
        "benchmark_dir": "benchmarks",
        "env_dir": "env",
        "results_dir": "results",
        "html_dir": "html",
        "show_commit_url": "#",
        "bisectorch": {
            "base_wheel": wheel,
            "classes": {"python_only": ["torch/**/*.py"], "irrelevant": IRRELEVANT},
            "sessions_dir": "sessions",
        },
    }


def benchmarks_folder() -> Path:
    """The project's benchmarks: inside the installed package, or beside it in a checkout."""
    package = Path(bisectorch.__file__).parent
    for found in (package / "benchmarks", package.parents[1] / "benchmarks"):
        if (found / "workloads").is_dir():
            return found
    raise EnvironmentFailure("the benchmarks are missing from this installation: install it again")


def _write_repository(directory: Path) -> dict[str, str]:
    """Make ``repo/`` hold the story, untouched where it already does; label -> object name."""
    with tempfile.TemporaryDirectory(prefix=".replay-", dir=directory) as scratch:
        fresh = Path(scratch) / "repo"
        shas = repository.write_repository(fresh, story.LINE)
        target = directory / "repo"
        if repository.tip(target) != shas[story.LINE[-1].label]:
            if target.exists():
                target.replace(Path(scratch) / "old")
            fresh.replace(target)
    return shas


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write all of it or nothing."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")
    scratch.replace(path)


def _refuse_foreign(directory: Path) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        raise UsageError(f"{directory} is a file: name a directory for the replay")
    if any(directory.iterdir()) and not _is_replay(directory):
        raise UsageError(f"{directory} is not empty and holds no replay: name another directory")


def _is_replay(directory: Path) -> bool:
    try:
        configuration = json.loads((directory / "asv.conf.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(configuration, dict) and configuration.get("project") == PROJECT
