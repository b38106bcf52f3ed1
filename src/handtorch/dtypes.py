"""The element types a Graph may carry: size, NumPy spelling, OpenCL C spelling."""

from __future__ import annotations

from dataclasses import dataclass

from handtorch.errors import BadInput


@dataclass(frozen=True)
class DType:
    name: str
    size_bytes: int
    numpy: str
    opencl: str


# int64 indices from PyTorch become int32 at the edge: 2^31 rows are out of reach on a phone, and
# 64-bit integers are emulated on Adreno and Mali.
_ALL = (
    DType("f32", 4, "float32", "float"),
    DType("i32", 4, "int32", "int"),
    DType("u32", 4, "uint32", "uint"),
    DType("bool", 1, "bool", "uchar"),
)
BY_NAME = {d.name: d for d in _ALL}


def dtype(name: str) -> DType:
    """The type called `name`; refuses anything outside the closed set."""
    if name not in BY_NAME:
        raise BadInput(f"dtype {name!r}", why=f"HandTorch has {', '.join(BY_NAME)}",
                       fix="convert the tensor before the step")
    return BY_NAME[name]
