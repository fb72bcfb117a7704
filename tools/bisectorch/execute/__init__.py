"""Where builds are made."""

from bisectorch.execute.local import LocalExecutor

__all__ = ["LocalExecutor"]
