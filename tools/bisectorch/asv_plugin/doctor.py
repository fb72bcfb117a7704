"""Is everything there that a bisection needs? Each check says so in one line, and what to do."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisectorch.asv_plugin.interpreters import VERSION, find_python
from bisectorch.asv_plugin.settings import Settings
from bisectorch.build import Store, WheelSources
from bisectorch.errors import BisectorchError
from bisectorch.history import GitHistory
from bisectorch.model import CommitRange, PathClass

ENOUGH_BYTES = 10 << 30
BYTES_A_JOB = 2 << 30
"""What one compilation of PyTorch's largest files takes."""


class State(enum.Enum):
    """What a check came to."""

    OK = "ok"
    NOTE = "note"
    MISSING = "MISSING"


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's."""

    state: State
    text: str


Check = Iterator[Finding]


def ok(text: str) -> Finding:
    """Nothing to do."""
    return Finding(State.OK, text)


def note(text: str) -> Finding:
    """Works without, but the user will want to know."""
    return Finding(State.NOTE, text)


def missing(text: str) -> Finding:
    """Stands in the way."""
    return Finding(State.MISSING, text)


def examine(conf: Any, *, offline: bool) -> Iterator[Finding]:
    """Everything that can be told without a range; a fault in a check is that check's finding."""
    try:
        settings = Settings.from_conf(conf)
    except BisectorchError as error:
        yield missing(str(error))
        return
    checks: list[Callable[[], Check]] = [
        lambda: _environment_type(conf),
        _git,
        lambda: _repository(conf, offline=offline),
        lambda: _interpreters(conf),
        lambda: _benchmarks(conf),
        lambda: _store(settings),
        lambda: _routes(conf, settings, offline=offline),
    ]
    for check in checks:
        try:
            yield from check()
        except BisectorchError as error:
            yield missing(str(error))


def _environment_type(conf: Any) -> Check:
    if conf.environment_type == "bisectorch" and ".bisectorch.asv_plugin" in conf.plugins:
        yield ok("asv.conf.json uses our environments")
    else:
        yield missing(
            'asv.conf.json needs "environment_type": "bisectorch" and '
            '"plugins": [".bisectorch.asv_plugin"]'
        )


def _git() -> Check:
    said = _output(["git", "--version"])
    yield ok(said) if said else missing("git was not found: install it, or put it on the PATH")


def is_url(repo: str) -> bool:
    """Whether asv mirrors this repository, rather than reading it where it is."""
    return "://" in repo or (":" in repo and not Path(repo).exists())


def _repository(conf: Any, *, offline: bool) -> Check:
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
    done = _run(["git", "ls-remote", "--exit-code", conf.repo, branch], timeout=60)
    yield (
        ok(f"it answers, and has {branch}")
        if done == 0
        else missing(f"{conf.repo} does not answer, or has no branch {branch}")
    )


def _interpreters(conf: Any) -> Check:
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
        if _run([str(python), "-I", "-c", "import venv, ensurepip"]):
            yield missing(f"{python} cannot make environments: install its venv and ensurepip")
        ask = "import sysconfig; print(sysconfig.get_paths()['include'])"
        headers = Path(_output([str(python), "-I", "-c", ask])) / "Python.h"
        if not headers.is_file():
            yield note(f"{python} has no headers (Python.h): extensions cannot be built for it")


def _benchmarks(conf: Any) -> Check:
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
        if _run([str(python), "-I", "-c", code, *map(str, files)]):
            yield missing(f"a benchmark in {directory} is not valid syntax for Python {version}")
        else:
            yield ok(f"{len(files)} files of benchmarks in {directory} suit Python {version}")


