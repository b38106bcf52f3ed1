"""A model of the zoo as a server runs it: in eval mode, with given weights or random ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from handtorch.errors import BadInput
from handtorch.zoo.entry import Batch, Entry
from handtorch.zoo.registry import MODELS

Array = NDArray[Any]


def entry_named(name: str) -> Entry:
    if name not in MODELS:
        raise BadInput(f"no model {name!r} in the zoo", why=f"there is {', '.join(MODELS)}")
    return MODELS[name]


def served_model(name: str, form: str = "", seed: int = 0,
                 weights: Mapping[str, Array] | None = None) -> nn.Module:
    """The model in eval mode; the same seed gives the same random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = entry_named(name).make(form)
    if weights is not None:
        _fill(name, model, weights)
    return model.eval()


def _fill(name: str, model: nn.Module, weights: Mapping[str, Array]) -> None:
    """All of the model's state; float16 of a file becomes the model's float32."""
    own = model.state_dict()
    missing, extra = own.keys() - weights.keys(), weights.keys() - own.keys()
    missing = {n for n in missing if not n.endswith("num_batches_tracked")}
    if missing or extra:
        told = "; ".join(f"{len(names)} {what}, {min(names)} first" for what, names in
                         (("missing", missing), ("too many", extra)) if names)
        raise BadInput(f"these weights are not {name}'s", why=told)
    for key, array in weights.items():
        if tuple(array.shape) != tuple(own[key].shape):
            raise BadInput(f"these weights are not {name}'s", why=f"{key} is {list(array.shape)}, "
                           f"the model has {list(own[key].shape)}")
        own[key].copy_(torch.from_numpy(array.copy()))


def example_inputs(name: str, form: str, rows: int, side: tuple[int, int] | None = None) -> Batch:
    """What the model takes for so many rows; pictures of another size where `side` says so."""
    entry = entry_named(name)
    inputs = entry.inputs(entry.batch(rows, form))
    return inputs if side is None else (torch.randn(rows, 3, *side),)
