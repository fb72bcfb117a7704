"""The ladder: a usable build of any commit by the cheapest exact route."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisectorch.build import installed, overlay, packages, plan, source, wheel
from bisectorch.build.checkout import NotFetched
from bisectorch.build.exact import (
    ExactWheels,
    NotExact,
    Offer,
    WheelSources,
    checksum_of,
    recorded_commit,
)
from bisectorch.build.failures import Failures
from bisectorch.build.installed import Difference, Manifest
from bisectorch.build.interpreter import Interpreter, describe
from bisectorch.build.learned import Learned
from bisectorch.build.salted import SaltedBuilder, facts, salted_key
from bisectorch.build.source import Builder, Recipe, Stopped
from bisectorch.build.store import Store
from bisectorch.build.wheel import BaseWheel
from bisectorch.errors import Unbuildable
from bisectorch.model import NO_NATIVE_FILES, Build, Commit, PathClass, Quote, Route, TreeFile
from bisectorch.seams import Trees

_ATTEMPTS = 8
"""Offers that prove wrong, or builds that are evicted meanwhile, before we say so."""


MOST_BUILDERS = 64
"""Builds side by side from one store."""


@dataclass(frozen=True)
class _Base:
    """One native build that may serve a commit: its key, and what makes it.

    ``offer`` is the wheel that it is made from; None for the base wheel and for source builds.
    """

    key: str
    kind: str
    offer: Offer | None = None


@dataclass(frozen=True)
class _Choice:
    """The native build to stand on; where it is there, what to lay over it and the key of both."""

    base: _Base
    difference: Difference | None = None
    key: str = ""


class Ladder:
    """Builds of commits, from what the store holds and the routes that are configured.

    Implements ``seams.Provider`` and ``seams.Rebuilder``; safe to use from several threads at once.

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
        wheels: where wheels of single commits come from; None when there are none.
        tags_of: for a commit, the names of its tags; asked once, when they are needed.
        runner: what runs builds in place of ``python``: a program that confines it.
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
        wheels: WheelSources | None = None,
        runner: Path | None = None,
        tags_of: Callable[[], Mapping[str, tuple[str, ...]]] = dict,
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
        self._source_keys: dict[str, str] = {}
        self._seen: dict[str, Commit] = {}
        self._alike: dict[str, dict[str, _Base]] = {}
        self._wheels = wheels
        self._tags_of = tags_of
        self._runner = runner or python
        self._exact: ExactWheels | None = None

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
                python=str(self._runner),
                environment=self._environment,
                key=choice.key,
                seconds=time.monotonic() - started if made else 0.0,
            )
        raise Unbuildable("its native build is taken away again and again: is the store too small?")

    @property
    def compiles(self) -> bool:
        """Whether commits are built from source, and by nothing else."""
        return self._recipe is not None and self._wheels is None and self._base is None

    def rebuild_quote(self, commit: Commit, salt: int) -> Quote:
        """The expected cost of ``rebuild``, where there is a source route; no work is done."""
        key = salted_key(salt, commit.sha, self._source_key(commit))
        is_there = self._store.about(key) is not None
        return plan.rebuild_quote(commit.sha, is_there, self._learned.seconds())

    def rebuild(self, commit: Commit, salt: int) -> Build:
        """The commit built from source once more, in the layout of ``salt``; kept in the store.

        Raises Unbuildable where there is no source route or the build fails, EnvironmentFailure
        as ``provide`` does.
        """
        if self._recipe is None:
            raise Unbuildable("no source route is configured, so nothing can be built again")
        started = time.monotonic()
        interpreter = self._target()
        key = salted_key(salt, commit.sha, self._source_key(commit))
        name = f"{self._recipe.builder_name(interpreter)}-salted"
        builder = SaltedBuilder(self._store.root / "builders" / name, self._recipe, self._is_python)
        made: list[str] = []

        def make(tree: Path) -> None:
            every = self._trees.files(commit.sha)
            builder.build(salt, commit.sha, every, tree, self._store.log_path(key), self._say)
            self._learned.add(plan.SALTED, time.monotonic() - started)
            made.append(key)

        tree = self._store.make(key, make, facts(salt, commit.sha))
        return Build(
            sha=commit.sha,
            route=Route.SOURCE if made else Route.CACHED,
            tree=str(tree),
            python=str(self._runner),
            environment=self._environment,
            key=key,
            seconds=time.monotonic() - started if made else 0.0,
            salt=salt,
        )

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
        known = self._offered(commit)
        if self._recipe is not None:
            kind = self._kind_of_source()
            known.append(_Base(self._source_key(commit), kind))
        if not known:
            raise Unbuildable(self._why_no_route())
        with self._lock:
            others = list(self._others.get(known[-1].key, ()))
        own: list[_Base] = []
        if files is not None and self._recipe is not None:
            own.append(_Base(_digest("own", known[-1].key, _listed(files)), known[-1].kind))
        return [*known, *others, *own]

    def native_key(self, commit: Commit) -> str | None:
        """The key of the native build from source that serves the commit; None without sources.

        Two hosts whose keys differ (another interpreter, another compiler) make different builds.
        """
        return None if self._recipe is None else self._source_key(commit)

    def _source_key(self, commit: Commit) -> str:
        """Found once for each fingerprint: every commit is quoted again and again."""
        assert self._recipe is not None
        interpreter = self._target()
        with self._lock:
            key = self._source_keys.get(commit.fingerprint)
            if key is None:
                key = self._recipe.key(commit.fingerprint, interpreter)
                self._source_keys[commit.fingerprint] = key
        return key

    def _offered(self, commit: Commit) -> list[_Base]:
        """The commit's own wheels, and those of others of its fingerprint that we came across."""
        if self._wheels is None:
            return []
        exact = self._exact_wheels()
        self._seen[commit.sha] = commit
        bases = [
            _Base(offer.key(exact.sources, self._target()), offer.kind, offer)
            for offer in exact.offers(commit.sha)
        ]
        with self._lock:
            alike = self._alike.setdefault(commit.fingerprint, {})
            alike.update({base.key: base for base in bases})
            bases = [*bases, *(base for key, base in alike.items() if base not in bases)]
        return [base for base in bases if not self._failures.reason(base.key, {})]

    def _exact_wheels(self) -> ExactWheels:
        interpreter = self._target()
        with self._lock:
            if self._exact is None:
                assert self._wheels is not None
                self._exact = ExactWheels(self._wheels, self._tags_of, interpreter)
            return self._exact

    def _why_no_route(self) -> str:
        if self._wheels is not None:
            return "no route: it has no wheel of its own and no source route is configured"
        if self._base is None:
            return "no route: neither a base wheel nor a source route is configured"
        return "no route: native files changed and no source route is configured"

    def _kind_of_source(self) -> str:
        is_kept = self._builders()[0].is_kept
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
        if not absent:
            raise Unbuildable(
                "no exact route: where its new files would be installed cannot be told from the "
                "wheel, and no source route is configured"
            )
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
            builders = self._builders()
            result = source.build_by_any(builders, commit.sha, every, tree, log, self._say)
            self._write_manifest(commit, every, files, tree)
            kind = plan.SOURCE_STEP if result.kind == source.STEP else plan.SOURCE_FROM_NOTHING
            self._learned.add(kind, result.seconds)
            about["smoke"] = result.smoke
            made.append(kind)

        def from_offer(tree: Path) -> None:
            assert base.offer is not None
            self._say(f"Obtaining {base.offer.name}")
            started = time.monotonic()
            with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
                about.update(self._install_offer(base.offer, tree, Path(scratch), log))
            self._write_manifest(commit, self._trees.files(commit.sha), files, tree)
            self._learned.add(base.kind, time.monotonic() - started)
            made.append(base.kind)

        if base.offer is not None and base.offer.commit != commit.sha:
            # Its manifest is to be that commit's.
            commit = self._seen[base.offer.commit]
            files = self._files(commit)
        if base.kind == plan.WHEEL:
            assert self._base is not None
            about["what"] = self._base.requirement
            self._store.make(base.key, from_wheel, about)
            return
        about["what"] = commit.sha
        if base.offer is not None:
            try:
                self._store.make(base.key, from_offer, about)
            except Unbuildable as error:
                # It is no wheel of this commit, or there is none: the next route, then.
                self._failures.add(base.key, error.reason, {}, stopped=False)
                self._say(error.reason)
            return
        self._refuse_known([base])
        try:
            self._store.make(base.key, from_source, about)
        except Unbuildable as error:
            self._remember(base, error)
            raise
        self._add_other(commit, base)

    def _install_offer(
        self, offer: Offer, tree: Path, scratch: Path, log: Path
    ) -> Mapping[str, object]:
        """Obtain the wheel, prove whose it is, and install it; returns facts for the stamp."""
        assert self._wheels is not None
        path = offer.obtain(scratch)
        recorded = recorded_commit(path)
        if recorded != offer.commit:
            raise NotExact(
                f"{offer.name} records {recorded[:10] if recorded else 'no commit'}, "
                f"not {offer.commit[:10]}: it is not used"
            )
        wanted = [str(path), *self._wheels.companions]
        wheel.install_all(wanted, tree, self._target(), log, self._wheels)
        return {"wheel": path.name, "sha256": checksum_of(path)}

    def _add_other(self, commit: Commit, base: _Base) -> None:
        """A commit's own build may tell of later ones what the shared build cannot."""
        shared = self._source_key(commit)
        if base.key != shared:
            with self._lock:
                self._others.setdefault(shared, []).append(base)

    def _write_manifest(
        self, commit: Commit, every: Iterable[TreeFile], files: Iterable[TreeFile], tree: Path
    ) -> None:
        root, subdirectory = "", ""
        if self._recipe is not None:
            root, subdirectory = self._recipe.root, self._recipe.subdirectory
        prefix = f"{subdirectory}/" if subdirectory else ""
        names = {f"{prefix}{name}": name for name in packages.SETUP_FILES}
        setup = {file.blob: names[file.path] for file in every if file.path in names}
        texts = {setup[blob]: text for blob, text in self._trees.contents(setup)}
        where = {file: installed.where_installed(file.path, root) for file in files}
        there = {
            file: tree / path
            for file, path in where.items()
            if path is not None and (tree / path).is_file()
        }
        blobs = dict(self._trees.contents({file.blob for file in there}))
        manifest = Manifest(
            sha=commit.sha,
            root=root,
            files={file.path: file for file in files},
            installed={
                file.path: path.read_bytes() == blobs[file.blob] for file, path in there.items()
            },
            packages=packages.read_rule(texts, root),
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

    def _builders(self) -> list[Builder]:
        """Those that may build side by side, at paths that never change."""
        assert self._recipe is not None
        home = self._store.root / "builders" / self._recipe.builder_name(self._target())
        homes = [home, *(home.with_name(f"{home.name}-{n}") for n in range(2, MOST_BUILDERS + 1))]
        return [
            Builder(each, self._recipe, self._is_python) for each in homes[: self._recipe.builders]
        ]

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
