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

STAGES = (
    "preprocess",
    "concat",
    "affine_t",
    "rectify",
    "affine_transform",
    "arg_min",
    "loss",
    "forward",
    "total",
)

DEPTH = len(STAGES)

LENGTHS = (
    "13 32 35 12 16 10 21 25 23 17 22 36 23 42 52 19 18 13 34 24 31 10 21 16 24 "
    "18 33 15 21 19 16 12 18 15 15 20 23 16 26 19 31 4 18 18 31 26 5 29 16 19"
)
WORDS = 32
LABELS = 32
PARAMETERS = 43351
MINIBATCH = 5


def sentences(labels=LABELS, seed=compat.SEED):
    """50 pairs of equally long lists, words and their labels: 1,072 tokens, equal every time."""
    draw = random.Random(seed)
    made = []
    for length in LENGTHS.split():
        words = [draw.randrange(WORDS) for _ in range(int(length))]
        made.append((words, [word % labels for word in words]))
    return made


class Labeler(nn.Module):
    """The model; ``forward`` is the loss of one minibatch, up to the stage asked for."""

    def __init__(self, labels=LABELS):
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

    def encode(self, batch):
        """The padded minibatch through embedding and GRU: (tokens, 102)."""
        width = max(len(words) for words, _ in batch)
        padded = [words + [0] * (width - len(words)) for words, _ in batch]
        embedded = self.embedding(compat.variable(torch.LongTensor(padded)))
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
                predicted = int(numpy.argmin(scores.data.numpy()))
                if depth < 7:
                    continue
                target = torch.ones(1, self.labels)
                target[0][truths[token]] = 0
                error = self.error(scores, compat.variable(target))
                total = error if total is None else total + error
                if depth < 8:
                    continue
                action = self.actions(compat.variable(torch.LongTensor([predicted])))
        return total


class Training(object):
    """A model with its data, its optimizer and its own seeded order of sentences."""

    def __init__(self, labels=LABELS, rate=0.01):
        compat.start()
        self.data = sentences(labels)
        self.order = random.Random(compat.SEED)
        self.model = Labeler(labels)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)

    def run(self, epochs=1, stage="total"):
        """Train, or go forward only, up to and with ``stage``; the last epoch's losses."""
        depth = STAGES.index(stage) + 1
        losses = []
        for _ in range(epochs):
            self.order.shuffle(self.data)
            losses = []
            for first in range(0, len(self.data), MINIBATCH):
                loss = self.model(self.data[first : first + MINIBATCH], depth)
                if depth == DEPTH:
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                losses.append(loss)
        return losses
