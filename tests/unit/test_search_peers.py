"""Each peer's rule finds a single step in a history without noise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bisectorch.search.simulate import Setting, World, draw

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))
import peers

SETTING = Setting(size=64, ratios=(0.2,), sigma=1e-6)


@pytest.mark.parametrize(
    "strategy",
    [peers.oracle, peers.asv_find, peers.torchbench, lambda w: peers.pinpoint(w, 0.2)],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_noiseless_step_is_found(strategy, seed):
    """Without noise every rule names the one change point."""
    world = World(draw(SETTING, seed))
    assert strategy(world) == list(world.drawn.positions)


def test_git_bayesect_finds_a_noiseless_step():
    """Its own package, told the threshold, names the change point."""
    pytest.importorskip("git_bayesect")
    world = World(draw(SETTING, 1))
    assert peers.git_bayesect(world, 0.09) == list(world.drawn.positions)


def test_every_strategy_sees_the_same_noise():
    """The k-th run of a commit does not depend on how or when it was asked for."""
    first, second = World(draw(SETTING, 3)), World(draw(SETTING, 3))
    a = [float(x) for _ in range(70) for x in first.measure(5, 1)]
    second.measure(9, 3)
    assert a == second.measure(5, 70).tolist()
