"""The few differences between PyTorch 0.1.12 and today, settled when a workload is built.

Nothing here is called inside a timed region.
"""

import torch
from torch.autograd import Variable

SEED = 90210


def start(seed=SEED):
    """One thread and a fixed seed, so that two set-ups build the same workload."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)


def variable(tensor, requires_grad=False):
    """A leaf of the graph: a Variable up to 0.3, the tensor itself from 0.4 on."""
    return Variable(tensor, requires_grad=requires_grad)


def summed_squared_error():
    """A module: the sum of squared differences (``size_average`` until 0.4, then ``reduction``)."""
    try:
        return torch.nn.MSELoss(reduction="sum")
    except TypeError:
        return torch.nn.MSELoss(size_average=False)


def scalar(variable_of_one_element):
    """The Python number in it."""
    return float(variable_of_one_element.data.view(1).numpy()[0])
