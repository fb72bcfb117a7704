"""A small sequence labeler that feeds its own predictions back, token by token.

It re-enacts the script behind a published comparison of PyTorch with DyNet (2017): per token,
``cat[previous action, previous hidden, encoding] -> combine -> relu -> policy -> argmin``, then
the squared error against ones with a zero at the true label. The data is synthetic with the
original's sizes. One quirk is kept because it is what was timed: the padded minibatch goes as
(sentence, token, embedding) into a GRU that is not batch-first, which therefore makes five steps
over the width of the minibatch, and every sentence reads the first row of its output.
"""

import random

import numpy
import torch
from torch import nn

from . import compat
from .labeler_data import DEPTH, LABELS, MINIBATCH, STAGES, WORDS, sentences

PARAMETERS = 43351
"""With 32 labels."""

FUNCTIONS = (
    "AddmmBackward",
    "ConcatBackward",
    "EmbeddingBackward",
    "MSELossBackward",
    "ThresholdBackward",
    "AddBackward",
    "IndexBackward",
    "TransposeBackward",
    "MulBackward",
    "ChunkBackward",
    "SigmoidBackward",
    "SubBackward",
    "TanhBackward",
    "ViewBackward",
    "AccumulateGrad",
    "AddConstantBackward",
    "GraphRoot",
    "MmBackward",
    "SplitBackward",
    "StackBackward",
    "UnbindBackward",
    "UnsqueezeBackward",
    "RsubBackward",
)
"""Functions of the backward pass: the account's 17 under its names, then others of later torchs."""

RENAMED = {
    "CatBackward": "ConcatBackward",
    "MseLossBackward": "MSELossBackward",
    "ReluBackward": "ThresholdBackward",
    "SelectBackward": "IndexBackward",
    "TBackward": "TransposeBackward",
    "UnsafeChunkBackward": "ChunkBackward",
    "UnsafeSplitBackward": "SplitBackward",
    "torch::autograd::AccumulateGrad": "AccumulateGrad",
    "Graph Root": "GraphRoot",
}
"""What does the same work in later torchs -> the account's name."""


class Labeler(nn.Module):
    """The model; ``forward`` is the loss of one minibatch, up to the stage asked for."""

    def __init__(self, labels=LABELS, device="cpu"):
        super(Labeler, self).__init__()
        self.embedding = nn.Embedding(WORDS, 50)
        self.encoder = nn.GRU(50, 51, bidirectional=True)
        self.actions = nn.Embedding(labels, 5)
        self.combine = nn.Linear(5 + 102 + 52, 52)
        self.rectify = nn.ReLU()
        self.policy = nn.Linear(52, labels)
        self.initial_hidden = nn.Parameter(torch.zeros(1, 52))
        self.initial_action = nn.Parameter(torch.zeros(1, 5))
        self.error = compat.summed_squared_error()
        self.labels = labels
        self.is_elsewhere = device != "cpu"

    def encode(self, batch):
        """The padded minibatch through embedding and GRU: (tokens, 102)."""
        width = max(len(words) for words, _ in batch)
        padded = torch.LongTensor([words + [0] * (width - len(words)) for words, _ in batch])
        if self.is_elsewhere:
            padded = padded.cuda()
        embedded = self.embedding(compat.variable(padded))
        return self.encoder(embedded)[0][0]

    def forward(self, batch, depth=DEPTH):
        """The summed loss of a minibatch, or None when ``depth`` stages end before it."""
        total = None
        encoding = self.encode(batch)
        if depth < 2:
            return None
        for words, truths in batch:
            hidden, action = self.initial_hidden, self.initial_action
            for token in range(len(words)):
                joined = torch.cat([action, hidden, encoding[token].view(1, -1)], 1)
                if depth < 3:
                    continue
                hidden = self.combine(joined)
                if depth < 4:
                    continue
                hidden = self.rectify(hidden)
                if depth < 5:
                    continue
                scores = self.policy(hidden)
                if depth < 6:
                    continue
                known = scores.data.cpu() if self.is_elsewhere else scores.data
                predicted = int(numpy.argmin(known.numpy()))
                if depth < 7:
                    continue
                target = torch.ones(1, self.labels)
                target[0][truths[token]] = 0
                if self.is_elsewhere:
                    target = target.cuda()
                error = self.error(scores, compat.variable(target))
                total = error if total is None else total + error
                if depth < 8:
                    continue
                chosen = torch.LongTensor([predicted])
                if self.is_elsewhere:
                    chosen = chosen.cuda()
                action = self.actions(compat.variable(chosen))
        return total


class Training(object):
    """A model with its data, its optimizer and its own seeded order of sentences."""

    def __init__(self, labels=LABELS, rate=0.01, device="cpu"):
        compat.start()
        self.data = sentences(labels)
        self.order = random.Random(compat.SEED)
        self.model = compat.to(device, Labeler(labels, device))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)
        self.synchronize = compat.synchronizer(device)

    def step(self, batch, depth=DEPTH):
        """One minibatch: its loss, after backward and the optimizer where ``depth`` says so."""
        loss = self.model(batch, depth)
        if depth == DEPTH:
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss

    def run(self, epochs=1, stage="total", minibatches=None):
        """Train, or go forward only, up to and with ``stage``; the last epoch's losses.

        With ``minibatches`` an epoch ends after so many of them.
        """
        depth = STAGES.index(stage) + 1
        losses = []
        for _ in range(epochs):
            self.order.shuffle(self.data)
            losses = []
            for first in range(0, len(self.data), MINIBATCH)[:minibatches]:
                losses.append(self.step(self.data[first : first + MINIBATCH], depth))
        if self.synchronize is not None:
            self.synchronize()
        return losses


_checked = set()


def check_once(device="cpu"):
    """Once a process, untimed: the exact size, finite losses, and a loss that falls."""
    if device in _checked:
        return
    training = Training(device=device)
    compat.check_parameters(training.model, PARAMETERS)
    batch = training.data[:MINIBATCH]
    losses = [compat.scalar(training.step(batch)) for _ in range(3)]
    compat.check_finite("the loss", losses)
    if not min(losses) < losses[0]:
        raise ValueError("the losses are %r: this build does not train" % losses)
    _checked.add(device)


def backward_seconds():
    """Function of the backward pass -> (its name in this torch, calls, seconds), over one epoch.

    Under the account's names where there is a function that does the same work. Each minibatch is
    profiled alone: a profile of the whole epoch takes a gigabyte.
    """
    training = Training()
    training.run(1, minibatches=1)
    found = {}
    for first in range(0, len(training.data), MINIBATCH):
        loss = training.model(training.data[first : first + MINIBATCH])
        training.optimizer.zero_grad()
        for name, (calls, seconds, _) in compat.profiled(loss.backward, True).items():
            known = RENAMED.get(name, name)
            before = found.get(known, (name, 0, 0.0))
            found[known] = (name, before[1] + calls, before[2] + seconds)
        training.optimizer.step()
    return found
