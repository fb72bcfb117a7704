"""What autograd adds to one small operation: 100,000 calls of ``addmm`` and of ``add``.

In the account of 2017 a "Variable" was another type than a tensor; today it is a tensor that
asks for its gradient. The operands are rows of 52, the width of the sequence labeler's layers.
"""

import torch

from . import compat

CALLS = 100000
WIDTH = 52

VARIANTS = (
    "addmm tensors",
    "addmm variables",
    "add tensors",
    "add variables",
    "add variables (Python function)",
    "add variables (C++ function)",
)


class Overhead(object):
    """Two rows and a matrix, and the one operation that a variant repeats."""

    def __init__(self, variant, device="cpu"):
        compat.start()
        made = [torch.randn(*shape) for shape in ((1, WIDTH), (1, WIDTH), (WIDTH, WIDTH))]
        operands = [compat.to(device, tensor) for tensor in made]
        if "variables" in variant:
            operands = [compat.variable(tensor, True) for tensor in operands]
        self.row, self.other, self.matrix = operands
        self.synchronize = compat.synchronizer(device)
        self.run = self._add
        self.added = None
        if variant.startswith("addmm"):
            self.run = self._addmm
        elif "Python" in variant:
            self.added = compat.added_in_python()
            self.run = self._function
        elif "C++" in variant:
            self.added = compat.added_in_cpp()
            self.run = self._function
        self._check(made, device)

    def _check(self, made, device):
        """Once: the operation gives what it should, whichever way it is written."""
        row, other, matrix = made
        wanted = row.add(torch.mm(other, matrix)) if self.run == self._addmm else row.add(other)
        output = self.run(1)
        output = getattr(output, "data", output)
        difference = float((output.cpu() - wanted).abs().max())
        if not difference < 1e-3:
            raise ValueError("the result is off by %r: this build computes wrong" % difference)
        if self.synchronize is not None:
            self.synchronize()

    def _addmm(self, calls):
        row, other, matrix = self.row, self.other, self.matrix
        output = None
        for _ in range(calls):
            output = row.addmm(other, matrix)
        return self._end(output)

    def _add(self, calls):
        row, other = self.row, self.other
        output = None
        for _ in range(calls):
            output = row.add(other)
        return self._end(output)

    def _function(self, calls):
        added, row, other = self.added, self.row, self.other
        output = None
        for _ in range(calls):
            output = added(row, other)
        return self._end(output)

    def _end(self, output):
        if self.synchronize is not None:
            self.synchronize()
        return output
