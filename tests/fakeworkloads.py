"""Benchmarks without torch: the children of the tables run them under any interpreter."""

from __future__ import annotations

from pathlib import Path

COMPAT = """
def scalar(loss):
    return loss

def check_finite(name, numbers):
    for number in numbers:
        if number != number:
            raise ValueError("%s is %r: this build computes wrong results" % (name, number))

def profiled(work, backward_only=False):
    work()
    return {"aten::convolution": (8, 0.5, 0.25), "aten::embedding_dense_backward": (1, 0.01, 0.01),
            "aten::norm": (25, 0.02, 0.02)}
"""

LABELER = """
LOSS = 2.0

class Tensor:
    data = property(lambda self: self)
    def numel(self):
        return 43351

class Training:
    def __init__(self, labels=32, rate=0.01):
        self.data = [([1] * 20, [1] * 20)] * 50
        self.model = self
    def parameters(self):
        return [Tensor()]
    def run(self, epochs=1, stage="total", minibatches=None):
        return [3.0, LOSS] if stage in ("loss", "forward", "total") else [None]

def check_once():
    pass

def backward_seconds():
    return {"AddmmBackward": ("AddmmBackward0", 10, 0.5), "NewBackward": ("NewBackward0", 1, 0.1)}
"""

LINEAR = """
class Chain:
    def backward(self):
        pass
"""

OVERHEAD = """
CALLS = 100000
VARIANTS = ("addmm tensors", "addmm variables", "add tensors", "add variables",
            "add variables (Python function)", "add variables (C++ function)")

class Overhead:
    def __init__(self, variant):
        if "C++" in variant:
            raise NotImplementedError("no C++ compiler is found as 'c++': install one (g++)")
    def run(self, calls):
        sum(range(calls))
"""

CHARACTERS = """
PARAMETERS = dict.fromkeys(["tcn", "lstm", "transformer", "tcn without transposes",
                            "tcn of half the depth"], 100)

class Training:
    def __init__(self, name, time, device):
        if device != "cpu":
            raise NotImplementedError("this machine has no GPU that its torch can use")
        if name == "transformer":
            raise NotImplementedError("this torch has no nn.LayerNorm: it came with 0.4")
        if name == "lstm":
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB\\nmore")
    def check(self, steps):
        return [3.9, 3.8]
    def run(self, steps):
        return [3.7] * steps

def layers(name):
    return [("embedding", 4900), ("network", 2217050), ("decoder", 4949)]
"""

MODULES = {
    "compat": COMPAT,
    "sequence_labeler": LABELER,
    "linear": LINEAR,
    "autograd_overhead": OVERHEAD,
    "char_lm": CHARACTERS,
    "labeler_data": "",
    "text": "",
}


def write(folder: Path, **changes: str) -> Path:
    """A benchmarks folder below ``folder``; ``changes`` replace modules by name."""
    benchmarks = folder / "benchmarks"
    (benchmarks / "workloads").mkdir(parents=True)
    (benchmarks / "__init__.py").write_text("")
    (benchmarks / "workloads" / "__init__.py").write_text("")
    for name, text in {**MODULES, **changes}.items():
        (benchmarks / "workloads" / f"{name}.py").write_text(text)
    return benchmarks
