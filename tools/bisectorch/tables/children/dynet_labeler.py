"""The sequence labeler in DyNet: the same data, sizes and training as the one in torch.

Runs in a child, in an environment that has DyNet and need not have torch; Python 3.6 syntax. Two
differences from the account's torch script are the account's own: DyNet's GRU has one bias a
gate, so 306 parameters fewer, and it makes one step a token where torch's makes five over the
width of the minibatch.
"""

import importlib
import random
from typing import Any, Dict, List, Optional

PARAMETERS = 43045
"""With 32 labels."""


def engine(profiling: bool) -> Any:
    """The module dynet, told to profile or not; it reads its settings when it is imported."""
    importlib.import_module("dynet_config").set(
        random_seed=90210, mem=2048, profiling=1 if profiling else 0
    )
    return importlib.import_module("dynet")


class Labeler:
    """The model, its optimizer, and its own seeded order of sentences."""

    def __init__(self, dynet: Any, data: Any, labels: int, rate: float) -> None:
        self.dynet = dynet
        self.data = data
        self.labels = labels
        self.sentences = data.sentences(labels)
        self.order = random.Random(data.SEED)
        model = self.model = dynet.ParameterCollection()
        self.embedding = model.add_lookup_parameters((data.WORDS, 50))
        self.forwards = dynet.GRUBuilder(1, 50, 51, model)
        self.backwards = dynet.GRUBuilder(1, 50, 51, model)
        self.actions = model.add_lookup_parameters((labels, 5))
        self.combine = model.add_parameters((52, 5 + 102 + 52))
        self.combine_bias = model.add_parameters(52)
        self.policy = model.add_parameters((labels, 52))
        self.policy_bias = model.add_parameters(labels)
        self.initial_hidden = model.add_parameters(52, init=0)
        self.initial_action = model.add_parameters(5, init=0)
        self.trainer = dynet.AdamTrainer(model, alpha=rate)
        numpy = importlib.import_module("numpy")
        self.argmin, self.ones = numpy.argmin, numpy.ones

    def size(self) -> int:
        """How many parameters the model has."""
        total = 0
        for parameter in self.model.parameters_list():
            total += int(parameter.as_array().size)
        for lookup in self.model.lookup_parameters_list():
            total += int(lookup.as_array().size)
        return total

    def encode(self, batch: List[Any]) -> List[Any]:
        """One expression a token of the padded minibatch: (102, minibatch)."""
        width = max(len(words) for words, _ in batch)
        columns = [[words[t] if t < len(words) else 0 for words, _ in batch] for t in range(width)]
        embedded = [self.dynet.lookup_batch(self.embedding, column) for column in columns]
        there = self.forwards.initial_state().transduce(embedded)
        back = self.backwards.initial_state().transduce(embedded[::-1])[::-1]
        return [self.dynet.concatenate(list(pair)) for pair in zip(there, back)]

    def step(self, batch: List[Any], depth: int) -> Optional[float]:
        """One minibatch up to and with stage ``depth``; its loss where it gets that far.

        DyNet is lazy: where no stage asks for a number, the last one forces all of them.
        """
        dynet = self.dynet
        dynet.renew_cg()
        encoding = self.encode(batch)
        if depth < 2:
            dynet.esum(encoding).forward()
            return None
        errors, last = [], []
        for place, (words, truths) in enumerate(batch):
            hidden, action = self.initial_hidden, self.initial_action
            for token in range(len(words)):
                own = dynet.pick_batch_elem(encoding[token], place)
                joined = dynet.concatenate([action, hidden, own])
                made = joined
                if depth > 2:
                    hidden = dynet.affine_transform([self.combine_bias, self.combine, joined])
                    made = hidden
                if depth > 3:
                    made = hidden = dynet.rectify(hidden)
                if depth > 4:
                    made = scores = dynet.affine_transform([self.policy_bias, self.policy, hidden])
                if depth > 5:
                    predicted = int(self.argmin(scores.npvalue()))
                if depth > 6:
                    target = self.ones(self.labels)
                    target[truths[token]] = 0
                    made = error = dynet.squared_distance(scores, dynet.inputVector(target))
                    errors.append(error)
                if depth > 7:
                    action = dynet.lookup(self.actions, predicted)
                last.append(made)
        if depth < 6:
            dynet.esum(last).forward()
        if depth < 7:
            return None
        loss = dynet.esum(errors)
        value = float(loss.value())
        if depth == self.data.DEPTH:
            loss.backward()
            self.trainer.update()
        return value

    def run(self, epochs: int, stage: str, minibatches: Optional[int]) -> List[float]:
        """Train, or go forward only; the losses of every minibatch, in order."""
        depth = self.data.STAGES.index(stage) + 1
        losses = []
        for _ in range(epochs):
            self.order.shuffle(self.sentences)
            for first in range(0, len(self.sentences), self.data.MINIBATCH)[:minibatches]:
                loss = self.step(self.sentences[first : first + self.data.MINIBATCH], depth)
                if loss is not None:
                    losses.append(loss)
        return losses


def labeler(
    data: Any,
    epochs: int = 10,
    stage: str = "total",
    labels: int = 32,
    rate: float = 0.01,
    minibatches: Optional[int] = None,
) -> Dict[str, Any]:
    """Seconds of the run, after one minibatch that is not counted."""
    warm = Labeler(engine(False), data, labels, rate)
    warm.run(1, stage, 1)
    training = Labeler(engine(False), data, labels, rate)
    timed = importlib.import_module("stopwatch").timed
    seconds, losses = timed(lambda: training.run(epochs, stage, minibatches))
    return {
        "seconds": seconds,
        "losses": losses,
        "parameters": training.size(),
        "sentences": training.sentences,
    }


def profile(data: Any, epochs: int) -> None:
    """Train with DyNet's own profiler on; it prints when the process ends."""
    Labeler(engine(True), data, data.LABELS, 0.01).run(epochs, "total", None)
