"""Deep RL: the Q-network of Mnih et al. 2015 for Atari games, 4 frames of 84x84."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss
from torch.optim import Optimizer

ACTIONS = 18                                # the joystick's full set
DISCOUNT = 0.99
FOLLOW = 0.01


class QNetwork(nn.Module):
    """Frames -> the value of each action; widths divided by `divide`, `side` is 84 in the paper."""

    def __init__(self, actions: int = ACTIONS, side: int = 84, divide: int = 1) -> None:
        super().__init__()
        a, b, c, hidden = (n // divide for n in (32, 64, 64, 512))
        left = ((side - 8) // 4 + 1 - 4) // 2 + 1 - 2
        self.features = nn.Sequential(
            nn.Conv2d(4, a, 8, 4), nn.ReLU(), nn.Conv2d(a, b, 4, 2), nn.ReLU(),
            nn.Conv2d(b, c, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(c * left * left, hidden), nn.ReLU(),
                                  nn.Linear(hidden, actions))

    def forward(self, frames: Tensor) -> Tensor:
        out: Tensor = self.head(self.features(frames))
        return out


class DQN(nn.Module):
    """The net that learns, and the one it is compared with, which starts as its copy."""

    def __init__(self, actions: int = ACTIONS, side: int = 84, divide: int = 1) -> None:
        super().__init__()
        self.online = QNetwork(actions, side, divide)
        self.target = QNetwork(actions, side, divide).requires_grad_(False)
        self.target.load_state_dict(self.online.state_dict())

    def forward(self, frames: Tensor) -> Tensor:
        out: Tensor = self.online(frames)
        return out


def dqn_optimizers(model: DQN) -> list[Optimizer]:
    """The paper's RMSprop: squared gradients averaged over 20 steps or so, centred."""
    return [torch.optim.RMSprop(model.online.parameters(), lr=2.5e-4, alpha=0.95, eps=0.01,
                                centered=True)]


def dqn_step(model: DQN, optimizers: list[Optimizer]) -> Callable[..., Tensor]:
    """One step on remembered moves; the error is clipped as in the paper (Huber's loss).

    The paper copies the target net every 10,000 steps, a decision outside the step; here it
    follows the online net by FOLLOW of the way at each step, which needs no decision."""
    (optimizer,) = optimizers

    def step(frames: Tensor, actions: Tensor, rewards: Tensor, after: Tensor, over: Tensor
             ) -> Tensor:
        with torch.no_grad():
            best = model.target(after).max(1).values
            wanted = rewards + DISCOUNT * (1 - over) * best
        value = model.online(frames).gather(1, actions[:, None]).squeeze(1)
        loss = smooth_l1_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            pairs = zip(model.target.parameters(), model.online.parameters(), strict=True)
            for slow, fast in pairs:
                slow.mul_(1 - FOLLOW).add_(fast, alpha=FOLLOW)
        return loss

    return step
