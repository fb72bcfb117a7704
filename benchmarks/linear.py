"""``nn.Linear``: a small layer by mode, and the chain of PyTorch issue 2560."""

from .workloads import compat
from .workloads import linear as model

CALLS = 100


class Linear(object):
    """Seconds for CALLS calls: a sample is then 0.4 to 5 ms, not lost in the timer's noise.

    asv makes fresh state for every sample of a benchmark with a ``setup``, one body each.
    """

    params = ((1, 10), (10, 100))
    param_names = ("batch", "features")

    device = "cpu"

    def setup(self, batch, features):
        self.plain = model.Small(batch, features, device=self.device)
        self.inward = self.plain.towards_input()

    def time_forward(self, batch, features):
        self.plain.forward(CALLS)

    def time_backward(self, batch, features):
        self.plain.backward(CALLS)

    def time_forward_backward(self, batch, features):
        self.plain.forward_backward(CALLS)

    def time_forward_backward_input(self, batch, features):
        self.inward.forward_backward(CALLS)


Linear.time_forward.pretty_name = "nn.Linear: {} times forward".format(CALLS)
Linear.time_backward.pretty_name = "nn.Linear: {} times backward".format(CALLS)
Linear.time_forward_backward.pretty_name = "nn.Linear: {} times forward and backward".format(CALLS)
Linear.time_forward_backward_input.pretty_name = (
    "nn.Linear: {} times forward and backward to the input".format(CALLS)
)


class Chain(object):
    """Backward through 100 fresh layers, once; the issue's script adds up 500 of these."""

    number = 1
    device = "cpu"

    def setup(self):
        self.chain = model.Chain(device=self.device)

    def time_backward(self):
        self.chain.backward()


Chain.time_backward.pretty_name = "Issue 2560: backward through 100 nn.Linear, once"


if "cuda" in compat.devices():

    class LinearOnCuda(Linear):
        """The same, on a GPU."""

        device = "cuda"

    class ChainOnCuda(Chain):
        """The same, on a GPU."""

        device = "cuda"
