"""Every kernel there is, by name, and every case that checks one."""

from __future__ import annotations

from collections.abc import Iterator

from handtorch.kernels import (
    bmm,
    conv,
    gemm,
    index,
    losses,
    lstm,
    move,
    norm,
    optimizers,
    pointwise,
    pool,
    random,
    reduce,
    rnn,
    roofline,
    simple,
    weights_grad,
)
from handtorch.kernels.case import Case
from handtorch.kernels.spec import Kernel

_FAMILIES = (bmm, conv, gemm, index, losses, lstm, move, norm, optimizers, pointwise, pool,
             random, reduce, rnn, roofline, simple, weights_grad)
KERNELS: dict[str, Kernel] = {k.name: k for family in _FAMILIES for k in family.KERNELS}


def all_cases() -> Iterator[Case]:
    """At least one case for each kernel; small enough for Oclgrind."""
    for family in _FAMILIES:
        yield from family.cases()
