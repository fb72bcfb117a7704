"""``nn.Linear``: one small layer, and the chain of PyTorch issue 2560.

``backward`` takes its arguments by position: (gradient, keep the graph) has not changed since
0.1.12, while the second one's name has.
"""

import copy

import torch
from torch import nn

from . import compat


class Small(object):
    """One square layer on one batch; each method repeats one mode ``calls`` times."""

    def __init__(self, batch, features, device="cpu"):
        compat.start()
        self.layer = compat.to(device, nn.Linear(features, features))
        self.input = compat.variable(compat.to(device, torch.randn(batch, features)))
        self.gradient = compat.to(device, torch.ones(batch, features))
        self.output = self.layer(self.input)
        self.synchronize = compat.synchronizer(device)
        self._check()

    def towards_input(self):
        """The same layer on the same batch, which needs its gradient, too."""
        inward = copy.copy(self)
        inward.input = compat.variable(self.input.data, True)
        inward.output = self.layer(inward.input)
        return inward

    def _check(self):
        """Untimed: the output is the product and the sum that it should be."""
        product = torch.mm(self.input.data, self.layer.weight.data.t())
        wanted = product + self.layer.bias.data.unsqueeze(0).expand_as(product)
        difference = float((self.output.data - wanted).abs().max())
        if not difference < 1e-3:
            raise ValueError("nn.Linear is off by %r: this build computes wrong" % difference)

    def forward(self, calls):
        """Build the output and its graph."""
        layer, data = self.layer, self.input
        for _ in range(calls):
            layer(data)
        if self.synchronize is not None:
            self.synchronize()

    def backward(self, calls):
        """Walk one graph, made beforehand and kept; gradients accumulate."""
        output, gradient = self.output, self.gradient
        for _ in range(calls):
            output.backward(gradient, True)
        if self.synchronize is not None:
            self.synchronize()

    def forward_backward(self, calls):
        """Build the graph and walk it."""
        layer, data, gradient = self.layer, self.input, self.gradient
        for _ in range(calls):
            layer(data).backward(gradient)
        if self.synchronize is not None:
            self.synchronize()


class Chain(object):
    """Issue 2560: a leaf that needs its gradient, ``depth`` fresh layers, the norm.

    ``backward`` can be called once: the graph is gone afterwards.
    """

    def __init__(self, depth=100, features=100, device="cpu"):
        compat.start()
        self.input = compat.variable(compat.to(device, torch.randn(1, features)), True)
        self.layers = [compat.to(device, nn.Linear(features, features)) for _ in range(depth)]
        self.synchronize = compat.synchronizer(device)
        output = self.input
        for layer in self.layers:
            output = layer(output)
        self.loss = output.norm()
        compat.check_finite("the norm", [compat.scalar(self.loss)])

    def backward(self):
        """The only part that the issue's script times."""
        self.loss.backward()
        if self.synchronize is not None:
            self.synchronize()
