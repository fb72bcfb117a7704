"""Reads what DyNet's profiler prints."""

from __future__ import annotations

import re

_LINE = re.compile(r"^\s*([\d.eE+-]+)\s+[\d.eE+-]+%\s+BWD (.*)$")

NODES = (
    ("concat", "Concatenate"),
    ("tanh", "Tanh"),
    ("|| a - a ||^2", "SquaredEuclideanDistance"),
    ("a \\cdot a", "CwiseMultiply"),
    ("\\sigma(a)", "LogisticSigmoid"),
    ("ReLU", "Rectify"),
    ("pick_batch_elems", "PickBatchElements"),
    ("1 - a", "ConstantMinus"),
    ("a + a *", "AffineTransform"),
    ("a + a", "Sum"),
    ("lookup_parameters", "Lookup"),
    ("parameters", "Parameters"),
    ("constant", "Input"),
)
"""How it begins a node's name -> the node's class, as the account names it; the first counts."""


def backward_seconds(printed: str) -> dict[str, float]:
    """Class of node -> seconds of its backward calls; the profiler writes milliseconds."""
    found: dict[str, float] = {}
    for line in printed.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name = next((name for begin, name in NODES if match[2].startswith(begin)), match[2])
        found[name] = found.get(name, 0.0) + float(match[1]) / 1e3
    return found
