"""What the tests of captured steps share: small steps as users write them, and the comparison."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import handtorch as ht

Fn = Callable[..., Any]
Made = tuple[Fn, list[nn.Module], list[torch.optim.Optimizer]]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def said(error: Any) -> str:
    """The whole message that was caught; line numbers, which move, left out."""
    return re.sub(r"(\.py):\d+", r"\1", str(error.value))


def floats(out: Any) -> list[float]:
    values = out.values() if isinstance(out, dict) else out if isinstance(out, tuple) else [out]
    return [float(v.detach() if isinstance(v, torch.Tensor) else v) for v in values]


def assert_same_training(make: Callable[[], Made], batch: tuple[torch.Tensor, ...], device: str,
                         steps: int = 10) -> Any:
    """Losses, weights, buffers and optimizer state as torch has them after `steps`."""
    fn, models, optimizers = make()
    step = ht.train_step(fn, models=models, optimizers=optimizers, example=batch, device=device)
    ours = [floats(step(*batch)) for _ in range(steps)]
    step.sync_to(models, optimizers)
    theirs_fn, theirs, their_optimizers = make()
    want = [floats(theirs_fn(*batch)) for _ in range(steps)]
    np.testing.assert_allclose(ours, want, rtol=2e-5, atol=1e-6)
    for a, b in zip(models, theirs, strict=True):
        for key, value in b.state_dict().items():
            torch.testing.assert_close(a.state_dict()[key], value, rtol=1e-4, atol=1e-5)
    for x, y in zip(optimizers, their_optimizers, strict=True):
        torch.testing.assert_close(x.state_dict()["state"], y.state_dict()["state"],
                                   rtol=1e-4, atol=1e-5)
    return step


def made(parts: Made, batch: tuple[torch.Tensor, ...], device: str = "null") -> Any:
    fn, models, optimizers = parts
    return ht.train_step(fn, models=models, optimizers=optimizers, example=batch, device=device)


MADE = ("  from user_steps.py  return ht.train_step(fn, models=models, optimizers=optimizers, "
        "example=batch, device=device)\n")


def simple(body: Callable[[nn.Module, Any, torch.Tensor], Any], **settings: Any) -> Made:
    """A step over one linear layer; `body(model, optimizer, x)` is what the user wrote."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **settings})
    return lambda x: body(model, optimizer, x), [model], [optimizer]


X = normal(4, 3)


def usual(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
    loss = (model(x) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def forgets(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
    loss = (model(x) ** 2).sum()
    loss.backward()
    optimizer.step()
    return loss
