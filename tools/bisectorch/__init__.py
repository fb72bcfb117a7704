"""Bisectorch: find every commit that changed performance, and be right about it."""

__version__ = "0.1.0"
