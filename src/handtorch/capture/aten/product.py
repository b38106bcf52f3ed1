"""Matrix products."""

from __future__ import annotations

from handtorch.capture.builder import Builder, aten
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = ("addmm", "mm", "bmm")


@aten("addmm.default")
def _addmm(b: Builder, bias: Value, x: Value, w: Value, *, beta: float = 1, alpha: float = 1
           ) -> Value:
    if beta != 1 or alpha != 1 or len(bias.shape) != 1:
        raise b.refuse("aten.addmm", f"beta={beta}, alpha={alpha}, bias {bias}")
    return b.one("matmul", (x, w, bias), epilogue=("bias",))


@aten("mm.default")
def _mm(b: Builder, x: Value, y: Value) -> Value:
    return b.one("matmul", (x, y))
