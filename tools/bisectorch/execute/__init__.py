"""Where builds are made."""

from bisectorch.execute.dask import DaskExecutor, connect
from bisectorch.execute.local import LocalExecutor

__all__ = ["DaskExecutor", "LocalExecutor", "connect"]
