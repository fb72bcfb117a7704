"""``nn.Linear``: one small layer, and the chain of PyTorch issue 2560.

``backward`` takes its arguments by position: (gradient, keep the graph) has not changed since
0.1.12, while the second one's name has.
"""

import torch
from torch import nn

from . import compat


class Small(object):
    """One square layer on one batch; each method repeats one mode ``calls`` times."""

    def __init__(self, batch, features, input_needs_grad=False):
        compat.start()
        self.layer = nn.Linear(features, features)
        self.input = compat.variable(torch.randn(batch, features), input_needs_grad)
        self.gradient = torch.ones(batch, features)
        self.output = self.layer(self.input)

    def forward(self, calls):
        """Build the output and its graph."""
        layer, data = self.layer, self.input
        for _ in range(calls):
            layer(data)

    def backward(self, calls):
        """Walk one graph, made beforehand and kept; gradients accumulate."""
        output, gradient = self.output, self.gradient
        for _ in range(calls):
            output.backward(gradient, True)

    def forward_backward(self, calls):
        """Build the graph and walk it."""
        layer, data, gradient = self.layer, self.input, self.gradient
        for _ in range(calls):
            layer(data).backward(gradient)


class Chain(object):
    """Issue 2560: a leaf that needs its gradient, ``depth`` fresh layers, the norm.

    ``backward`` can be called once: the graph is gone afterwards.
    """

    def __init__(self, depth=100, features=100):
        compat.start()
        self.input = compat.variable(torch.randn(1, features), True)
        self.layers = [nn.Linear(features, features) for _ in range(depth)]
        output = self.input
        for layer in self.layers:
            output = layer(output)
        self.loss = output.norm()

    def backward(self):
        """The only part that the issue's script times."""
        self.loss.backward()
