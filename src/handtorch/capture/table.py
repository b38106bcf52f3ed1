"""Which ATen ops are taken apart, and what is patched while the user's code runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch._decomp import core_aten_decompositions

from handtorch.capture.aten import (
    conv,
    index,
    losses,
    move,
    norm,
    optimizers,
    pointwise,
    pool,
    product,
    random,
    reduce,
    rnn,
)

FAMILIES = (conv, index, losses, move, norm, optimizers, pointwise, pool, product, random, reduce,
            rnn)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Core ATen's table, less what families keep whole, plus their own (`DECOMPOSE`)."""
    keep = {name for family in FAMILIES for name in family.KEEP}
    table = {k: v for k, v in core_aten_decompositions().items()
             if k._schema.name.removeprefix("aten::") not in keep}
    for family in FAMILIES:
        table |= getattr(family, "DECOMPOSE", {})
    return table


@contextmanager
def patches() -> Iterator[None]:
    """Everything families replace in torch while a step is traced (`patched`), undone after."""
    with ExitStack() as undo:
        for family in FAMILIES:
            if hasattr(family, "patched"):
                undo.enter_context(family.patched())
        yield
