"""What ties a graph to the code it was captured from: plain facts, none of torch's objects."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("one", "tuple", "dict", "none")


@dataclass(frozen=True)
class Outputs:
    """How results are handed back: `kind` is one, tuple, dict or none."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Home:
    """Where a tensor of optimizer state lies in torch: under `key` of each of these parameters."""

    state: str
    optimizer: int
    key: str
    params: tuple[str, ...]
    kind: str                             # the optimizer's class
