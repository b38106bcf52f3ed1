"""Batches that need not be copied: arrays that nobody can change, read where they lie.

The staging ring copies a batch so that the caller may change it at once. Of an array that is
read-only down to the memory it stands on there is nothing to fear: a data set mapped from a file
(`np.load(path, mmap_mode="r")`), or one whose owner said `x.flags.writeable = False`; nor of one
that its owner promised to leave alone (`ht.lend`), or of a torch tensor, of which torch gives a
copy to whoever writes to it meanwhile (`capture/until_written.py`). On a device that computes in
the host's own memory, kernels are pointed at such an array for one step."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.plan.plan import STAGING_IN, Plan
from handtorch.runtime.device import Array
from handtorch.runtime.lent import Lent
from handtorch.runtime.opencl.context import OpenCLContext

# Intel's runtime copies, for a millisecond, what does not begin on such a border; PoCL has none.
BORDER_BYTES = 128
# A new buffer and its arguments take as long as the copy of some 200 KB.
LEAST_BYTES = 256 << 10
# Data sets whose buffers are kept: one or two arrays for training, as many for testing in between.
KEPT = 4


def settled_root(array: Any) -> Array | None:
    """The array in whose memory this one lies, if nothing in this program can write to that by
    the way it was made, or somebody promised so; else None."""
    root = None
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return None
        root, array = array, array.base
    if array is None or isinstance(array, Lent):
        return root
    try:
        with memoryview(array) as seen, memoryview(seen.obj) as owner:
            # bytes, or a file mapped for reading alone; a view that cannot write is no promise
            settled = seen.readonly and owner.readonly and not isinstance(owner.obj, np.ndarray)
            return root if settled else None
    except TypeError:                        # a torch tensor, for one: it can be written to
        return None


@dataclass(frozen=True)
class Loan:
    """Memory of the caller's as a buffer; whoever holds the loan keeps both alive."""

    root: Array
    buffer: Any
    begins: int                              # address of the buffer's first byte
    is_promised: bool                        # nobody writes there, by somebody's word


class Lender:
    """Buffers on settled arrays. That of a data set, of which batches are parts, is kept."""

    def __init__(self, on: OpenCLContext) -> None:
        self._on = on
        self.from_bytes = LEAST_BYTES if on.spec.kind == "cpu" else None
        self._most = on.spec.largest_allocation_bytes - BORDER_BYTES
        self._kept: dict[int, Loan] = {}     # by id of the root, which the loan keeps alive

    def loan(self, array: Array) -> Loan | None:
        """A buffer that holds `array`, or None if it must be copied."""
        flags = array.flags
        if (self.from_bytes is None or array.nbytes < self.from_bytes or flags.writeable
                or not (flags.c_contiguous and flags.aligned)):
            return None
        root = settled_root(array)
        if root is None:
            return None
        if (found := self._kept.get(id(root))) is not None:
            return found
        lent = root.base if isinstance(root.base, Lent) else None
        if (root.nbytes == array.nbytes or not root.flags.c_contiguous or root.nbytes > self._most
                or (lent is not None and not lent.lasts)):
            return self._on_loan(array, lent is not None)
        if len(self._kept) == KEPT:
            del self._kept[next(iter(self._kept))]      # the oldest
        made = self._kept[id(root)] = self._on_loan(root, lent is not None)
        return made

    def _on_loan(self, root: Array, is_promised: bool) -> Loan:
        address, flags = root.ctypes.data, self._on.cl.mem_flags
        before = address % BORDER_BYTES      # never reaches beyond the page
        raw = (ctypes.c_uint8 * (before + root.nbytes)).from_address(address - before)
        buffer = self._on.cl.Buffer(self._on.context, flags.READ_ONLY | flags.USE_HOST_PTR,
                                    hostbuf=raw)
        return Loan(root, buffer, address - before, is_promised)


@dataclass
class Use:
    """An argument of a preset kernel that reads an input: where it points, and where it does
    without a loan."""

    kernel: Any
    index: int
    home: tuple[Any, int]                    # a buffer, and an element in it
    from_start: int                          # elements from the input's own start
    at: Any = None                           # the buffer of a loan

    def point_at(self, buffer: Any, element: int) -> None:
        if self.at is not buffer:
            self.kernel.set_arg(self.index, buffer)
            self.at = buffer
        self.kernel.set_arg(self.index + 1, np.uint32(element))


@dataclass
class Borrowed:
    """One input of one slot: who reads it, and what of the caller's it stands on now."""

    value: Value
    uses: list[Use] = field(default_factory=list)
    writable: bool = False                   # some kernel writes here: never lend it foreign memory
    held: Loan | None = None                 # the device may still read this

    def note(self, step: Step, kernel: Any, plan: Plan, at: int,
             homes: Sequence[tuple[Any, int]]) -> None:
        """`kernel`, preset for `step`, may read this input, which lies `at` in the slot."""
        for i, (operand, home) in enumerate(zip(step.operands, homes, strict=True)):
            place = plan.places[operand.value.id]
            within = place.offset_bytes - at
            if place.bank != STAGING_IN or not 0 <= within < max(self.value.nbytes, 1):
                continue
            self.writable |= operand.writes
            self.uses.append(Use(kernel, 2 * i, home,
                                 within // dtype(operand.value.dtype).size_bytes))

    def borrow(self, lender: Lender, array: Array) -> Loan | None:
        """The loan by which the next step here reads `array` itself, if it does; it is then kept
        alive until the slot is free again. The device must be done with the last step here."""
        if self.writable or array.dtype != dtype(self.value.dtype).numpy:
            return None
        loan = lender.loan(array)
        if loan is None:
            return None
        # First, so that after Ctrl-C in between `give_back` still knows; the kernels point at what
        # was before until they are told.
        self.held, before = loan, self.held
        first = (array.ctypes.data - loan.begins) // array.itemsize
        for use in self.uses:
            use.point_at(loan.buffer, first + use.from_start)
        del before
        return loan

    def give_back(self) -> None:
        """Kernels read the slot again; the device must be done with the last step here."""
        if self.held is None:
            return
        for use in self.uses:
            use.point_at(*use.home)
        self.held = None
