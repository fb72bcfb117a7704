"""The search: beliefs about levels, the choice of the next probe, and the verdicts. Pure."""

from bisectorch.search.searcher import BayesSearcher

__all__ = ["BayesSearcher"]
