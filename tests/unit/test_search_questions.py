"""What probes are chosen by, against enumeration of every configuration of levels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bisectorch.search.likelihood import gather
from bisectorch.search.posterior import Beliefs, believe, cumulative
from bisectorch.search.questions import ANSWERS, LADDER, Questions, entropy, read

SMALLEST = float(np.log1p(0.03))
NONE, FURTHER, BESIDE = range(ANSWERS)


def beliefs(values: dict[int, tuple[float, ...]], size: int) -> Beliefs:
    """What these runs say of equally plausible commits."""
    return believe(gather(values), cumulative((1.0,) * size, size), SMALLEST)


def enumerated(b: Beliefs, at: int) -> np.ndarray:
    """Masses of the nine answers for a measured commit, summed over steps and coarse levels."""
    chain = b.chain
    count = chain.chance.size
    total = np.zeros(ANSWERS * ANSWERS)
    for h, weight in enumerate(chain.weight):
        masses = np.zeros(ANSWERS * ANSWERS)
        for steps in itertools.product((0, 1), repeat=count):
            prior = np.prod(np.where(steps, chain.chance, 1 - chain.chance))
            edges = [0, *(g + 1 for g in range(count) if steps[g]), count + 1]
            pieces = [
                chain.slab * np.prod(chain.likelihood[a:z, h], axis=0)
                for a, z in itertools.pairwise(edges)
            ]
            gaps = [g for g in range(count) if steps[g]]
            for answers, mass in joint(b.grid, pieces, gaps, at).items():
                masses[ANSWERS * answers[0] + answers[1]] += prior * mass
        total += weight * masses / masses.sum()
    return total / total.sum()


def joint(grid, pieces, gaps, at) -> dict[tuple[int, int], float]:
    """Mass of each pair of answers, for levels drawn anew at these gaps."""
    found: dict[tuple[int, int], float] = {}
    relevant = (np.abs(grid[:, None] - grid) >= SMALLEST - 1e-12).astype(float)
    for pattern in itertools.product((0, 1), repeat=len(gaps)):
        mass = pieces[0]
        for piece, is_relevant in zip(pieces[1:], pattern, strict=True):
            mass = piece * (mass @ (relevant if is_relevant else 1 - relevant))
        left = [g for g, r in zip(gaps, pattern, strict=True) if r and g < at]
        right = [g for g, r in zip(gaps, pattern, strict=True) if r and g >= at]
        answers = (
            BESIDE if at - 1 in left else FURTHER if left else NONE,
            BESIDE if at in right else FURTHER if right else NONE,
        )
        found[answers] = found.get(answers, 0.0) + float(mass.sum())
    return found


@pytest.mark.parametrize("at", range(4))
def test_answers_of_a_measured_commit_equal_enumeration(at):
    """The passes give what summing over every configuration gives."""
    b = beliefs({0: (0.0, 0.01), 3: (0.02, 0.0), 4: (0.05, 0.06), 9: (0.1,)}, 10)
    got = Questions(b, np.zeros(3, dtype=bool)).of_measured(np.array([at]))[0].sum(axis=1)
    assert got == pytest.approx(enumerated(b, at), abs=1e-3)


def test_a_new_commit_at_an_end_of_its_gap_is_that_end():
    """With no weight before it, a new commit is asked what its left neighbour is asked."""
    b = beliefs({0: (0.0, 0.01), 5: (0.08, 0.09), 9: (0.08,)}, 10)
    questions = Questions(b, np.zeros(2, dtype=bool))
    new = questions.of_new(0, np.array([0.0, 1.0]))
    first = questions.of_measured(np.array([0]))[0]
    assert new[0].sum(axis=0) == pytest.approx(first.sum(axis=0), abs=1e-6)
    second = questions.of_measured(np.array([1]))[0]
    assert new[1].sum(axis=0) == pytest.approx(second.sum(axis=0), abs=1e-6)


def test_the_middle_of_a_gap_with_a_step_tells_most():
    """Where a step surely lies in a gap, its middle tells one bit and its ends nothing."""
    b = beliefs({0: (0.0, 0.001), 64: (0.2, 0.201)}, 65)
    questions = Questions(b, np.ones(1, dtype=bool))
    gains = questions.gains(questions.of_new(0, np.array([0.0, 0.25, 0.5, 0.75, 1.0])))[:, 0]
    assert gains[2] == pytest.approx(np.log(2), abs=0.02)
    assert gains[0] < 0.02 > gains[4]
    assert gains[1] == pytest.approx(gains[3], abs=0.02)


def test_less_noise_never_tells_less():
    """The gain falls with the noise and never exceeds what is open."""
    b = beliefs({0: (0.0, 0.03), 8: (0.03, 0.05), 16: (0.06, 0.02)}, 17)
    questions = Questions(b, np.zeros(2, dtype=bool))
    masses = questions.of_measured(np.arange(3))
    gains = questions.gains(masses)
    assert (np.diff(gains, axis=1) <= 1e-9).all()
    assert (gains <= entropy(masses.sum(axis=2))[:, None] + 1e-12).all()


def test_gains_between_rungs():
    """Between rungs the gain is between theirs; far beyond it falls as one over the variance."""
    row = np.linspace(1.0, 0.2, LADDER.size)
    between = read(row, np.array([LADDER[0] * 2.0, LADDER[-1] * 10]), 1.0)
    assert row[1] < between[0] < row[0]
    assert between[1] == pytest.approx(row[-1] / 10)
