"""The SOURCE route: asv's build command in a checkout that is kept, at paths that never change.

A *builder* is one interpreter with one set of build requirements. Its environment and its
checkout lie at fixed paths in the store, because include paths enter ccache's keys and the
compiled files themselves; builds by one builder take turns. What it makes of a commit is
trusted because the commands succeeded on exactly that commit's files: whatever a failed or killed
build left behind is cleaned away before the next one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import filelock

from bisectorch.build import process
from bisectorch.build.checkout import Checkout, NotFetched
from bisectorch.build.durable import sync_file_system
from bisectorch.build.interpreter import Interpreter, describe
from bisectorch.build.process import CappedLog, OverLimit
from bisectorch.build.unpack import unpack
from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.model import TreeFile

FORMAT = 1
"""Part of every source build's key: raise it when the same commit would be built differently."""

DEFAULT_COMMAND = (
    "python -m pip wheel --no-deps --no-build-isolation -w {build_cache_dir} {build_dir}",
)
"""asv's own, its second half: its first builds the same again and throws it away. Without
isolation, because an isolated build lies at a new random path every time."""

DEFAULT_REQUIREMENTS = ("setuptools", "wheel")
SUBMODULE_MODE = "160000"

BUSY_SECONDS = 0.5
"""How often busy builders are asked again."""

STEP, NOTHING = "step", "nothing"
"""What a build starts from: what the kept checkout holds of another commit's, or nothing."""
_COMPILER_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")
_CHOOSES = re.compile(
    r"(?:USE|WITH|CMAKE|TORCH|PYTORCH)_|NO_(?!COLOR|PROXY)"
    r"|BUILD_(?:TEST|BINARY|DOCS|SHARED|CAFFE2|PYTHON)|(?:BLAS|MKLROOT|CUDA_HOME)$"
)
_COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "clang++")


class Busy(Exception):
    """A build by this builder is under way."""


class Stopped(Unbuildable):
    """Killed for its time or memory: more of either may help, trying again does not."""


@dataclass(frozen=True)
class Step:
    """One command of a build.

    Attributes:
        command: the program, found on the builder's path, and its arguments.
        environment: variables beside the builder's own.
        codes: the statuses that are no failure, None for any.
        cwd: where it runs, None for the checkout.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[int, ...] | None = (0,)
    cwd: Path | None = None


@dataclass(frozen=True)
class Places:
    """Where one build happens, for the commands to name."""

    build_dir: Path
    build_cache_dir: Path
    env_dir: Path
    commit: str


@dataclass(frozen=True)
class Recipe:
    """How a commit is built from source.

    Attributes:
        repository: where the commits come from.
        python: the interpreter that the builder's environment is made with.
        steps: the commands for given places; they must leave one wheel in ``build_cache_dir``.
        text: the commands as they were written, for the key.
        requirements: what the builder's environment holds.
        pip_args: handed to ``pip install`` for them.
        variables: set for every command, and part of the key.
        subdirectory: where the project lies in the repository.
        root: the directory of the repository that packages lie in, ``""`` or like ``src``.
        smoke: lines of Python that must run on a build; by default its packages are imported.
        timeout_seconds: how long one build may take.
        memory_bytes: how much memory its processes may hold together, None for any.
        jobs: compilations at the same time.
        builders: how many builds may be made side by side, each by a builder of its own.
        confine: the words before a command that let it write into these directories only; none
            by default.
    """

    repository: Path
    python: Path
    steps: Callable[[Places], Sequence[Step]]
    text: tuple[str, ...]
    requirements: tuple[str, ...] = DEFAULT_REQUIREMENTS
    pip_args: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    subdirectory: str = ""
    root: str = ""
    smoke: tuple[str, ...] = ()
    timeout_seconds: float = 4 * 3600.0
    memory_bytes: int | None = None
    jobs: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    builders: int = 1
    confine: Callable[[Sequence[Path]], Sequence[str]] = lambda writable: ()

    def key(self, fingerprint: str, interpreter: Interpreter) -> str:
        """The store's key of the native build of one fingerprint."""
        parts = ("source", FORMAT, fingerprint, *self._identity(interpreter), self.text, self.root)
        return _digest(*parts, compiler_identity(self.variables))

    def builder_name(self, interpreter: Interpreter) -> str:
        """The name of the builder that serves this recipe."""
        return _digest(*self._identity(interpreter), os.path.realpath(self.repository))[:12]

    def _identity(self, interpreter: Interpreter) -> tuple[object, ...]:
        return (
            interpreter.identity,
            sorted(self.requirements),
            self.pip_args,
            sorted(self.variables.items()),
            self.subdirectory,
        )


