"""The sequence labeler of the published comparison: the whole run, by stage, by function."""

from .workloads import compat
from .workloads import sequence_labeler as model

EPOCHS = 1


class Run(object):
    """Seconds for EPOCHS epochs of training: 50 sentences, 1,072 tokens, 10 minibatches each.

    The published run makes 10; one is enough to compare two builds.
    """

    number = 1
    device = "cpu"

    def setup(self):
        model.check_once(self.device)
        self.training = model.Training(device=self.device)

    def time_train(self):
        self.training.run(EPOCHS)


Run.time_train.pretty_name = "Sequence labeler: {} epoch of training".format(EPOCHS)


class Stages(object):
    """Seconds for one epoch up to and with a stage; ``total`` adds backward and the optimizer."""

    params = (model.STAGES,)
    param_names = ("stage",)
    number = 1
    device = "cpu"

    def setup(self, stage):
        model.check_once(self.device)
        self.training = model.Training(device=self.device)

    def time_forward(self, stage):
        self.training.run(1, stage)


Stages.time_forward.pretty_name = "Sequence labeler: one epoch, cumulative by stage"


class Larger(object):
    """Seconds for one minibatch of training with more labels: large operations, few calls.

    The account's larger model has 50,000.
    """

    params = ((1000, 50000),)
    param_names = ("n_labels",)
    number = 1
    timeout = 300

    def setup(self, labels):
        model.check_once()
        self.training = model.Training(labels, rate=0.001)

    def time_train(self, labels):
        self.training.run(1, minibatches=1)


Larger.time_train.pretty_name = "Sequence labeler: one minibatch, by number of labels"


class Functions(object):
    """Seconds of the backward pass by function, over one epoch, as torch's profiler tells them.

    A function that this torch does not have is not applicable.
    """

    params = (model.FUNCTIONS,)
    param_names = ("function",)
    unit = "seconds"
    timeout = 300

    def setup(self, function):
        model.check_once()

    def track_backward(self, function):
        found = model.backward_seconds()
        return found[function][2] if function in found else float("nan")


Functions.track_backward.unit = "seconds"
Functions.track_backward.pretty_name = "Sequence labeler: backward of one epoch, by function"


if "cuda" in compat.devices():

    class RunOnCuda(Run):
        """The same, on a GPU."""

        device = "cuda"

    class StagesOnCuda(Stages):
        """The same, on a GPU."""

        device = "cuda"
