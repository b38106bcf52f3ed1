"""What a process that makes batches and the one that uses them say to each other, over pipes.

    to the user     a kind, a length, JSON: LAYOUT once (before the first batch), BATCH for each
                    batch in its slot, ERROR and nothing more, END behind the last
    to the maker    a byte for each slot that is free again; the end of the pipe ends the maker

The batches themselves lie in memory that both have mapped."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from handtorch.zoo.data.dataset import Array, Arrays

LAYOUT, BATCH, ERROR, END = b"L", b"B", b"E", b"."
HEAD = struct.Struct("<cI")
_ALIGN = 256                                # as the devices like their buffers
MOST_BYTES = 1 << 20                        # of a message: an error's text is the longest


@dataclass(frozen=True)
class Layout:
    """Where the arrays of a batch lie in a slot."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, batch: Sequence[Array]) -> Layout:
        return cls(tuple(a.shape for a in batch), tuple(a.dtype.str for a in batch))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of each array, and of the slot's end."""
        places = [0]
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            end = places[-1] + prod(shape) * np.dtype(dtype).itemsize
            places.append(-(-end // _ALIGN) * _ALIGN)
        return tuple(places)

    @property
    def slot_bytes(self) -> int:
        return max(self.offsets[-1], _ALIGN)

    def views(self, memory: Any, slot: int) -> Arrays:
        """The arrays of one slot, in that very memory."""
        begin = slot * self.slot_bytes
        return tuple(np.frombuffer(memory, dtype, prod(shape), begin + offset).reshape(shape)
                     for shape, dtype, offset in zip(self.shapes, self.dtypes, self.offsets[:-1],
                                                     strict=True))

    def __str__(self) -> str:
        return ", ".join(f"{np.dtype(dtype).name}[{','.join(map(str, shape))}]"
                         for shape, dtype in zip(self.shapes, self.dtypes, strict=True))


def send(pipe: int, kind: bytes, told: Any = None) -> None:
    """All of a message is in the pipe. Raises BrokenPipeError when nobody listens any more."""
    text = json.dumps(told).encode()
    left = memoryview(HEAD.pack(kind, len(text)) + text)
    while left:
        left = left[os.write(pipe, left):]
