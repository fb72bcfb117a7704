"""What one commit does to the tracked files: small edits of a tree that is held in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Protocol

Tree = dict[str, str]


class Edit(Protocol):
    """One change to a tree of path -> text."""

    def apply(self, tree: Tree, before: Mapping[str, Mapping[str, str]]) -> None:
        """Change ``tree`` in place; ``before`` holds each earlier label's parent tree."""


@dataclass(frozen=True)
class Put:
    """A file as it stands under ``states/``, whole."""

    path: str
    state: str

    def apply(self, tree: Tree, before: Mapping[str, Mapping[str, str]]) -> None:
        """Add the file."""
        source = resources.files(__package__) / "states" / f"{self.state}.txt"
        tree[self.path] = source.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Append:
    """Text at the end of a file, which is made where it is missing."""

    path: str
    text: str

    def apply(self, tree: Tree, before: Mapping[str, Mapping[str, str]]) -> None:
        """Lengthen the file."""
        tree[self.path] = tree.get(self.path, "") + self.text


@dataclass(frozen=True)
class Replace:
    """One passage of a file by another; the old one must occur exactly once."""

    path: str
    old: str
    new: str

    def apply(self, tree: Tree, before: Mapping[str, Mapping[str, str]]) -> None:
        """Change the passage."""
        text = tree[self.path]
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path}: not exactly one {self.old!r}")
        tree[self.path] = text.replace(self.old, self.new)


@dataclass(frozen=True)
class Delete:
    """A file that goes."""

    path: str

    def apply(self, tree: Tree, before: Mapping[str, Mapping[str, str]]) -> None:
        """Remove the file."""
        del tree[self.path]


@dataclass(frozen=True)
class Undo:
    """A file as it was before an earlier commit."""

    path: str
    label: str

    def apply(self, tree: Tree, before: Mapping[str, Mapping[str, str]]) -> None:
        """Restore the file."""
        tree[self.path] = before[self.label][self.path]
