"""What the zoo has, as a list: each form of each model, with its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from handtorch.zoo.entry import Entry
from handtorch.zoo.registry import MODELS


@dataclass(frozen=True)
class Listed:
    """One form of one model; `narrow_parameters` are those of its narrow twin."""

    name: str
    form: str
    parameters: int
    narrow_parameters: int
    domain: str


def listed() -> Iterator[Listed]:
    """In the order of the registry; the first form of a model is the usual one."""
    for entry in MODELS.values():
        for form in entry.forms:
            yield Listed(entry.name, form, _parameters(entry, form, small=False),
                         _parameters(entry, form, small=True), entry.domain)


def _parameters(entry: Entry, form: str, *, small: bool) -> int:
    """Counted in shapes alone: weights are neither drawn nor stored."""
    with torch.device("meta"):
        model = entry.make(form, small)
    return sum(p.numel() for p in model.parameters())
