"""``--sandbox``: code of the history runs under bubblewrap, without network, on read-only files.

That is what a build's commands run, the listing of benchmarks, and every measuring process. What
Bisectorch itself runs (git, pip for requirements) does not: it needs both.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bisectorch.errors import EnvironmentFailure

PROGRAM = "bwrap"


def confined(writable: Sequence[Path | str]) -> list[str]:
    """The words before a command that confine it; only these directories may be written."""
    words = [PROGRAM, "--ro-bind", "/", "/", "--dev", "/dev"]
    for directory in dict.fromkeys(map(str, writable)):
        words += ["--bind-try", directory, directory]
    if writable:
        words += ["--setenv", "TMPDIR", str(writable[0])]
    # Not --unshare-pid: the tracker looks after its workers by their numbers.
    return [*words, "--unshare-net", "--unshare-ipc", "--die-with-parent", "--"]


def confined_python(python: str, folder: Path) -> Path:
    """A program that runs ``python`` confined to the directory it is started in.

    Written into ``folder``; EnvironmentFailure where that cannot be.
    """
    words = " ".join(map(shlex.quote, confined([])[:-1]))
    # A measurer's directories lie in one of its own, and its processes' copies use several.
    script = (
        "#!/bin/sh\n"
        'own=$(dirname "$PWD")\n'
        'case "$own" in */bisectorch-*) ;; *) own=$PWD ;; esac\n'
        f'exec {words} --bind "$own" "$own" --setenv TMPDIR "$PWD" -- {shlex.quote(python)} "$@"\n'
    )
    path = folder / "python-in-sandbox"
    half = folder / "python-in-sandbox.half"
    try:
        half.write_text(script, "utf-8")
        half.chmod(0o755)
        half.replace(path)
    except OSError as error:
        raise EnvironmentFailure(f"{path} cannot be written: {error.strerror}") from error
    return path


def refuse_without() -> None:
    """EnvironmentFailure, one line, where no sandbox can be made."""
    if shutil.which(PROGRAM) is None:
        raise EnvironmentFailure(
            "--sandbox needs bubblewrap (bwrap): install it, or leave --sandbox out"
        )
    done = subprocess.run([*confined([]), "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise EnvironmentFailure(f"--sandbox: bubblewrap cannot make a sandbox here: {said[-1]}")
