"""The kept checkout: one work tree, moved from commit to commit without losing what was built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bisectorch.build.process import CappedLog
from bisectorch.errors import EnvironmentFailure, Unbuildable

MOST_SECONDS = 3600.0
"""How long one git command may take; a first fetch of PyTorch's submodules takes minutes."""

_OURS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
"""Variables that would lead git elsewhere than where it is sent."""

_AS_COMMITTED = (
    *("-c", "core.autocrlf=false"),
    *("-c", "core.eol=lf"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "gc.auto=0"),
)

_INCOMPLETE = re.compile(r"unable to read|missing|bad object|corrupt|loose object|not a tree")
_PACKED = ("build/lib.*", "build/bdist.*", "*.egg-info", "dist")
"""What packaging leaves behind and would pack again, files of other commits included."""


class NotFetched(Unbuildable):
    """A commit's files are out of reach, perhaps only now: not to be remembered."""


class Checkout:
    """A work tree of a repository, always at the same path.

    Args:
        path: where it lies; made when it is first moved.
        repository: where its objects come from; they are shared, not copied.
        log: takes what git says.
    """

    def __init__(self, path: Path, repository: Path, log: CappedLog) -> None:
        self.path = path
        self._repository = repository
        self._log = log

    @property
    def exists(self) -> bool:
        """Whether it was made."""
        return (self.path / ".git").is_dir()

    def move(self, sha: str, links: Mapping[str, str], known_links: Mapping[str, str]) -> None:
        """Check ``sha`` out, without cleaning, and bring changed submodules along.

        Args:
            sha: the commit.
            links: its submodules, path to object name.
            known_links: the submodules as they were left.

        Raises:
            Unbuildable: git cannot check it out, or a submodule cannot be fetched.
            EnvironmentFailure: the repository lacks objects of it.
        """
        # We are alone here: whoever left this was killed.
        (self.path / ".git" / "index.lock").unlink(missing_ok=True)
        if not self.exists or self._git("cat-file", "-e", f"{sha}^{{commit}}")[0]:
            # Also when the repository moved, whose objects it shares.
            self._clone()
        for path in known_links.keys() - links.keys():
            self._git("submodule", "deinit", "--force", "--", path)
            shutil.rmtree(self.path / path, ignore_errors=True)
        status, said = self._git("checkout", "--quiet", "--force", "--detach", sha)
        if status and _INCOMPLETE.search(said):
            raise EnvironmentFailure(
                f"git cannot check out {sha[:10]}, because {self._repository} is incomplete: {said}"
            )
        if status:
            raise NotFetched(f"git cannot check out {sha[:10]}: {said}")
        changed = [path for path, link in links.items() if known_links.get(path) != link]
        if changed:
            self._git("submodule", "--quiet", "sync", "--recursive", "--", *changed)
            update = ("submodule", "--quiet", "update", "--init", "--recursive", "--force", "--")
            status, said = self._git(*update, *changed)
            if status:
                raise NotFetched(f"a submodule of {sha[:10]} cannot be fetched: {said}")

    def clean(self) -> None:
        """Remove everything that git does not track, submodules included."""
        self._git("clean", "-ffdxq")
        everywhere = "git clean -ffdxq && git reset -q --hard"
        self._git("submodule", "--quiet", "foreach", "--recursive", everywhere)

    def forget_packed(self, is_python: Callable[[str], bool]) -> None:
        """Remove what other commits left behind and packaging would take for this one's.

        That is the copies that packaging makes, and untracked files of the kind that is installed
        as it is: the build makes its generated ones again, and nobody would make the others.
        Compiled files stay; whether they are still good is the build's to say.
        """
        for pattern in _PACKED:
            for found in self.path.glob(pattern):
                _remove(found)
        if not (self.path / "build" / "CMakeCache.txt").exists():
            # CMake links there; packaging copies there where nothing is compiled.
            _remove(self.path / "build" / "lib")
        listed = self._output("ls-files", "--others", "-z")
        for name in listed.split(b"\0"):
            path = os.fsdecode(name)
            if path and not path.startswith("build/") and is_python(path):
                (self.path / path).unlink(missing_ok=True)

    def _clone(self) -> None:
        _remove(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        source = os.fspath(self._repository)
        command = ("clone", "--quiet", "--no-checkout", "--shared", source, os.fspath(self.path))
        status, said = self._git(*command, where=self.path.parent)
        if status:
            raise EnvironmentFailure(f"git cannot clone {source}: {said}")
        # Relative submodules are relative to where the repository itself came from.
        origin = self._output("-C", source, "config", "--get", "remote.origin.url").strip()
        if origin:
            self._git("config", "remote.origin.url", os.fsdecode(origin))

    def _git(self, *arguments: str, where: Path | None = None) -> tuple[int, str]:
        """Status, and the line that says what went wrong."""
        done = self._start(arguments, where)
        self._log.write(done.stdout + done.stderr)
        lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines()]
        telling = [line for line in lines if line.startswith(("fatal:", "error:"))]
        return done.returncode, (telling or [line for line in lines if line] or ["no message"])[0]

    def _output(self, *arguments: str) -> bytes:
        return self._start(arguments, None).stdout

    def _start(
        self, arguments: Sequence[str], where: Path | None
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {name: value for name, value in os.environ.items() if name not in _OURS}
        # A repository behind a login must fail, not wait for somebody to type.
        environment.setdefault("GIT_TERMINAL_PROMPT", "0")
        try:
            return subprocess.run(
                ["git", *_AS_COMMITTED, *arguments],
                cwd=where or self.path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise NotFetched(
                f"git {arguments[0]} took more than {MOST_SECONDS / 3600:g} h: "
                "is the network or a submodule's server in the way?"
            ) from error
        except FileNotFoundError as error:
            raise EnvironmentFailure(
                "git was not found: install it, or put it on the PATH"
            ) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
