"""Cases of the convolutions."""

from __future__ import annotations

from collections.abc import Iterator

from handtorch.kernels.case import Case


def cases() -> Iterator[Case]:
    yield from ()
