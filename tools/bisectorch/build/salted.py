"""One commit built again in another layout: the same code, lying elsewhere.

Where compiled code lies moves its time by a percent or more (Mytkowicz et al., "Producing wrong
data without doing anything obviously wrong!", ASPLOS 2009). A salted build links an object of
padding before all others, whose size follows from the salt, so all code after it moves. Compiling
is ccache's to spare: only what is linked differs.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bisectorch.build.source import Builder, Recipe
from bisectorch.errors import EnvironmentFailure, Unbuildable
from bisectorch.model import TreeFile

MOST_PADDING_BYTES = 4096
ALIGNMENT_BYTES = 16
"""What compilers align functions to: a shift by less would be made up for."""


class SaltedBuilder:
    """Builds commits from nothing in layouts that follow from salts; beside the usual builder.

    It has a checkout of its own, so that nothing salted is ever built upon.

    Args:
        home: its directory, in the store.
        recipe: the usual recipe.
        is_python: whether a path is installed as it is.
    """

    def __init__(self, home: Path, recipe: Recipe, is_python: Callable[[str], bool]) -> None:
        self._home = home
        self._pad = home / "salt" / "pad.o"
        given = {**os.environ, **recipe.variables}
        flags = f"{shlex.quote(str(self._pad))} {given.get('LDFLAGS', '')}".strip()
        self._compiler = shlex.split(given.get("CC") or "cc")
        self._recipe = replace(recipe, variables={**recipe.variables, "LDFLAGS": flags})
        self._builder = Builder(home, self._recipe, is_python)

    def build(
        self,
        salt: int,
        sha: str,
        files: Sequence[TreeFile],
        tree: Path,
        log_path: Path,
        say: Callable[[str], None],
    ) -> None:
        """Build one commit in the layout of ``salt`` into the empty directory ``tree``.

        Raises Unbuildable as Builder.build does, and EnvironmentFailure without a compiler.
        """
        self._make_pad(padding_bytes(salt))
        # A builder that knows of nothing it made begins from nothing.
        (self._home / "state.json").unlink(missing_ok=True)
        self._builder.build(sha, files, tree, log_path, say)

    def _make_pad(self, size: int) -> None:
        self._pad.parent.mkdir(parents=True, exist_ok=True)
        source = self._pad.with_suffix(".c")
        source.write_text(
            f'__asm__(".text\\n\\t.balign {ALIGNMENT_BYTES}\\n\\t.skip {size}, 0x90\\n");\n',
            "utf-8",
        )
        command = [*self._compiler, "-c", "-fPIC", "-o", str(self._pad), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, check=False, text=True)
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot start the compiler {command[0]}: {error.strerror or error}"
            ) from error
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise Unbuildable(
                f"the padding of a salted build cannot be compiled: {said[-1] if said else ''}"
            )


def padding_bytes(salt: int) -> int:
    """How far a salt moves the code: a multiple of the alignment, up to a page."""
    digest = hashlib.sha256(f"salt {salt}".encode()).digest()
    places = MOST_PADDING_BYTES // ALIGNMENT_BYTES
    return ALIGNMENT_BYTES * (1 + int.from_bytes(digest[:8], "big") % places)


def salted_key(salt: int, sha: str, key: str) -> str:
    """The store's key of a commit's build in the layout of ``salt``; ``key`` is its native key.

    Commits that share their native files do not share such a build, which holds all files.
    """
    return hashlib.sha256(f"salted {salt} {padding_bytes(salt)} {sha} {key}".encode()).hexdigest()


def facts(salt: int, sha: str) -> Mapping[str, object]:
    """What the stamp of a salted build says."""
    return {"kind": "salted", "what": sha, "salt": salt}
