"""The story as a git repository whose object names are equal on every machine.

``git fast-import`` writes exactly the bytes it is given, so nothing of the user's configuration,
clock or name enters. Object names need SHA-1 objects, whatever the user's git prefers.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisectorch.errors import EnvironmentFailure
from bisectorch.replay.edits import Tree
from bisectorch.replay.story import Step

AUTHORS = ("Ada Replay", "Ben Replay", "Cleo Replay")
START_SECONDS = 1_493_625_600  # 2017-05-01 08:00 UTC
INTERVAL_SECONDS = 4 * 86_400 + 5_400


@dataclass(frozen=True)
class Node:
    """One commit to be written: its step, the labels of its parents, and its whole tree."""

    step: Step
    parents: tuple[str, ...]
    tree: Mapping[str, str]


def nodes(line: Sequence[Step]) -> Iterator[Node]:
    """The story's commits in the order of writing: a side branch just before its merge."""
    trees: dict[str, Tree] = {"": {}}
    before: dict[str, Tree] = {}

    def follow(step: Step, parent: str, extra: tuple[str, ...] = ()) -> Node:
        tree = dict(trees[parent])
        before[step.label] = dict(tree)
        for other in extra:
            tree.update(_brought(trees[step.fork], trees[other], tree))
        for edit in step.edits:
            edit.apply(tree, before)
        trees[step.label] = tree
        return Node(step, ((parent,) if parent else ()) + extra, tree)

    parent = ""
    for step in line:
        tip = step.fork
        for part in step.side:
            yield follow(part, tip)
            tip = part.label
        yield follow(step, parent, (tip,) if step.side else ())
        parent = step.label


def _brought(base: Mapping[str, str], side: Mapping[str, str], line: Mapping[str, str]) -> Tree:
    """The files that a side branch changed since ``base``, and the line did not."""
    changed = {path: text for path, text in side.items() if base.get(path) != text}
    if base.keys() - side.keys() or any(base.get(path) != line.get(path) for path in changed):
        raise ValueError("a side branch may only change files that the line leaves alone")
    return changed


def write_repository(repository: Path, line: Sequence[Step]) -> dict[str, str]:
    """Write ``line`` as branch main of a new repository; label -> full object name.

    Raises:
        EnvironmentFailure: git is missing, or refuses.
    """
    repository.mkdir(parents=True)
    marks = repository / ".git" / "replay-marks"
    _git(repository, "init", "--quiet", "--template=")
    stream = b"".join(_stream(list(nodes(line))))
    _git(repository, "fast-import", "--quiet", f"--export-marks={marks}", stdin=stream)
    _git(repository, "symbolic-ref", "HEAD", "refs/heads/main")
    _git(repository, "reset", "--quiet", "--hard", "main")
    numbers = dict(row.split() for row in marks.read_text(encoding="ascii").splitlines())
    marks.unlink()
    return {node.step.label: numbers[f":{i}"] for i, node in enumerate(nodes(line), start=1)}


def tip(repository: Path) -> str | None:
    """The object name of main, or None when this is no repository that has one."""
    if not (repository / ".git").is_dir():
        return None
    try:
        return _git(repository, "rev-parse", "--verify", "refs/heads/main^{commit}").strip()
    except EnvironmentFailure:
        return None


def _stream(written: Sequence[Node]) -> Iterator[bytes]:
    """``written`` in the input format of git fast-import; the mark is the position from 1."""
    mark = {node.step.label: position for position, node in enumerate(written, start=1)}
    tree = {node.step.label: node.tree for node in written}
    yield b"feature done\n"
    for position, node in enumerate(written):
        seconds = START_SECONDS + position * INTERVAL_SECONDS
        name = AUTHORS[position % len(AUTHORS)]
        who = f"{name} <{name.split()[0].lower()}@replay.invalid> {seconds} +0000"
        body = f"\n{node.step.body}\n" if node.step.body else ""
        # One branch a commit would litter the repository; a side branch lives in its merge only.
        yield f"commit refs/heads/main\nmark :{mark[node.step.label]}\n".encode()
        yield f"author {who}\ncommitter {who}\n".encode()
        yield _data(f"{node.step.subject}\n{body}")
        if node.parents:
            yield f"from :{mark[node.parents[0]]}\n".encode()
        for other in node.parents[1:]:
            yield f"merge :{mark[other]}\n".encode()
        old = tree[node.parents[0]] if node.parents else {}
        for path in sorted(old.keys() - node.tree.keys()):
            yield f"D {path}\n".encode()
        for path, text in sorted(node.tree.items()):
            if old.get(path) != text:
                yield f"M 100644 inline {path}\n".encode() + _data(text)
        yield b"\n"
    yield b"done\n"


def _data(text: str) -> bytes:
    raw = text.encode()
    return f"data {len(raw)}\n".encode() + raw + b"\n"


def _git(repository: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run git there, blind to the user's configuration and to inherited GIT_* variables."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_DEFAULT_REF_FORMAT": "files",
        "GIT_DIR": str(repository / ".git"),
        "GIT_WORK_TREE": str(repository),
        # Before git 2.32 only an empty home keeps the user's configuration out.
        "HOME": str(repository),
        "XDG_CONFIG_HOME": str(repository),
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=repository, env=environment, input=stdin, capture_output=True
        )
    except FileNotFoundError:
        raise EnvironmentFailure("git is not on PATH: install git to write the replay") from None
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise EnvironmentFailure(f"git {arguments[0]} failed in {repository}: {message}")
    return done.stdout.decode()
