"""The sequence labeler of the published comparison: the whole run, and forward by stage."""

from .workloads import sequence_labeler as model

EPOCHS = 1


class Run(object):
    """Seconds for EPOCHS epochs of training: 50 sentences, 1,072 tokens, 10 minibatches each.

    The published run makes 10; one is enough to compare two builds.
    """

    number = 1

    def setup(self):
        self.training = model.Training()

    def time_train(self):
        self.training.run(EPOCHS)


Run.time_train.pretty_name = "Sequence labeler: {} epoch of training".format(EPOCHS)


class Stages(object):
    """Seconds for one epoch up to and with a stage; ``total`` adds backward and the optimizer."""

    params = (model.STAGES,)
    param_names = ("stage",)
    number = 1

    def setup(self, stage):
        self.training = model.Training()

    def time_forward(self, stage):
        self.training.run(1, stage)


Stages.time_forward.pretty_name = "Sequence labeler: one epoch, cumulative by stage"
