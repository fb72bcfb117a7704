"""Synthetic text for the character models: 49 characters at English letters' frequencies.

The Penn Treebank itself is licensed; what a step costs depends on the shapes alone. The first
28 weights are in percent: space, the letters, and the mark of rare words; the rest are digits and
punctuation, evenly rare.
"""

import random

VOCABULARY = 49
SEED = 90210

WEIGHTS = (
    [17.0, 10.2, 7.5, 6.7, 6.2, 5.9, 5.7, 5.4, 4.0, 3.4, 3.3, 2.6, 2.3, 2.1, 1.9, 1.8]
    + [1.6, 1.5, 1.2, 1.0, 0.8, 0.6, 0.2, 0.15, 0.1, 0.08, 2.0, 1.9]
    + [0.1] * 21
)


def characters(count, seed=SEED):
    """So many numbers below 49, equal every time, on every machine and Python."""
    draw = random.Random(seed)
    total, limits = 0.0, []
    for weight in WEIGHTS:
        total += weight
        limits.append(total)
    made = []
    for _ in range(count):
        point, letter = draw.random() * total, 0
        while limits[letter] <= point:
            letter += 1
        made.append(letter)
    return made


def batch(size, length, seed=SEED):
    """Two lists of ``size`` rows of ``length``: characters, and for each the one that follows."""
    flat = characters(size * (length + 1), seed)
    rows = [flat[start : start + length + 1] for start in range(0, len(flat), length + 1)]
    return [row[:-1] for row in rows], [row[1:] for row in rows]
