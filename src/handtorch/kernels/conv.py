"""Convolutions: specs and cases."""

from __future__ import annotations

from collections.abc import Iterator

from handtorch.kernels.case import Case
from handtorch.kernels.spec import Kernel

KERNELS: tuple[Kernel, ...] = ()


def cases() -> Iterator[Case]:
    yield from ()
