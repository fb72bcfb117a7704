"""The few differences between PyTorch 0.1.12 and today, settled when a workload is built.

Nothing here is called inside a timed region but what it hands out: modules, functions, and
``synchronizer``'s, which is None on a CPU. What a torch lacks is a NotImplementedError with one
line that says so: asv takes it for "not applicable here", and the rest goes on.
"""

import os

import torch
from torch.autograd import Function, Variable

SEED = 90210


def start(seed=SEED):
    """A fixed seed, and one thread unless OMP_NUM_THREADS asks for others, so that two set-ups
    build the same workload.
    """
    if not os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(1)
    # By far the fastest, and asv sets up anew before every single call.
    generator = getattr(torch, "default_generator", None)
    if generator is None or torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        generator.manual_seed(seed)


def devices():
    """What a workload can run on here: ``cpu``, and ``cuda`` where there is one."""
    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


def to(device, thing):
    """A tensor or a module on that device."""
    if device == "cpu":
        return thing
    if not torch.cuda.is_available():
        raise NotImplementedError("this machine has no GPU that its torch can use")
    return thing.cuda()


def synchronizer(device):
    """A function that waits for all that was queued, or None on a CPU, which queues nothing."""
    return None if device == "cpu" else torch.cuda.synchronize


def variable(tensor, requires_grad=False):
    """A leaf of the graph: a Variable up to 0.3, the tensor itself from 0.4 on."""
    return Variable(tensor, requires_grad=requires_grad)


def summed_squared_error():
    """A module: the sum of squared differences (``size_average`` until 0.4, then ``reduction``)."""
    try:
        return torch.nn.MSELoss(reduction="sum")
    except TypeError:
        return torch.nn.MSELoss(size_average=False)


def row_softmax():
    """A module: softmax over the rows of a matrix (the dimension is an argument from 0.3 on)."""
    try:
        return torch.nn.Softmax(dim=1)
    except TypeError:
        return torch.nn.Softmax()


def layer_norm(width):
    """A module, from 0.4 on."""
    if not hasattr(torch.nn, "LayerNorm"):
        raise NotImplementedError("this torch has no nn.LayerNorm: it came with 0.4")
    return torch.nn.LayerNorm(width)


def weight_norm():
    """A function of (direction, length): the weight of that direction and those lengths a filter.

    PyTorch's fused one where there is one; ``length`` has a first dimension of one a filter.
    """
    fused = getattr(torch, "_weight_norm", None)
    if fused is not None:
        return lambda direction, length: fused(direction, length, 0)

    def composed(direction, length):
        filters = direction.size(0)
        sizes = direction.contiguous().view(filters, -1).norm(2, 1).view(filters, 1, 1)
        return direction * (length / sizes).expand_as(direction)

    return composed


def clip_grad_norm():
    """A function of (parameters, limit) that scales gradients down in place."""
    renamed = getattr(torch.nn.utils, "clip_grad_norm_", None)
    return renamed or torch.nn.utils.clip_grad_norm


def added_in_python():
    """The sum of two equally shaped operands, as an autograd Function written in Python.

    Static methods from 0.2 on; before that a Function is an object for one call.
    """
    if hasattr(Function, "apply"):

        class Add(Function):
            @staticmethod
            def forward(ctx, left, right):
                return left.add(right)

            @staticmethod
            def backward(ctx, gradient):
                return gradient, gradient

        return Add.apply

    class OldAdd(Function):
        def forward(self, left, right):
            return left.add(right)

        def backward(self, gradient):
            return gradient, gradient

    return lambda left, right: OldAdd()(left, right)


def added_in_cpp():
    """The same, written in C++; built once by :mod:`.cpp_function`."""
    from . import cpp_function

    return cpp_function.load().add


def profiled(work, backward_only=False):
    """What torch's own profiler saw while ``work()`` ran, by name.

    Returns: name -> (calls, seconds, seconds without what it called); with ``backward_only`` the
    nodes of the backward pass, under the names that ``grad_fn`` gives them, without the digits
    that newer releases add.
    """
    try:
        from torch.autograd.profiler import profile
    except ImportError:
        raise NotImplementedError("this torch has no profiler: it came with 0.2") from None
    with profile() as seen:
        work()
    found = {}
    for event in seen.key_averages():
        name = event.key
        if backward_only:
            name = name.split("::")[-1].rstrip("0123456789")
            if "evaluate_function" in event.key or not _is_backward(name):
                continue
        calls, seconds, own = found.get(name, (0, 0.0, 0.0))
        whole = getattr(event, "cpu_time_total", 0.0) * 1e-6
        # Releases before 1.2 do not tell a caller's own time.
        alone = getattr(event, "self_cpu_time_total", None)
        found[name] = (
            calls + event.count,
            seconds + whole,
            own + (whole if alone is None else alone * 1e-6),
        )
    return found


def _is_backward(name):
    return name.endswith("Backward") or name in ("AccumulateGrad", "GraphRoot", "Graph Root")


def reader():
    """A function that reads the number in a loss, waiting for it where it is still computed."""
    if hasattr(torch.Tensor, "item"):
        return lambda loss: loss.item()
    return lambda loss: loss.data[0]


def scalar(variable_of_one_element):
    """The Python number in it."""
    return float(variable_of_one_element.data.cpu().view(1).numpy()[0])


def check_finite(name, numbers):
    """Raise a ValueError unless every one is a finite number."""
    for number in numbers:
        if not -float("inf") < number < float("inf"):
            raise ValueError("%s is %r: this build computes wrong results" % (name, number))


def check_parameters(module, expected):
    """Raise a ValueError unless the module has so many elements in its distinct parameters."""
    found = 0
    for parameter in module.parameters():
        found += parameter.data.numel()
    if found != expected:
        raise ValueError("the model has %d parameters, not %d" % (found, expected))
