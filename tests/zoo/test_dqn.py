"""The Q-network's size for the games of 4 and 6 actions, and its target net that lags behind."""

from __future__ import annotations

import torch

from handtorch.zoo.dqn import FOLLOW, QNetwork
from handtorch.zoo.registry import MODELS


def test_parameters_by_number_of_actions() -> None:
    """Breakout has 4 actions, Pong 6, by hand from the paper's Methods."""
    assert [sum(p.numel() for p in QNetwork(n).parameters()) for n in (4, 6)] == [
        1_686_180, 1_687_206]


def test_the_target_follows_slowly() -> None:
    entry = MODELS["DQN"]
    torch.manual_seed(0)
    model = entry.make(small=True)
    before = model.target.head[0].weight.clone()
    batch = entry.batch(8, small=True)
    entry.step(model, entry.optimizers(model))(*batch)
    moved = model.online.head[0].weight - before
    assert moved.abs().max() > 0
    torch.testing.assert_close(model.target.head[0].weight - before, FOLLOW * moved, rtol=1e-3,
                               atol=1e-7)
    assert all(p.grad is None for p in model.target.parameters())
