"""Why two builds differ: what they execute, what it costs, and what of it changed."""

from bisectorch.explain.explainer import MOST_PAIRS, ProfilingExplainer

__all__ = ["MOST_PAIRS", "ProfilingExplainer"]
