"""The ladder: a usable build of any commit by the cheapest exact route."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisectorch.build import installed, overlay, packages, plan, source, wheel
from bisectorch.build.checkout import NotFetched
from bisectorch.build.failures import Failures
from bisectorch.build.installed import Difference, Manifest
from bisectorch.build.interpreter import Interpreter, describe
from bisectorch.build.learned import Learned
from bisectorch.build.source import Builder, Recipe, Stopped
from bisectorch.build.store import Store
from bisectorch.build.wheel import BaseWheel
from bisectorch.errors import Unbuildable
from bisectorch.model import NO_NATIVE_FILES, Build, Commit, PathClass, Quote, Route, TreeFile
from bisectorch.seams import Trees

_ATTEMPTS = 4
"""How often another session may have made another build meanwhile before we say so."""


@dataclass(frozen=True)
class _Base:
    """One native build that may serve a commit: its key, and the kind of work that makes it."""

    key: str
    kind: str


@dataclass(frozen=True)
class _Choice:
    """The native build to stand on; where it is there, what to lay over it and the key of both."""

    base: _Base
    difference: Difference | None = None
    key: str = ""


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
        recipe: how a commit is built from source; None when it is not.
        retry_failed: try again what is known not to build.
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
        *,
        recipe: Recipe | None = None,
        retry_failed: bool = False,
    ) -> None:
        self._trees = trees
        self._store = store
        self._python = python
        self._environment = dict(environment)
        self._base = base
        self._is_python = is_python
        self._say = say
        self._recipe = recipe
        self._failures = Failures(store.root / "failures", forget=retry_failed)
        self._learned = Learned(store.root / "learned.jsonl")
        self._lock = threading.Lock()
        self._interpreter: Interpreter | None = None
        self._laid: dict[str, tuple[TreeFile, ...]] = {}
        self._manifests: dict[tuple[str, object], Manifest | None] = {}
        self._others: dict[str, list[_Base]] = {}

    def quote(self, commit: Commit) -> Quote:
        """The cheapest route and its expected cost; no work is done.

        A commit without any route, or that is known not to build, is quoted at nothing: to learn
        so costs nothing.
        """
        try:
            situation = self._situation(commit)
        except Unbuildable:
            return Quote(commit.sha, Route.SOURCE, 0.0)
        return plan.quote(commit.sha, situation, self._learned.seconds())

    def provide(self, commit: Commit) -> Build:
        """Make the build, or take it from the store; Unbuildable when this commit has none.

        EnvironmentFailure when the machine stands in the way (disk, package index, interpreter).
        """
        started = time.monotonic()
        files = self._files(commit)
        made: list[str] = []
        for _ in range(_ATTEMPTS):
            choice = self._choose(commit, files)
            if choice.difference is None:
                self._make_base(commit, files, choice.base, made)
                continue
            base = self._store.get(choice.base.key)
            if base is None:
                # Evicted since we looked.
                continue
            tree = self._lay(commit, choice, base, made)
            route = plan.ROUTES[made[-1]] if made else Route.CACHED
            return Build(
                sha=commit.sha,
                route=route,
                tree=str(tree),
                python=str(self._python),
                environment=self._environment,
                key=choice.key,
                seconds=time.monotonic() - started if made else 0.0,
            )
        raise Unbuildable("its native build is taken away again and again: is the store too small?")

    def release(self) -> None:
        """Stand on none of the builds provided so far: they may be evicted."""
        self._store.release()

    def _situation(self, commit: Commit) -> plan.Situation:
        bases = self._bases(commit)
        present = [base for base in bases if self._store.about(base.key) is not None]
        if not present:
            self._refuse_known(bases)
        if self._known_files(commit) is None and not self._lies_on_a_wheel(commit):
            # Its files would tell only whether an overlay is there: a fraction of a second. To
            # list a whole project's tree for each of thousands of commits costs more.
            return plan.Situation(None if present else bases[0].kind, bool(present))
        choice = self._choose(commit, self._files(commit))
        if choice.difference is None:
            return plan.Situation(choice.base.kind, self._has_own_files(commit))
        missing = not choice.difference.is_empty and self._store.about(choice.key) is None
        return plan.Situation(None, missing)

    def _has_own_files(self, commit: Commit) -> bool:
        return self._lies_on_a_wheel(commit) and bool(self._files(commit))

    def _lies_on_a_wheel(self, commit: Commit) -> bool:
        return self._base is not None and commit.fingerprint == NO_NATIVE_FILES

    def _bases(self, commit: Commit, files: Sequence[TreeFile] | None = None) -> list[_Base]:
        """The native builds that may serve the commit, the best first."""
        if self._base is not None and commit.fingerprint == NO_NATIVE_FILES:
            return [_Base(self._base.key(self._target()), plan.WHEEL)]
        if self._recipe is None:
            raise Unbuildable(
                "no route: neither a base wheel nor a source route is configured"
                if self._base is None
                else "no route: native files changed and no source route is configured"
            )
        kind = self._kind_of_source()
        shared = _Base(self._recipe.key(commit.fingerprint, self._target()), kind)
        with self._lock:
            others = list(self._others.get(shared.key, ()))
        own = [] if files is None else [_Base(_digest("own", shared.key, _listed(files)), kind)]
        return [shared, *others, *own]

    def _kind_of_source(self) -> str:
        is_kept = self._builder().is_kept
        return plan.SOURCE_STEP if is_kept else plan.SOURCE_FROM_NOTHING

    def _choose(self, commit: Commit, files: tuple[TreeFile, ...]) -> _Choice:
        """The native build to stand on: one that is there and tells all, else one to make."""
        bases = self._bases(commit, files)
        absent: list[_Base] = []
        for base in bases:
            is_there = self._store.about(base.key) is not None
            manifest = self._manifest(base) if is_there else None
            if not is_there:
                absent.append(base)
            elif manifest is None:
                # A wheel that is no commit's build: all of the commit's files are laid.
                everything = Difference(files, ())
                key = self._key(base.key, "", everything)
                return _Choice(base, everything, key)
            elif (difference := installed.difference(manifest, files)) is not None:
                key = self._key(base.key, manifest.sha, difference)
                return _Choice(base, difference, key)
        return _Choice(absent[0])

    def _manifest(self, base: _Base) -> Manifest | None:
        about = self._store.about(base.key) or {}
        cached = (base.key, about.get("what"))
        if cached not in self._manifests:
            path = self._store.beside(base.key, "manifest.json")
            self._manifests[cached] = Manifest.read(path) if path.exists() else None
        return self._manifests[cached]

    def _make_base(
        self, commit: Commit, files: tuple[TreeFile, ...], base: _Base, made: list[str]
    ) -> None:
        interpreter = self._target()
        about: dict[str, object] = {"kind": base.kind.split()[0], "python": interpreter.identity}
        log = self._store.log_path(base.key)

        def from_wheel(tree: Path) -> None:
            assert self._base is not None
            self._say(f"Installing {self._base.requirement} into the store, once")
            started = time.monotonic()
            wheel.install(self._base, tree, interpreter, log)
            self._learned.add(plan.WHEEL, time.monotonic() - started)
            made.append(plan.WHEEL)

        def from_source(tree: Path) -> None:
            every = self._trees.files(commit.sha)
            result = self._builder().build(commit.sha, every, tree, log, self._say)
            self._write_manifest(commit, every, files, tree)
            kind = plan.SOURCE_STEP if result.kind == source.STEP else plan.SOURCE_FROM_NOTHING
            self._learned.add(kind, result.seconds)
            about["smoke"] = result.smoke
            made.append(kind)

        if base.kind == plan.WHEEL:
            assert self._base is not None
            about["what"] = self._base.requirement
            self._store.make(base.key, from_wheel, about)
            return
        self._refuse_known([base])
        about["what"] = commit.sha
        try:
            self._store.make(base.key, from_source, about)
        except Unbuildable as error:
            self._remember(base, error)
            raise
        self._add_other(commit, base)

    def _add_other(self, commit: Commit, base: _Base) -> None:
        """A commit's own build may tell of later ones what the shared build cannot."""
        shared = self._bases(commit)[0]
        if base.key != shared.key:
            with self._lock:
                self._others.setdefault(shared.key, []).append(base)

    def _write_manifest(
        self, commit: Commit, every: Iterable[TreeFile], files: Iterable[TreeFile], tree: Path
    ) -> None:
        assert self._recipe is not None
        prefix = f"{self._recipe.subdirectory}/" if self._recipe.subdirectory else ""
        names = {f"{prefix}{name}": name for name in packages.SETUP_FILES}
        setup = {file.blob: names[file.path] for file in every if file.path in names}
        texts = {setup[blob]: text for blob, text in self._trees.contents(setup)}
        where = {file: installed.where_installed(file.path, self._recipe.root) for file in files}
        there = {
            file: tree / path
            for file, path in where.items()
            if path is not None and (tree / path).is_file()
        }
        blobs = dict(self._trees.contents({file.blob for file in there}))
        manifest = Manifest(
            sha=commit.sha,
            root=self._recipe.root,
            files={file.path: file for file in files},
            installed={
                file.path: path.read_bytes() == blobs[file.blob] for file, path in there.items()
            },
            packages=packages.read_rule(texts, self._recipe.root),
        )
        manifest.write(tree.parent / "manifest.json")

    def _lay(self, commit: Commit, choice: _Choice, base: Path, made: list[str]) -> Path:
        difference = choice.difference
        assert difference is not None
        if difference.is_empty:
            return base

        def make(tree: Path) -> None:
            started = time.monotonic()
            contents = dict(self._trees.contents({file.blob for file in difference.laid}))
            overlay.lay(
                base,
                tree,
                difference.laid,
                contents,
                python=self._python,
                date_seconds=commit.date_seconds,
                removed=difference.removed,
            )
            self._learned.add(plan.OVERLAY, time.monotonic() - started)
            made.append(plan.OVERLAY)

        about = {
            "kind": "overlay",
            "what": commit.sha,
            "base": choice.base.key,
            "files": len(difference.laid),
        }
        return self._store.make(choice.key, make, about)

    def _refuse_known(self, bases: Sequence[_Base]) -> None:
        for base in bases:
            reason = self._failures.reason(base.key, self._limits())
            if reason:
                raise Unbuildable(reason)

    def _remember(self, base: _Base, error: Unbuildable) -> None:
        if not isinstance(error, NotFetched):
            stopped = isinstance(error, Stopped)
            self._failures.add(base.key, error.reason, self._limits(), stopped=stopped)

    def _limits(self) -> dict[str, float]:
        if self._recipe is None:
            return {}
        memory = self._recipe.memory_bytes
        return {
            "seconds": self._recipe.timeout_seconds,
            "bytes": float("inf") if memory is None else float(memory),
        }

    def _builder(self) -> Builder:
        assert self._recipe is not None
        home = self._store.root / "builders" / self._recipe.builder_name(self._target())
        return Builder(home, self._recipe, self._is_python)

    def _known_files(self, commit: Commit) -> tuple[TreeFile, ...] | None:
        with self._lock:
            laid = self._laid.get(commit.sha)
            if laid is None and commit.path_class is PathClass.IRRELEVANT and commit.parents:
                laid = self._laid.get(commit.parents[0])
        return laid

    def _files(self, commit: Commit) -> tuple[TreeFile, ...]:
        """The commit's Python files, sorted by path."""
        laid = self._known_files(commit)
        if laid is None:
            laid = tuple(
                sorted(
                    (
                        file
                        for file in self._trees.files(commit.sha)
                        if file.mode != source.SUBMODULE_MODE and self._is_python(file.path)
                    ),
                    key=lambda file: file.path,
                )
            )
        with self._lock:
            self._laid[commit.sha] = laid
        return laid

    @staticmethod
    def _key(base_key: str, base_sha: str, difference: Difference) -> str:
        """The store's key: the same files over one base are one tree; none is the base."""
        if difference.is_empty:
            return base_key
        laid, removed = _listed(difference.laid), list(difference.removed)
        return _digest("overlay", overlay.FORMAT, base_key, base_sha, laid, removed)

    def _target(self) -> Interpreter:
        with self._lock:
            if self._interpreter is None:
                self._interpreter = describe(self._python)
            return self._interpreter


def _listed(files: Iterable[TreeFile]) -> list[tuple[str, str, str]]:
    return [(file.path, file.mode, file.blob) for file in files]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
