"""Measuring: runs of builds, interleaved on one core, and what their noise allows to say."""

from bisectorch.measure.paired import PairedMeasurer

__all__ = ["PairedMeasurer"]
