"""Why two builds differ: what they execute, what it costs, and what of it changed."""

from bisectorch.explain.explainer import ProfilingExplainer

__all__ = ["ProfilingExplainer"]
