"""The history room: from a range as the user writes it to commits with classes and fingerprints."""

from bisectorch.history.classes import PRESETS, PathClasses
from bisectorch.history.releases import ReleaseHistory
from bisectorch.history.repository import GitHistory
from bisectorch.history.worktree import WorkingTree, capture

__all__ = [
    "PRESETS",
    "GitHistory",
    "PathClasses",
    "ReleaseHistory",
    "WorkingTree",
    "capture",
]
