"""What the user knows beforehand: a weight for each commit, from a file or a command."""

from __future__ import annotations

import re
import shlex
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bisectorch.errors import UsageError
from bisectorch.model import CommitRange

FEWEST_DIGITS = 7
"""Of an abbreviated sha, as git itself abbreviates."""

_SHA = re.compile(rf"[0-9a-f]{{{FEWEST_DIGITS},64}}", re.IGNORECASE)


def with_priors(commits: CommitRange, source: str | None) -> CommitRange:
    """The range with the priors of ``source``: a file, or else a command; None changes nothing.

    Raises UsageError, in one line, for what cannot be read, or names no commit of the range.
    """
    if source is None:
        return commits
    shas = [commit.sha for commit in commits.line]
    priors = read_priors(_text(source, shas), shas, source)
    return replace(
        commits, line=tuple(replace(c, prior=priors.get(c.sha, c.prior)) for c in commits.line)
    )


def read_priors(text: str, shas: Sequence[str], source: str) -> dict[str, float]:
    """The weights by full sha, from lines ``SHA WEIGHT``; ``#`` begins a comment.

    Raises UsageError that names ``source`` and the line: not of this form, a weight out of range,
    a commit that is not among ``shas``, that is ambiguous or named twice; or no line at all.
    """
    priors: dict[str, float] = {}
    strangers: list[str] = []
    ordered = sorted(shas)
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"--prior {source}, line {number}"
        if len(words) != 2 or not _SHA.fullmatch(words[0]):
            raise UsageError(
                f"{where}: write SHA WEIGHT, with {FEWEST_DIGITS} digits of the sha or more, "
                f"not {line.strip()[:80]!r}"
            )
        weight = _weight(words[1], where)
        begins = words[0].lower()
        at = bisect_left(ordered, begins)
        found = [sha for sha in ordered[at : at + 2] if sha.startswith(begins)]
        if len(found) > 1:
            raise UsageError(f"{where}: {words[0]} is ambiguous; give more digits")
        if not found:
            strangers.append(f"{where}: {words[0]} is no commit of the range; take the line out")
        elif priors.setdefault(found[0], weight) != weight:
            raise UsageError(f"{where}: {words[0]} was given another weight before; keep one")
    if not priors:
        raise UsageError(
            f"--prior {source} names no commit of the range; it needs lines like "
            f"{shas[-1][:10]} 0.1"
        )
    if strangers:
        raise UsageError(strangers[0])
    return priors


def _weight(word: str, where: str) -> float:
    try:
        weight = float(word)
    except ValueError:
        weight = -1.0
    if not 0 < weight <= 1:
        raise UsageError(f"{where}: the weight must be above 0 and at most 1, not {word!r}")
    return weight


def _text(source: str, shas: Sequence[str]) -> str:
    path = Path(source)
    try:
        if path.is_file():
            return path.read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"--prior {source} cannot be read: {error.strerror}") from error
    try:
        command = shlex.split(source)
    except ValueError as error:
        raise UsageError(f"--prior {source} is no command: {error}") from error
    if not command:
        raise UsageError("--prior needs a file or a command")
    return _output(command, source, shas)


def _output(command: Sequence[str], source: str, shas: Sequence[str]) -> str:
    """What the command prints, given the shas; no shell has a say in it."""
    try:
        done = subprocess.run(
            command,
            input="".join(f"{sha}\n" for sha in shas),
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--prior {source} is neither a file nor a command: {why}") from error
    if done.returncode:
        said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
        raise UsageError(
            f"--prior {source} failed with exit code {done.returncode}"
            + (f": {said.strip()[:200]}" if said else "")
        )
    return done.stdout