@dataclass(frozen=True)
class Made:
    """What a source build yielded: from nothing or not, its cost, and what the smoke test said."""

    kind: str
    seconds: float
    smoke: str


class Builder:
    """One interpreter, one set of build requirements, one kept checkout.

    Args:
        home: its directory, in the store.
        recipe: how it builds.
        is_python: whether a path is installed as it is.
    """

    def __init__(self, home: Path, recipe: Recipe, is_python: Callable[[str], bool]) -> None:
        self.home = home
        self._recipe = recipe
        self._is_python = is_python
        self._state_file = home / "state.json"

    def build(
        self,
        sha: str,
        files: Sequence[TreeFile],
        tree: Path,
        log_path: Path,
        say: Callable[[str], None],
        *,
        wait: bool = True,
    ) -> Made:
        """Build one commit and unpack it into the empty directory ``tree``.

        Whatever goes wrong in a used checkout is tried once more from nothing.

        Args:
            sha: the commit.
            files: all of its tracked files.
            tree: where the installed tree goes.
            log_path: takes all that the tools say, within bounds.
            say: told what takes long.
            wait: for a build by this builder that is under way.

        Raises:
            Busy: one is, and it was not to be waited for.
            Unbuildable: the commands fail, or take more time or memory than they may.
            EnvironmentFailure: the builder cannot be made.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        with self._lock(wait):
            self._end_orphan()
            with CappedLog(log_path) as log:
                self._make_environment(log)
            for kind in (STEP, NOTHING) if self.is_kept else (NOTHING,):
                say(f"Building {sha[:10]} from {'source' if kind == STEP else 'nothing'}")
                try:
                    with CappedLog(log_path) as log:
                        checkout = Checkout(self.home / "checkout", self._recipe.repository, log)
                        return self._attempt(checkout, sha, files, tree, log, kind)
                except (Stopped, NotFetched):
                    raise
                except Unbuildable as error:
                    failure = error
                    shutil.rmtree(tree)
                    tree.mkdir()
                    if kind == STEP:
                        log_path.replace(log_path.with_suffix(".first.log"))
            said = process.telling(log_path)
            if "No space left on device" in said:
                raise EnvironmentFailure(f"the disk is full: free some space ({said})")
            raise Unbuildable(f"{failure.reason}: {said}")

    @contextlib.contextmanager
    def _lock(self, wait: bool) -> Iterator[None]:
        lock = filelock.FileLock(self.home / "lock", timeout=-1 if wait else 0)
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise Busy from error
        try:
            yield
        finally:
            lock.release()

    def _attempt(
        self,
        checkout: Checkout,
        sha: str,
        files: Sequence[TreeFile],
        tree: Path,
        log: CappedLog,
        kind: str,
    ) -> Made:
        started = time.monotonic()
        state = self._state()
        links = {file.path: file.blob for file in files if file.mode == SUBMODULE_MODE}
        # Until it succeeds, nothing in the checkout is to be built upon.
        self._keep_state({**state, "clean": False})
        known_links = state.get("links")
        checkout.move(sha, links, known_links if isinstance(known_links, dict) else {})
        if kind == NOTHING:
            checkout.clean()
        else:
            checkout.forget_packed(self._is_python)
        wheels = self.home / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        wheels.mkdir()
        build_dir = checkout.path / self._recipe.subdirectory
        places = Places(build_dir, wheels, self.home / "env", sha)
        deadline = started + self._recipe.timeout_seconds
        for step in self._recipe.steps(places):
            self._run(step, places, log, deadline)
        found = list(wheels.glob("*.whl"))
        if len(found) != 1:
            raise Unbuildable(
                f"build_command left {len(found) or 'no'} wheels in {{build_cache_dir}}: "
                "it must leave one"
            )
        unpack(found[0], tree)
        shutil.rmtree(wheels)
        _compile(self.python, tree, log)
        smoke = self._smoke(tree, log)
        if smoke and kind != NOTHING:
            raise Unbuildable(smoke)
        # After a loss of power a compiled file may be empty and newer than its source.
        sync_file_system(self.home)
        self._keep_state({"clean": True, "links": links, "sha": sha})
        return Made(kind, time.monotonic() - started, smoke)

    @property
    def is_kept(self) -> bool:
        """Whether the checkout holds a build to go on from."""
        return self._state().get("clean") is True

    @property
    def python(self) -> Path:
        """The interpreter of the builder's environment."""
        return self.home / "env" / "bin" / "python"

    def _run(self, step: Step, places: Places, log: CappedLog, deadline: float) -> None:
        environment = {**self.environment(), **step.environment}
        program = shutil.which(step.command[0], path=environment["PATH"]) or step.command[0]
        log.write(f"\n$ {' '.join(step.command)}\n".encode("utf-8", "surrogateescape"))
        try:
            status = process.run(
                [*self._confined(environment), program, *step.command[1:]],
                log,
                cwd=step.cwd or places.build_dir,
                environment=environment,
                deadline=deadline,
                memory_bytes=self._recipe.memory_bytes,
                started=self._remember_running,
            )
        except OverLimit as limit:
            raise Stopped(f"the build was stopped: {limit}") from limit
        finally:
            self._running_file.unlink(missing_ok=True)
        if step.codes is not None and status not in step.codes:
            raise Unbuildable(f"{Path(step.command[0]).name} failed with status {status}")

    def _confined(self, environment: Mapping[str, str]) -> Sequence[str]:
        writable = [
            self.home / "tmp",
            self.home,
            Path(environment.get("CCACHE_DIR", self.home.parent / "ccache")),
        ]
        words = self._recipe.confine(writable)
        for directory in writable if words else ():
            directory.mkdir(parents=True, exist_ok=True)
        return words

    def environment(self) -> dict[str, str]:
        """The variables that builds run with: the builder's environment first, ccache if any."""
        env_dir = self.home / "env"
        path = [str(env_dir / "bin"), os.environ.get("PATH", os.defpath)]
        chosen = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        for name in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX"):
            chosen.pop(name, None)
        chosen.update(PIP_USER="false", PYTHONNOUSERSITE="1", VIRTUAL_ENV=str(env_dir))
        chosen.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
        chosen.setdefault("MAX_JOBS", str(self._recipe.jobs))
        ccache = shutil.which("ccache")
        if ccache:
            path.insert(1, str(self._masquerade(ccache)))
            chosen.update(CCACHE_BASEDIR=str(self.home), CCACHE_NOHASHDIR="1")
            chosen.setdefault("CCACHE_DIR", str(self.home.parent / "ccache"))
        chosen.update(self._recipe.variables)
        chosen["PATH"] = os.pathsep.join(path)
        return chosen

    def _masquerade(self, ccache: str) -> Path:
        """A directory in which every compiler's name is ccache, which then finds the compiler."""
        directory = self.home / "ccache-bin"
        directory.mkdir(parents=True, exist_ok=True)
        for name in _COMPILERS:
            link = directory / name
            if shutil.which(name) and not link.is_symlink():
                with contextlib.suppress(FileExistsError):
                    link.symlink_to(ccache)
        return directory

    def _make_environment(self, log: CappedLog) -> None:
        stamp = self.home / "env" / ".complete"
        if stamp.exists():
            return
        env_dir = self.home / "env"
        shutil.rmtree(env_dir, ignore_errors=True)
        is_old = _is_older(describe(self._recipe.python).version, 3, 7)
        commands = [[os.fspath(self._recipe.python), "-m", "venv", os.fspath(env_dir)]]
        pip = [os.fspath(self.python), "-m", "pip", "install", "--quiet"]
        if is_old:
            # Older ones build in a random temporary folder: no ccache hit, ever.
            commands.append([*pip, "pip==21.3.1"])
        if self._recipe.requirements:
            # As in an isolated build: the newest that is allowed, not the one that venv brought.
            wanted = [*self._recipe.pip_args, *self._recipe.requirements]
            commands.append([*pip, "--upgrade", *wanted])
        environment = {**os.environ, "PIP_USER": "false", "PYTHONNOUSERSITE": "1"}
        environment.pop("PYTHONPATH", None)
        for command in commands:
            status = process.run(command, log, cwd=self.home, environment=environment)
            if status:
                raise EnvironmentFailure(
                    "the environment that builds cannot be made: "
                    f"{' '.join(Path(part).name for part in command[:4])} failed "
                    f"(all it said: {log.path})"
                )
        stamp.touch()

    def _smoke(self, tree: Path, log: CappedLog) -> str:
        """What stands against the build when it is first used, empty when nothing does."""
        lines = self._recipe.smoke or tuple(f"import {name}" for name in _packages(tree))
        environment = {**os.environ, "PYTHONPATH": os.fspath(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.update(self._recipe.variables)
        code = "\n".join(lines)
        try:
            done = subprocess.run(
                [*self._confined(environment), os.fspath(self.python), "-c", code],
                cwd=self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=600,
            )
        except subprocess.TimeoutExpired:
            return "the smoke test took more than 10 minutes"
        if not done.returncode:
            return ""
        log.write(done.stderr)
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return said[-1][:300] if said else f"the smoke test ended with status {done.returncode}"

    @property
    def _running_file(self) -> Path:
        return self.home / "running.json"

    def _remember_running(self, pid: int) -> None:
        started = process.stat_fields(pid)[19]
        self._running_file.write_text(json.dumps([pid, started]), "utf-8")

    def _end_orphan(self) -> None:
        """End a build whose session was killed: it would go on writing into the checkout."""
        with contextlib.suppress(OSError, ValueError):
            pid, started = json.loads(self._running_file.read_bytes())
            # The leader may be gone and its children not; a number in use again is not ours.
            alive = Path("/proc", str(pid)).exists()
            if not alive or process.stat_fields(pid)[19] == started:
                process.kill_group(pid)
        self._running_file.unlink(missing_ok=True)

    def _state(self) -> dict[str, object]:
        try:
            state = json.loads(self._state_file.read_bytes())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _keep_state(self, state: Mapping[str, object]) -> None:
        half = self._state_file.with_suffix(".half")
        half.write_text(json.dumps(state), "utf-8")
        half.replace(self._state_file)


def build_by_any(
    builders: Sequence[Builder],
    sha: str,
    files: Sequence[TreeFile],
    tree: Path,
    log_path: Path,
    say: Callable[[str], None],
) -> Made:
    """Build by the first of these that is free, waiting for one; raises what ``build`` does.

    The first has built most and starts from most; a process that was killed leaves it free.
    """
    if len(builders) == 1:
        return builders[0].build(sha, files, tree, log_path, say)
    while True:
        for builder in builders:
            with contextlib.suppress(Busy):
                return builder.build(sha, files, tree, log_path, say, wait=False)
        time.sleep(BUSY_SECONDS)


def compiler_identity(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What the compilers say of themselves, and the variables that choose or instruct them."""
    present = {**os.environ, **variables}
    named = {name: present.get(name, "") for name in _COMPILER_VARIABLES}
    # PyTorch and others read very many; a build under another choice is another build.
    named.update({name: present[name] for name in sorted(present) if _CHOOSES.match(name)})
    asked = [
        (program, _first_line(program, os.environ.get("PATH", "")))
        for program in (named["CC"] or "cc", named["CXX"] or "c++")
    ]
    return (*named.items(), *asked)


@functools.lru_cache(maxsize=16)
def _first_line(program: str, _path: str) -> str:
    try:
        done = subprocess.run([*program.split(), "--version"], capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace").partition("\n")[0]


def _compile(python: Path, tree: Path, log: CappedLog) -> None:
    command = [os.fspath(python), "-I", "-m", "compileall", "-q", "-j", "0", os.fspath(tree)]
    # Status and complaints are about files that packages hold for other interpreters.
    done = subprocess.run(command, capture_output=True, check=False)
    log.write(done.stdout + done.stderr)


def _packages(tree: Path) -> Iterator[str]:
    for entry in sorted(tree.iterdir()):
        if entry.is_dir() and (entry / "__init__.py").is_file() and entry.name.isidentifier():
            yield entry.name


def _is_older(version: str, major: int, minor: int) -> bool:
    numbers = [int(each) for each in re.findall(r"\d+", version)[:2]]
    return numbers < [major, minor]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogateescape")).hexdigest()
