"""The environment type ``bisectorch``: requirements in a venv, the project in immutable trees.

asv keeps one prefix an environment and installs every commit into it anew. Here the venv holds
requirements only, and to install a commit is to select its tree: runs get it as their path.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import filelock
from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable

from bisectorch.asv_plugin.interpreters import VERSION, find_python
from bisectorch.asv_plugin.sandbox import confined, confined_python
from bisectorch.asv_plugin.settings import Settings, SourceSettings
from bisectorch.build import MOST_BUILDERS, Ladder, Places, Recipe, Step, Store
from bisectorch.build.source import DEFAULT_COMMAND
from bisectorch.errors import BisectorchError, EnvironmentFailure, Unbuildable
from bisectorch.history import GitHistory


class Refusal(util.UserError, EnvironmentFailure):  # type: ignore[misc]
    """One of our faults in a form that asv, too, prints as one line."""

    def __init__(self, message: str, exit_code: int = EnvironmentFailure.exit_code) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Bisectorch(Environment):  # type: ignore[misc]
    """One interpreter with one set of requirements, on which any number of trees can run."""

    tool_name = "bisectorch"
    matches_python_fallback = False

    def __init__(
        self,
        conf: Any,
        python: str,
        requirements: dict[str, str],
        tagged_env_vars: dict[tuple[str, str], str],
    ) -> None:
        executable = find_python(python) if self.matches(python) else None
        if executable is None:
            raise EnvironmentUnavailable(
                f"no Python {python} found on the PATH, in pyenv or in uv: "
                "install it, or change pythons in asv.conf.json"
            )
        self._executable = executable
        self._python = python
        self._requirements = requirements
        self._listed = self._read_listed(conf)
        self._sandboxed = bool(getattr(conf, "bisectorch_sandbox", False))
        self._ladders: dict[str, tuple[GitHistory, Ladder]] = {}
        super().__init__(conf, python, requirements, tagged_env_vars)
        self._base_requirements = self._own_requirements()
        # asv may select a commit in a worker process (-j) and run it in this one: the selection
        # is a file that both find, named after this process so that no other asv shares it.
        self._selection_file = Path(self._path) / f"selected-{os.getpid()}-{self.hashname}.json"

    def __getstate__(self) -> dict[str, Any]:
        """Without the ladders, which hold locks: a worker process makes its own."""
        return {**self.__dict__, "_ladders": {}}

    @classmethod
    def matches(cls, python: str) -> bool:
        """Whether ``python`` is a version such as ``3.11``."""
        return VERSION.fullmatch(python) is not None

    @staticmethod
    def _read_listed(conf: Any) -> tuple[str, ...]:
        """Our own setting, before asv has us make anything; a fault in it is told later."""
        try:
            return Settings.from_conf(conf).requirements
        except BisectorchError:
            return ()

    @property
    def dir_name(self) -> str:
        """asv's, and another one for other requirements of ours."""
        name = str(super().dir_name)
        if not self._listed:
            return name
        return hashlib.md5("\0".join([name, *self._listed]).encode()).hexdigest()

    @property
    def python_executable(self) -> str:
        """The venv's interpreter; it exists once ``create()`` has run."""
        return str(Path(self._path) / "bin" / "python")

    @property
    def installed_commit_hash(self) -> str | None:
        """The selected commit."""
        return self._selection().get("commit")

    def ladder(
        self,
        conf: Any,
        repo: Any,
        say: Callable[[str], None] = lambda line: None,
        *,
        quotes_only: bool = False,
    ) -> Ladder:
        """The builds of ``repo``'s commits for this environment.

        It must have been created, unless the ladder is asked for ``quotes_only``: these are the
        same by the interpreter that it is made of. ``say`` is told, one line each, about work
        that takes long. Raises our own errors for settings that cannot be used.
        """
        python = str(self._executable) if quotes_only else self.python_executable
        return self._history_and_ladder(conf, repo, say, python)[1]

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """Select the commit's tree, making it if need be; nothing goes into the venv.

        Raises util.ProcessError when this commit cannot be built (asv notes it and goes on) and
        util.UserError when the machine or the configuration stands in the way.
        """
        self._select(None)
        try:
            if repo._path not in self._ladders:
                self._ladders[repo._path] = self._history_and_ladder(conf, repo, log.warning)
            history, ladder = self._ladders[repo._path]
            # asv runs one commit at a time: only that one is held.
            ladder.release()
            build = ladder.provide(history.commit(commit_hash))
        except Unbuildable as error:
            log.error(f"{commit_hash[:8]} cannot be built: {error.reason}")
            raise util.ProcessError([self.tool_name, commit_hash], 1, "", error.reason) from error
        except BisectorchError as error:
            raise Refusal(str(error), error.exit_code) from error
        try:
            self._select({"commit": commit_hash, "tree": build.tree})
        except OSError as error:
            raise Refusal(f"cannot write in {self._path}: {error.strerror}") from error

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run the venv's interpreter with the selected tree on its path."""
        log.debug(f"Running '{' '.join(args)}' in {self.name}")
        return self.run_executable("python", args, **kwargs)

    def run_executable(self, executable: str, args: list[str], **kwargs: Any) -> Any:
        """Run one of the venv's programs, with the selected tree first on the path.

        asv hands ASV_PYTHONPATH on as PYTHONPATH alone, which its benchmark script then takes
        back out of sys.path. Both variables must reach the child, so this does all of it.
        """
        env = {**kwargs.pop("env", os.environ), **self._global_env_vars, "PIP_USER": "false"}
        env["PATH"] = os.pathsep.join(
            [str(Path(self._path) / "bin"), *filter(None, [env.get("PATH")])]
        )
        selection = self._selection()
        paths = [*filter(None, [selection.get("tree"), env.get("ASV_PYTHONPATH")])]
        for variable in ("PYTHONPATH", "ASV_PYTHONPATH"):
            env.pop(variable, None)
            if paths:
                env[variable] = os.pathsep.join(paths)
        if selection:
            # Trees are shared and immutable; and they come compiled, so look there.
            env["PYTHONDONTWRITEBYTECODE"] = "1"
            env.pop("PYTHONPYCACHEPREFIX", None)
            env["ASV_COMMIT"] = selection["commit"]
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = self._install_timeout
        command = [self.find_executable(executable), *args]
        if self._sandboxed and selection:
            command = [*confined([kwargs.get("cwd") or Path.cwd()]), *command]
        return util.check_output(command, env=env, **kwargs)

    def _history_and_ladder(
        self, conf: Any, repo: Any, say: Callable[[str], None], python: str | None = None
    ) -> tuple[GitHistory, Ladder]:
        settings = Settings.from_conf(conf)
        history = GitHistory(Path(repo._path), settings.classes, conf.branches[0])
        ladder = Ladder(
            history,
            Store(settings.store, settings.most_bytes),
            python or self.python_executable,
            self.env_vars,
            settings.base_wheel,
            settings.classes.is_python,
            say,
            recipe=self._recipe(conf, Path(repo._path), settings.source),
            wheels=settings.wheels,
            tags_of=history.tags,
            runner=self._runner(conf),
            retry_failed=getattr(conf, "bisectorch_retry_failed", False),
        )
        return history, ladder

    def _runner(self, conf: Any) -> Path | None:
        if not self._sandboxed:
            return None
        return confined_python(self.python_executable, Path(self._path))

    def _recipe(self, conf: Any, repository: Path, source: SourceSettings | None) -> Recipe | None:
        """How this environment builds a commit: asv's build_command, and our settings."""
        if source is None:
            return None
        commands = conf.build_command or list(DEFAULT_COMMAND)
        commands = [commands] if isinstance(commands, str) else list(commands)
        builders = getattr(conf, "bisectorch_builders", 1)
        recipe = Recipe(
            repository=repository,
            python=self._executable,
            steps=functools.partial(self._steps, commands),
            text=tuple(commands),
            requirements=(
                *source.requirements,
                *self._listed,
                *self._declared_requirements(),
                # asv's own environments have it, so commands of asv's projects rely on it.
                *(["build"] if any("-m build" in command for command in commands) else []),
            ),
            pip_args=source.pip_args,
            variables=dict(self.build_env_vars),
            subdirectory=self._repo_subdir,
            root=source.root,
            smoke=source.smoke,
            timeout_seconds=source.timeout_seconds,
            memory_bytes=getattr(conf, "bisectorch_build_memory", None) or source.memory_bytes,
            builders=builders,
            confine=confined if self._sandboxed else lambda writable: (),
        )
        if source.jobs is not None:
            return replace(recipe, jobs=source.jobs)
        if builders < MOST_BUILDERS:  # else it is not known how many share this host
            return replace(recipe, jobs=max(1, recipe.jobs // builders))
        return recipe

    def _steps(self, commands: Sequence[str], places: Places) -> list[Step]:
        """asv's commands at these places, with asv's variables."""
        variables = {
            **self._global_env_vars,
            "ASV_BUILD_DIR": str(places.build_dir),
            "ASV_BUILD_CACHE_DIR": str(places.build_cache_dir),
            "ASV_ENV_DIR": str(places.env_dir),
            "ASV_COMMIT": places.commit,
        }
        names = {name[4:].lower(): value for name, value in variables.items() if name != "ASV"}
        steps = []
        for command in commands:
            words, environment, codes, cwd = util.interpolate_command(command, names)
            steps.append(
                Step(
                    command=tuple(words),
                    environment={**variables, **environment},
                    codes=None if codes is None else tuple(codes),
                    cwd=Path(cwd) if cwd else None,
                )
            )
        return steps

    def _declared_requirements(self) -> list[str]:
        """The matrix's requirements as pip is told them: a build may need what a run needs."""
        declared = []
        for key, value in sorted(self._requirements.items()):
            exact = "==" if value[:1].isdigit() else ""
            declared.append(f"{key.removeprefix('pip+')}{exact}{value}")
        return declared

    def _selection(self) -> dict[str, str]:
        try:
            selection: dict[str, str] = json.loads(self._selection_file.read_bytes())
        except (OSError, ValueError, AttributeError):
            return {}
        return selection

    def _select(self, selection: dict[str, str] | None) -> None:
        if selection is None:
            self._selection_file.unlink(missing_ok=True)
            return
        half = self._selection_file.with_suffix(".half")
        half.write_text(json.dumps(selection), "utf-8")
        half.replace(self._selection_file)

    def _own_requirements(self) -> dict[str, str]:
        """asv's runner at the version beside asv, and what it needs; nothing to build with."""
        wanted: dict[str, str] = {
            name: self._base_requirements[name]
            for name in ("pip+asv_runner", "pip+pympler")
            if name in self._base_requirements
        }
        if not wanted.get("pip+asv_runner"):
            wanted["pip+asv_runner"] = f"=={version('asv_runner')}"
        return wanted

    def _setup(self) -> None:
        log.info(f"Creating a virtual environment for {self.name}")
        try:
            util.check_output(
                [str(self._executable), "-m", "venv", self._path],
                timeout=self._install_timeout,
                display_error=False,
            )
        except util.ProcessError as error:
            lacks = "ensurepip" in f"{error.stdout}{error.stderr}"
            raise Refusal(
                f"Python {self._python} ({self._executable}) cannot make a virtual environment: "
                + ("install its venv and ensurepip modules" if lacks else _telling(error))
            ) from error
        log.info(f"Installing requirements for {self.name}")
        try:
            self._install_requirements()
        except util.ProcessError as error:
            raise Refusal(
                f"the requirements of {self.name} could not be installed: {_telling(error)}"
            ) from error

    def _install_requirements(self) -> None:
        wanted = {**self._base_requirements, **self._requirements}
        if self._is_older_than(3, 7):
            # asv_runner works on 3.6 but says 3.7, and the pip that comes with 3.6 cannot be
            # told to look past that; the newest importlib_metadata is a syntax error there.
            runner = f"asv_runner{wanted.pop('pip+asv_runner')}"
            self._pip(["install", "pip==21.3.1"])
            self._pip(["install", "--no-deps", "--ignore-requires-python", runner])
            self._pip(["install", "importlib_metadata==4.8.3"])
        for key, value in wanted.items():
            declaration = util.ParsedPipDeclaration(f"{key.removeprefix('pip+')} {value}")
            util.construct_pip_call(self._pip, declaration)()
        if self._listed:
            self._pip(["install", *self._listed])

    def _is_older_than(self, major: int, minor: int) -> bool:
        numbers = [int(each) for each in self._python.split(".")]
        return len(numbers) > 1 and numbers < [major, minor]

    def _pip(self, args: list[str], **kwargs: Any) -> Any:
        return self.run_executable("python", ["-m", "pip", *args], display_error=False, **kwargs)

    def create(self) -> None:
        """Make the venv unless it is there, and forget the selections of ended processes."""
        env_dir = Path(self._env_dir)
        env_dir.mkdir(parents=True, exist_ok=True)
        # Two sessions may start at once, and asv would remove what it finds half made.
        with filelock.FileLock(env_dir / f"{self.dir_name}.lock"):
            super().create()
        for old in Path(self._path).glob("selected-*-*.*"):
            owner = old.name.split("-")[1]
            if not Path("/proc", owner).exists():
                old.unlink(missing_ok=True)


def _telling(error: util.ProcessError) -> str:
    """The line of a failed program's output that says what went wrong."""
    lines = f"{error.stdout}\n{error.stderr}".splitlines()
    said = [line.strip() for line in lines if line.strip()] or [str(error)]
    return ([line for line in said if "ERROR" in line] or said)[-1]
