"""Checks of what is tracked: asv's configuration, git, the repository, benchmarks."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from bisectorch.asv_plugin.doctor.finding import Check, missing, note, ok, output, run
from bisectorch.asv_plugin.interpreters import VERSION, find_python
from bisectorch.asv_plugin.settings import Settings
from bisectorch.history import GitHistory


def environment_type(conf: Any) -> Check:
    """Whether asv makes its environments by us."""
    if conf.environment_type == "bisectorch" and ".bisectorch.asv_plugin" in conf.plugins:
        yield ok("asv.conf.json uses our environments")
    else:
        yield missing(
            'asv.conf.json needs "environment_type": "bisectorch" and '
            '"plugins": [".bisectorch.asv_plugin"]'
        )


def git() -> Check:
    """Whether git is there."""
    said = output(["git", "--version"])
    yield ok(said) if said else missing("git was not found: install it, or put it on the PATH")


def is_url(repo: str) -> bool:
    """Whether asv mirrors this repository, rather than reading it where it is."""
    return "://" in repo or (":" in repo and not Path(repo).exists())


def repository(conf: Any, *, offline: bool) -> Check:
    """Whether the history can be read, whole."""
    branch = conf.branches[0] or "HEAD"
    if not is_url(conf.repo):
        history = GitHistory(Path(conf.repo), Settings.from_conf(conf).classes, branch)
        tip = history.commit(branch)
        yield ok(f"repository {conf.repo}: {branch} is at {tip.sha[:10]} {tip.subject}")
        if history.is_shallow:
            yield missing(f"{conf.repo} is a shallow clone: git fetch --unshallow")
        return
    if Path(conf.project).is_dir():
        yield ok(f"repository {conf.repo} is mirrored in {conf.project}")
    else:
        yield note(
            f"repository {conf.repo} is not here yet: the first command mirrors it into "
            f"{conf.project} (for PyTorch a gigabyte or more), or point `repo` at a checkout"
        )
    if offline:
        return
    done = run(["git", "ls-remote", "--exit-code", conf.repo, branch], timeout=60)
    yield (
        ok(f"it answers, and has {branch}")
        if done == 0
        else missing(f"{conf.repo} does not answer, or has no branch {branch}")
    )


def interpreters(conf: Any) -> Check:
    """Whether the wanted Pythons are there, and can make environments."""
    for version in conf.pythons:
        if not VERSION.fullmatch(version):
            yield missing(f"pythons holds {version!r}, which is no version; write 3.11")
            continue
        python = find_python(version)
        if python is None:
            yield missing(
                f"no Python {version} on the PATH, in pyenv or in uv: "
                f"try `uv python install {version}` or `pyenv install {version}`"
            )
            continue
        yield ok(f"Python {version}: {python}")
        if run([str(python), "-I", "-c", "import venv, ensurepip"]):
            yield missing(f"{python} cannot make environments: install its venv and ensurepip")
        ask = "import sysconfig; print(sysconfig.get_paths()['include'])"
        headers = Path(output([str(python), "-I", "-c", ask])) / "Python.h"
        if not headers.is_file():
            yield note(f"{python} has no headers (Python.h): extensions cannot be built for it")


def versions(conf: Any) -> Check:
    """Whether the wanted Pythons are named as we find them."""
    odd = [version for version in conf.pythons if not VERSION.fullmatch(version)]
    yield (
        missing(f"pythons holds {odd[0]!r}, which is no version; write 3.11")
        if odd
        else ok(f"Python {', '.join(conf.pythons)}")
    )


def syntax(conf: Any) -> Check:
    """Whether there are benchmarks, and this Python reads them."""
    files = sorted(Path(conf.benchmark_dir).rglob("*.py"))
    if not files:
        yield missing(f"no benchmark in {conf.benchmark_dir}: change benchmark_dir")
    for file in files:
        try:
            ast.parse(file.read_bytes(), str(file))
        except (SyntaxError, ValueError) as error:
            yield missing(f"{file} cannot be read: {error}")
    yield ok(f"{len(files)} files of benchmarks in {conf.benchmark_dir}")


def benchmarks(conf: Any) -> Check:
    """Whether there are any, in the syntax of every wanted Python."""
    directory = Path(conf.benchmark_dir)
    files = sorted(directory.rglob("*.py"))
    if not files:
        yield missing(f"no benchmark in {directory}: change benchmark_dir in asv.conf.json")
        return
    for version in conf.pythons:
        python = find_python(version) if VERSION.fullmatch(version) else None
        code = "import sys\nfor p in sys.argv[1:]: compile(open(p, 'rb').read(), p, 'exec')"
        if python is None:
            continue
        if run([str(python), "-I", "-c", code, *map(str, files)]):
            yield missing(f"a benchmark in {directory} is not valid syntax for Python {version}")
        else:
            yield ok(f"{len(files)} files of benchmarks in {directory} suit Python {version}")
