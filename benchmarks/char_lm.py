"""Character language models of one budget: seconds for one training step."""

from .workloads import char_lm as model
from .workloads import compat

TIME = 64
"""The account's sequences are five times as long; a step then takes more than a second."""


class Step(object):
    """One step of training: forward, backward, clipping, SGD; batch 32, sequences of TIME."""

    params = (model.MODELS, compat.devices())
    param_names = ("model", "device")
    number = 1
    timeout = 300

    def setup(self, name, device):
        self.training = model.Training(name, TIME, device)
        self.training.check(2)

    def time_train(self, name, device):
        self.training.run(1)


Step.time_train.pretty_name = "Character model: one training step, sequences of {}".format(TIME)
