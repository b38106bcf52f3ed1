"""CLBlast's SGEMM on our device and queue, through its C interface (Debian: libclblast1)."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from handtorch.bench.case import Asked
from handtorch.bench.side import CannotRun, Subject
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.store.tensors import Array

_ROW_MAJOR, _AS_IS, _TURNED = 101, 111, 112         # of clblast_c.h
_SIZE, _MEM = ctypes.c_size_t, ctypes.c_void_p


def make(asked: Asked) -> Subject:
    return ClblastProduct(asked, OpenCLExecutor(choose(asked.device)), _library(asked))


def _library(asked: Asked) -> ctypes.CDLL:
    name = asked.options.get("library") or ctypes.util.find_library("clblast")
    if not name:
        raise CannotRun("libclblast is not installed", why="Debian: apt install libclblast1")
    try:
        return ctypes.CDLL(name)
    except OSError as e:
        raise CannotRun("libclblast does not load", why=str(e)) from e


class ClblastProduct:
    """C = op(A) op(B), all in row-major order as they lie."""

    def __init__(self, asked: Asked, on: OpenCLExecutor, library: ctypes.CDLL) -> None:
        self.version = f"CLBlast, OpenCL {on.spec.driver}"
        ((a, b),) = asked.batches()
        m, n, k = asked.case.sizes
        self._on, self._shape = on, (m, n)
        self._buffers = [on.buffer(4 * size) for size in (m * k, k * n, m * n)]
        for buffer, array in zip(self._buffers, (a, b), strict=False):
            on.cl.enqueue_copy(on.queue, buffer, np.ascontiguousarray(array, "f4"))
        sgemm = library.CLBlastSgemm
        operand, factor = (_MEM, _SIZE, _SIZE), ctypes.c_float
        sgemm.argtypes = [*(ctypes.c_int,) * 3, *(_SIZE,) * 3, factor, *operand, *operand, factor,
                          *operand, ctypes.POINTER(_MEM), ctypes.c_void_p]
        sgemm.restype = ctypes.c_int
        turns = [_TURNED if flag == "t" else _AS_IS for flag in asked.case.form]
        at = [_MEM(buffer.int_ptr) for buffer in self._buffers]
        self._sgemm: Any = sgemm
        self._queue = _MEM(on.queue.int_ptr)
        self._arguments = (_ROW_MAJOR, *turns, m, n, k, 1.0, at[0], 0, a.shape[1],
                           at[1], 0, b.shape[1], 0.0, at[2], 0, n,
                           ctypes.byref(self._queue), None)

    def once(self, number: int) -> Sequence[Array]:
        self.run(1)
        out = np.empty(self._shape, "f4")
        self._on.cl.enqueue_copy(self._on.queue, out, self._buffers[2])
        return [out]

    def run(self, count: int) -> None:
        for _ in range(count):
            if (code := self._sgemm(*self._arguments)) != 0:
                raise CannotRun("CLBlastSgemm refuses", why=f"status {code}")
        self._on.queue.finish()
