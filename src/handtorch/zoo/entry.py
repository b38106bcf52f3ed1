"""What the zoo says about one model: how it is built, fed and trained, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import Part
from handtorch.zoo.data.feed import Feed, open_feed

Batch = tuple[Tensor, ...]
Step = Callable[..., Any]


@dataclass(frozen=True)
class Published:
    """Figures of one form from outside, for one sample; `within` is relative, 0 means exact.

    `multiply_adds` is None where nobody whom we know of has printed it for this very form."""

    form: str
    parameters: int
    source: str
    within: float = 0.0
    multiply_adds: float | None = None
    multiply_adds_source: str = ""


@dataclass(frozen=True)
class Entry:
    """`build(form, small)` and `data(size, form, small)` are called through `make` and `batch`.

    The small form keeps the architecture and its depth or most of it, is narrow enough for 20
    steps on two cores, and drops nothing out. `loss` is None where `special_step` has its own."""

    name: str
    domain: str
    paper: str
    forms: tuple[str, ...]                  # the first is the usual one
    build: Callable[[str, bool], Any]
    data: Callable[[int, str, bool], Batch]
    published: tuple[Published, ...]
    loss: Callable[[Tensor, Tensor], Tensor] | None = nn.functional.cross_entropy
    optimizers: Callable[[Any], list[Optimizer]] = lambda model: [
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)]
    special_step: Callable[[Any, list[Optimizer]], Step] | None = None
    fed: tuple[int, int | None] = (0, -1)   # from, to: what of a batch goes into the model
    small_batch: int = 4

    def make(self, form: str = "", small: bool = False) -> nn.Module:
        """A fresh model with torch's random starting weights (`torch.manual_seed` before)."""
        model: nn.Module = self.build(self._form(form), small)
        return model

    def batch(self, size: int, form: str = "", small: bool = False, seed: int = 0) -> Batch:
        """Inputs and, last, the target; random but the same for the same seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.data(size, self._form(form), small)

    def feed(self, size: int, form: str = "", small: bool = False, *, path: str = "", seed: int = 0,
             part: Part = "train") -> Feed:
        """Batches of real data in the shapes of `batch`: from `path`, found (docs/data.md), or
        generated, as `feed.source` says."""
        return open_feed(self.name, size, form=self._form(form), small=small, path=path, seed=seed,
                         part=part)

    def inputs(self, batch: Batch) -> Batch:
        """What `model(...)` takes of a batch."""
        first, last = self.fed
        return batch[first:last]

    def step(self, model: Any, optimizers: list[Optimizer]) -> Step:
        """The user's own training step on a batch; it gives the loss, or several."""
        if self.special_step is not None:
            return self.special_step(model, optimizers)
        assert self.loss is not None, "one of the two must be there"
        (optimizer,), loss_fn = optimizers, self.loss

        def step(*batch: Tensor) -> Tensor:
            *inputs, target = batch
            loss = loss_fn(model(*inputs), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    def _form(self, form: str) -> str:
        if form and form not in self.forms:
            raise BadInput(f"{self.name} in form {form!r}", why=f"it has {', '.join(self.forms)}",
                           fix=f"form={self.forms[0]!r}")
        return form or self.forms[0]
