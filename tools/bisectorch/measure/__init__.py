"""Measuring: runs of builds, interleaved on one core, and what their noise allows to say."""

from bisectorch.measure.counts import CountingMeasurer
from bisectorch.measure.paired import PairedMeasurer

__all__ = ["CountingMeasurer", "PairedMeasurer"]
