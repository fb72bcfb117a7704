"""The ladder: a usable build of any commit by the cheapest exact route."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from bisectorch.build import overlay, plan, wheel
from bisectorch.build.interpreter import Interpreter, describe
from bisectorch.build.store import Store
from bisectorch.build.wheel import BaseWheel
from bisectorch.errors import Unbuildable
from bisectorch.model import NO_NATIVE_FILES, Build, Commit, PathClass, Quote, Route, TreeFile
from bisectorch.seams import Trees

_SUBMODULE_MODE = "160000"


class Ladder:
    """Builds of commits, from what the store holds and the routes that are configured.

    Implements ``seams.Provider``; safe to use from several threads at once.

    Args:
        trees: the tracked files of the history.
        store: where builds live.
        python: the interpreter that runs them.
        environment: variables to set when they run.
        base: the wheel that is the native build of every commit without native files; None when
            the history has none.
        is_python: whether a path is installed as it is.
        say: told, one line each, about work that takes long.
    """

    def __init__(
        self,
        trees: Trees,
        store: Store,
        python: Path | str,
        environment: Mapping[str, str],
        base: BaseWheel | None,
        is_python: Callable[[str], bool],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._trees = trees
        self._store = store
        self._python = python
        self._environment = dict(environment)
        self._base = base
        self._is_python = is_python
        self._say = say
        self._lock = threading.Lock()
        self._interpreter: Interpreter | None = None
        self._laid: dict[str, tuple[TreeFile, ...]] = {}
        self._learned: dict[Route, list[float]] = defaultdict(list)

    def quote(self, commit: Commit) -> Quote:
        """The cheapest route and its expected cost; no work is done.

        A commit without any route is quoted at nothing: to learn so costs nothing.
        """
        try:
            base_key = self._base_key(commit)
        except Unbuildable:
            return Quote(commit.sha, Route.SOURCE, 0.0)
        files = self._files(commit)
        situation = plan.Situation(
            cached=self._store.about(self._key(base_key, files)) is not None,
            base=() if self._store.about(base_key) is not None else (Route.WHEEL,),
            files=len(files),
        )
        with self._lock:
            return plan.quote(commit.sha, situation, self._learned)

    def provide(self, commit: Commit) -> Build:
        """Make the build, or take it from the store; Unbuildable when this commit has none.

        EnvironmentFailure when the machine stands in the way (disk, package index, interpreter).
        """
        started = time.monotonic()
        base_key = self._base_key(commit)
        files = self._files(commit)
        key = self._key(base_key, files)
        route = Route.CACHED
        tree = self._store.get(key)
        if tree is None:
            route = Route.OVERLAY if files else Route.WHEEL
            base = self._provide_base(base_key)
            tree = self._lay(commit, base_key, base, files, key) if files else base
        return Build(
            sha=commit.sha,
            route=route,
            tree=str(tree),
            python=str(self._python),
            environment=self._environment,
            key=key,
            seconds=0.0 if route is Route.CACHED else time.monotonic() - started,
        )

    def _provide_base(self, key: str) -> Path:
        tree = self._store.get(key)
        if tree is not None:
            return tree
        assert self._base is not None
        base, interpreter, log = self._base, self._target(), self._store.log_path(key)

        def make(tree: Path) -> None:
            self._say(f"Installing {base.requirement} into the store, once")
            started = time.monotonic()
            wheel.install(base, tree, interpreter, log)
            self._learn(Route.WHEEL, time.monotonic() - started)

        about = {"kind": "wheel", "what": base.requirement, "python": interpreter.identity}
        return self._store.make(key, make, about)

    def _lay(
        self, commit: Commit, base_key: str, base: Path, files: tuple[TreeFile, ...], key: str
    ) -> Path:
        def make(tree: Path) -> None:
            started = time.monotonic()
            contents = dict(self._trees.contents({file.blob for file in files}))
            overlay.lay(
                base,
                tree,
                files,
                contents,
                python=self._python,
                date_seconds=commit.date_seconds,
            )
            self._learn(Route.OVERLAY, time.monotonic() - started)

        about = {"kind": "overlay", "what": commit.sha, "base": base_key, "files": len(files)}
        return self._store.make(key, make, about)

    def _base_key(self, commit: Commit) -> str:
        """The key of the native build that the commit's fingerprint asks for."""
        if self._base is None:
            raise Unbuildable("no route: neither a base wheel nor a source route is configured")
        if commit.fingerprint != NO_NATIVE_FILES:
            raise Unbuildable("no route: native files changed and no source route is configured")
        return self._base.key(self._target())

    def _files(self, commit: Commit) -> tuple[TreeFile, ...]:
        """The commit's Python files, sorted by path."""
        with self._lock:
            laid = self._laid.get(commit.sha)
            if laid is None and commit.path_class is PathClass.IRRELEVANT and commit.parents:
                laid = self._laid.get(commit.parents[0])
        if laid is None:
            laid = tuple(
                sorted(
                    (
                        file
                        for file in self._trees.files(commit.sha)
                        if file.mode != _SUBMODULE_MODE and self._is_python(file.path)
                    ),
                    key=lambda file: file.path,
                )
            )
        with self._lock:
            self._laid[commit.sha] = laid
        return laid

    @staticmethod
    def _key(base_key: str, files: tuple[TreeFile, ...]) -> str:
        """The store's key: equal Python files over one base are one tree; none is the base."""
        if not files:
            return base_key
        listed = [(file.path, file.mode, file.blob) for file in files]
        text = json.dumps(["overlay", overlay.FORMAT, base_key, listed])
        return hashlib.sha256(text.encode()).hexdigest()

    def _target(self) -> Interpreter:
        with self._lock:
            if self._interpreter is None:
                self._interpreter = describe(self._python)
            return self._interpreter

    def _learn(self, route: Route, seconds: float) -> None:
        with self._lock:
            self._learned[route].append(seconds)
