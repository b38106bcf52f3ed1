"""until_written: a tensor's memory as it is now, without a copy.

torch can clone a tensor lazily: both stand on one memory until one of them is written to, and only
then the writer is given a copy (`c10/core/impl/COW.h`). So the clone keeps the numbers that the
tensor has now, whatever its owner does to it in torch afterwards, `x.numpy()` and `x.data_ptr()`
included. Who had the address before would not be seen writing, so a tensor counts only if nobody
has it: NumPy's arrays leave a mark on the memory they share, everybody else is counted as a holder
of it. What is left is an address kept as a number, of which nobody can know."""

from __future__ import annotations

from typing import NamedTuple

import torch

from handtorch.capture.torch_version import is_read


class Unwritten(NamedTuple):
    """Memory whose numbers stay as they are for as long as `owner` lives."""

    address: int
    owner: torch.Tensor


def until_written(x: torch.Tensor) -> Unwritten | None:
    """The memory of `x`, or None where torch could not notice that it is written to.

    Taken are dense CPU tensors that stand alone on memory of torch's own, or are the only part of
    one that does: what a DataLoader stacks, or `data[i:j]`. Not what came from NumPy or lies in
    shared memory."""
    if (type(x) is not torch.Tensor or x.device.type != "cpu" or x.layout is not torch.strided
            or x.requires_grad or not x.is_contiguous() or not is_read()):
        return None
    whole = x if x._base is None else x._base
    memory = x.untyped_storage()
    # Each tensor here is held once by Python, and the whole by its part; so is their memory by each
    # of them and by `memory`. A consumer of DLPack's would be one more.
    holders = [*(t._use_count() for t in (x, whole)),               # type: ignore[attr-defined]
               torch._C._storage_Use_Count(memory._cdata)]
    if holders != ([1, 1, 2] if whole is x else [1, 2, 3]):
        return None
    if not memory.resizable():                       # as it is until NumPy has the address
        return None
    try:
        owner = torch._lazy_clone(x)
    except RuntimeError:                             # memory that torch did not allocate itself
        return None
    begins = torch._C._data_address(owner)                           # type: ignore[attr-defined]
    return Unwritten(begins + owner.storage_offset() * owner.element_size(), owner)
