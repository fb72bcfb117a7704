"""The embedded default history: a re-enactment over an installed torch wheel."""

from bisectorch.replay.write import write_replay

__all__ = ["write_replay"]
