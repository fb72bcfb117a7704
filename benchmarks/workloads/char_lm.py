"""Character language models with equal budgets: a TCN, an LSTM, a Transformer.

They re-enact "Can the TCN module be made faster?", an issue thread on locuslab/TCN: vocabulary
49, embedding 100, batch 32, sequence 320; cross entropy, gradients clipped at 0.15, SGD at 4.
Two more TCNs answer the thread's questions: one without its transposes (it reads the embedding
as though it lay the other way round, which costs nothing and computes something else), one of
half the depth and as many parameters.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from . import compat, text

EMBEDDING = 100
BATCH = 32
SEQUENCE = 320
RATE = 4.0
CLIP = 0.15
DROPOUT = 0.1
KERNEL = 3

MODELS = ("tcn", "lstm", "transformer", "tcn without transposes", "tcn of half the depth")

PARAMETERS = {
    "tcn": 2221999,
    "lstm": 2284849,
    "transformer": 575449,
    "tcn without transposes": 2221999,
    "tcn of half the depth": 2221799,
}
"""Distinct ones; the account counts a TCN's tied 4,900 twice."""


class Convolution(nn.Module):
    """A causal convolution whose weight is a direction and a length a filter."""

    def __init__(self, inputs, outputs, dilation):
        super(Convolution, self).__init__()
        self.direction = nn.Parameter(torch.randn(outputs, inputs, KERNEL).mul(0.01))
        sizes = self.direction.data.view(outputs, -1).norm(2, 1)
        self.length = nn.Parameter(sizes.view(outputs, 1, 1))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.weight_norm = compat.weight_norm()
        self.dilation = dilation
        self.padding = (KERNEL - 1) * dilation

    def forward(self, data):
        """(batch, inputs, time) to (batch, outputs, time): the padding's end is cut off."""
        weight = self.weight_norm(self.direction, self.length)
        output = functional.conv1d(data, weight, self.bias, 1, self.padding, self.dilation)
        return output[:, :, : data.size(2)].contiguous()


class Block(nn.Module):
    """Twice (convolution, ReLU, dropout), beside a 1x1 convolution where channels change."""

    def __init__(self, inputs, outputs, dilation):
        super(Block, self).__init__()
        self.layers = nn.Sequential(
            Convolution(inputs, outputs, dilation),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            Convolution(outputs, outputs, dilation),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
        )
        self.beside = None
        if inputs != outputs:
            self.beside = nn.Conv1d(inputs, outputs, 1)
            self.beside.weight.data.normal_(0, 0.01)
        self.rectify = nn.ReLU()

    def forward(self, data):
        """(batch, inputs, time) to (batch, outputs, time)."""
        beside = data if self.beside is None else self.beside(data)
        return self.rectify(self.layers(data) + beside)


class Tcn(nn.Module):
    """Embedding, dropout, blocks of dilation 1, 2, 4; the decoder shares the embedding."""

    def __init__(self, channels=(450, 450, EMBEDDING), transposes=True):
        super(Tcn, self).__init__()
        self.embedding = nn.Embedding(text.VOCABULARY, EMBEDDING)
        self.drop = nn.Dropout(DROPOUT)
        blocks, inputs = [], EMBEDDING
        for level, outputs in enumerate(channels):
            blocks.append(Block(inputs, outputs, 2**level))
            inputs = outputs
        self.network = nn.Sequential(*blocks)
        self.decoder = nn.Linear(EMBEDDING, text.VOCABULARY)
        self.embedding.weight.data.normal_(0, 0.01)
        self.decoder.bias.data.fill_(0)
        self.decoder.weight = self.embedding.weight
        self.transposes = transposes

    def forward(self, data):
        """(batch, time) to (batch * time, vocabulary)."""
        embedded = self.drop(self.embedding(data))
        if self.transposes:
            output = self.network(embedded.transpose(1, 2)).transpose(1, 2).contiguous()
        else:
            output = self.network(embedded.view(data.size(0), EMBEDDING, data.size(1)))
        return self.decoder(output.view(-1, EMBEDDING))


class Lstm(nn.Module):
    """Embedding, dropout, one layer of 700."""

    def __init__(self):
        super(Lstm, self).__init__()
        self.embedding = nn.Embedding(text.VOCABULARY, EMBEDDING)
        self.drop = nn.Dropout(DROPOUT)
        self.network = nn.LSTM(EMBEDDING, 700, batch_first=True)
        self.decoder = nn.Linear(700, text.VOCABULARY)

    def forward(self, data):
        """(batch, time) to (batch * time, vocabulary)."""
        output = self.network(self.drop(self.embedding(data)))[0]
        return self.decoder(output.contiguous().view(-1, 700))


