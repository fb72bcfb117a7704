"""The sequence labeler's data and sizes, without torch: the comparators train on the same.

Synthetic, with the sizes of the published comparison: 50 sentences of given lengths over 32 word
types, 1,072 tokens; a word's label follows from the word.
"""

import random

LENGTHS = (
    "13 32 35 12 16 10 21 25 23 17 22 36 23 42 52 19 18 13 34 24 31 10 21 16 24 "
    "18 33 15 21 19 16 12 18 15 15 20 23 16 26 19 31 4 18 18 31 26 5 29 16 19"
)
WORDS = 32
LABELS = 32
MINIBATCH = 5
SEED = 90210

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


def sentences(labels=LABELS, seed=SEED):
    """50 pairs of equally long lists, words and their labels: 1,072 tokens, equal every time."""
    draw = random.Random(seed)
    made = []
    for length in LENGTHS.split():
        words = [draw.randrange(WORDS) for _ in range(int(length))]
        made.append((words, [word % labels for word in words]))
    return made