def _store(settings: Settings) -> Check:
    store = Store(settings.store)
    root = store.root
    while not root.exists():
        root = root.parent
    if not os.access(root, os.W_OK):
        yield missing(
            f"the store {store.root} cannot be written: set BISECTORCH_STORE to another directory"
        )
        return
    free = shutil.disk_usage(root).free
    entries = list(store.entries())
    held = sum(entry.bytes for entry in entries)
    text = f"store {store.root}: {len(entries)} trees, {gib(held)}; {gib(free)} free on its disk"
    if free < ENOUGH_BYTES:
        yield note(f"{text}, which a few native builds of PyTorch would fill")
    else:
        yield ok(f"{text}; it stays within {gib(settings.most_bytes)}")


def _routes(conf: Any, settings: Settings, *, offline: bool) -> Check:
    if settings.base_wheel is not None:
        yield ok(
            f"route WHEEL: {settings.base_wheel.requirement} under commits without native files"
        )
    if settings.wheels is not None:
        yield from _wheels(settings.wheels)
    if settings.source is None:
        yield note("route SOURCE: off; a commit with native files cannot be built")
        return
    yield ok("route SOURCE: " + ("asv's build_command" if conf.build_command else "pip wheel"))
    for name, what in (("CC", "cc"), ("CXX", "c++")):
        program = os.environ.get(name) or what
        said = _output([*program.split(), "--version"]).partition("\n")[0]
        yield (
            ok(f"compiler {program}: {said}")
            if said
            else missing(f"no compiler {program}: install gcc and g++ (Debian: build-essential)")
        )
    if shutil.which("ccache"):
        yield ok("ccache is used")
    else:
        yield note("ccache is not installed: native builds near to each other would share work")
    jobs = settings.source.jobs or len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < jobs * BYTES_A_JOB:
        yield note(
            f"{jobs} compilations at once may take {gib(jobs * BYTES_A_JOB)}, there are "
            f'{gib(memory)}: set "source": {{"jobs": {max(1, memory // BYTES_A_JOB)}}}'
        )


def _wheels(sources: WheelSources) -> Check:
    gone = [str(folder) for folder in sources.folders if not folder.is_dir()]
    if gone:
        yield missing(f"folders of wheels that do not exist: {', '.join(gone)}")
    places = [str(folder) for folder in sources.folders]
    places += [sources.table] if sources.table else []
    places += [f"releases of {sources.project} by their tags"] if sources.releases else []
    yield ok(f"route WHEEL: {', '.join(places) or 'no place to look in'}")


@dataclass(frozen=True)
class Division:
    """How a range divides, and what builds of all of it would cost.

    Attributes:
        commits: how many, the baseline included.
        classes: commits by class, the baseline left out.
        fingerprints: different native states.
        merges: commits that brought in a side branch.
    """

    commits: int
    classes: Counter[PathClass]
    fingerprints: int
    merges: int


def divide(found: CommitRange) -> Division:
    """Count a range."""
    return Division(
        commits=len(found.line),
        classes=Counter(commit.path_class for commit in found.line[1:]),
        fingerprints=len({commit.fingerprint for commit in found.line}),
        merges=sum(len(commit.parents) > 1 for commit in found.line),
    )


def describe(division: Division, seconds_a_build: float, is_known: bool) -> Iterator[Finding]:
    """The division in words, and what it costs to build it all."""
    count = division.classes
    yield ok(
        f"{division.commits} commits with the baseline; after it {count[PathClass.NATIVE]} native, "
        f"{count[PathClass.PYTHON]} Python only, {count[PathClass.IRRELEVANT]} irrelevant; "
        f"{division.merges} of them merges"
    )
    hours = division.fingerprints * seconds_a_build / 3600
    ground = "as builds took so far" if is_known else "at a first guess"
    yield note(
        f"{division.fingerprints} native states; to build them all would take {hours:.1f} h "
        f"({ground}, {seconds_a_build:.0f} s each); a bisection builds a fraction"
    )


def gib(count: float) -> str:
    """Bytes for people."""
    return f"{count / (1 << 30):.1f} GiB"


def _run(command: list[str], timeout: float = 60) -> int:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