class Attention(nn.Module):
    """Causal self-attention with four heads, by products of batches."""

    def __init__(self, heads=4):
        super(Attention, self).__init__()
        self.heads = heads
        self.width = EMBEDDING // heads
        self.query = nn.Linear(EMBEDDING, EMBEDDING)
        self.key = nn.Linear(EMBEDDING, EMBEDDING)
        self.value = nn.Linear(EMBEDDING, EMBEDDING)
        self.combine = nn.Linear(EMBEDDING, EMBEDDING)
        self.softmax = compat.row_softmax()
        self.drop = nn.Dropout(DROPOUT)

    def split(self, rows, batch, time):
        """(batch * time, embedding) to (batch * heads, time, width)."""
        rows = rows.view(batch, time, self.heads, self.width).transpose(1, 2).contiguous()
        return rows.view(batch * self.heads, time, self.width)

    def forward(self, rows, batch, mask):
        """(batch * time, embedding) to the same; ``mask`` (time, time) is added to the scores."""
        time = mask.size(0)
        query, key, value = (
            self.split(layer(rows), batch, time) for layer in (self.query, self.key, self.value)
        )
        scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(self.width)
        scores = scores + mask.unsqueeze(0).expand_as(scores)
        shares = self.drop(self.softmax(scores.view(-1, time)).view_as(scores))
        mixed = torch.bmm(shares, value).view(batch, self.heads, time, self.width)
        return self.combine(mixed.transpose(1, 2).contiguous().view(-1, EMBEDDING))


class Layer(nn.Module):
    """Attention, then two layers with a ReLU between them; each added to its input and normed."""

    def __init__(self, inner=500):
        super(Layer, self).__init__()
        self.attention = Attention()
        self.feed = nn.Sequential(
            nn.Linear(EMBEDDING, inner),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(inner, EMBEDDING),
        )
        self.drop = nn.Dropout(DROPOUT)
        self.norm_attention = compat.layer_norm(EMBEDDING)
        self.norm_feed = compat.layer_norm(EMBEDDING)

    def forward(self, rows, batch, mask):
        """(batch * time, embedding) to the same."""
        rows = self.norm_attention(rows + self.drop(self.attention(rows, batch, mask)))
        return self.norm_feed(rows + self.drop(self.feed(rows)))


class Transformer(nn.Module):
    """Embedding with sines of the position, four layers, a decoder."""

    def __init__(self, time, device):
        super(Transformer, self).__init__()
        self.embedding = nn.Embedding(text.VOCABULARY, EMBEDDING)
        self.drop = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList([Layer() for _ in range(4)])
        self.decoder = nn.Linear(EMBEDDING, text.VOCABULARY)
        waves = [
            [
                (math.cos if place % 2 else math.sin)(
                    position / 10000.0 ** (float(place // 2 * 2) / EMBEDDING)
                )
                for place in range(EMBEDDING)
            ]
            for position in range(time)
        ]
        later = [[-1e9 if after > now else 0.0 for after in range(time)] for now in range(time)]
        self.waves = compat.variable(compat.to(device, torch.FloatTensor(waves)))
        self.mask = compat.variable(compat.to(device, torch.FloatTensor(later)))

    def forward(self, data):
        """(batch, time) to (batch * time, vocabulary)."""
        embedded = self.embedding(data) * math.sqrt(EMBEDDING)
        rows = self.drop(embedded + self.waves.unsqueeze(0).expand_as(embedded))
        rows = rows.view(-1, EMBEDDING)
        for layer in self.layers:
            rows = layer(rows, data.size(0), self.mask)
        return self.decoder(rows)


def make(name, time, device="cpu"):
    """One of MODELS, with exactly the parameters it should have."""
    if name == "lstm":
        model = Lstm()
    elif name == "transformer":
        model = Transformer(time, device)
    elif name == "tcn of half the depth":
        model = Tcn((730, EMBEDDING))
    else:
        model = Tcn(transposes=name == "tcn")
    compat.check_parameters(model, PARAMETERS[name])
    return compat.to(device, model)


def layers(name):
    """(part, parameters) of a model, in order, counted as the account counts."""
    model = make(name, 1)
    count = dict.fromkeys(("embedding", "network", "decoder"), 0)
    for part, child in model.named_children():
        where = "network" if part == "layers" else part
        if where in count:
            count[where] += sum(p.data.numel() for p in child.parameters())
    return [(part, count[part]) for part in ("embedding", "network", "decoder")]


class Training(object):
    """A model, its optimizer and one batch of synthetic text a step, made beforehand."""

    def __init__(self, name, time=SEQUENCE, device="cpu", batches=1):
        compat.start()
        self.model = make(name, time, device)
        self.data = []
        for number in range(batches):
            rows, following = text.batch(BATCH, time, text.SEED + number)
            flat = [letter for row in following for letter in row]
            self.data.append(
                tuple(
                    compat.variable(compat.to(device, torch.LongTensor(each)))
                    for each in (rows, flat)
                )
            )
        self.criterion = nn.CrossEntropyLoss()
        rate = 0.1 if name == "transformer" else RATE
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate)
        self.clip = compat.clip_grad_norm()
        self.read = compat.reader()
        self.synchronize = compat.synchronizer(device)

    def run(self, steps):
        """Train so many steps; their losses, each read when its step ends, as the account did."""
        losses = []
        for step in range(steps):
            data, following = self.data[step % len(self.data)]
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(data), following)
            loss.backward()
            self.clip(self.model.parameters(), CLIP)
            self.optimizer.step()
            losses.append(self.read(loss))
        if self.synchronize is not None:
            self.synchronize()
        return losses

    def check(self, steps=3):
        """Once, untimed: the losses are finite, the first is near chance, and they fall."""
        losses = self.run(steps)
        compat.check_finite("the loss", losses)
        if not (abs(losses[0] - math.log(text.VOCABULARY)) < 1.5 and losses[-1] < losses[0]):
            raise ValueError("the losses are %r: this build does not train" % losses)
        return losses
