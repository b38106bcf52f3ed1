"""Indexing, gathering and scattering."""

from __future__ import annotations

import numpy as np

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


def _rows(node: Node, index: Array, size: int) -> tuple[Array, Array]:
    """The index counted from the start, and where it is inside."""
    rows = index.astype("i8")
    if node.flag("wrap"):
        rows = np.where(rows < 0, rows + size, rows)
    return rows, (rows >= 0) & (rows < size)


def _bad(kind: np.dtype) -> float | int:
    """What an index outside reads."""
    return {"f": np.nan, "i": np.iinfo("i4").min}.get(kind.kind, 0)


@reference("take")
def _take(node: Node, x: Array, index: Array) -> Array:
    axis = int(node.number("axis"))
    rows, known = _rows(node, index, x.shape[axis])
    if not x.shape[axis]:
        return np.full((*x.shape[:axis], *index.shape, *x.shape[axis + 1:]), _bad(x.dtype), x.dtype)
    y = np.take(x, np.where(known, rows, 0), axis)
    line = known.reshape((*known.shape, *(1,) * (x.ndim - axis - 1)))
    return np.asarray(np.where(line, y, np.asarray(_bad(x.dtype)).astype(x.dtype)))


@reference("gather")
def _gather(node: Node, x: Array, index: Array) -> Array:
    axis = int(node.number("axis"))
    rows, known = _rows(node, index, x.shape[axis])
    y = np.take_along_axis(x, np.where(known, rows, 0), axis)
    return np.asarray(np.where(known, y, np.asarray(_bad(x.dtype)).astype(x.dtype)))


def _start(node: Node, src: Array, base: tuple[Array, ...]) -> Array:
    return base[0].copy() if base else np.zeros(node.numbers("shape"), src.dtype)


@reference("put")
def _put(node: Node, index: Array, src: Array, *base: Array) -> Array:
    axis, y = int(node.number("axis")), _start(node, src, base)
    rows, known = _rows(node, index.reshape(-1), y.shape[axis])
    lines = np.moveaxis(y, axis, 0)
    parts = np.moveaxis(src.reshape((*y.shape[:axis], rows.size, *y.shape[axis + 1:])), axis, 0)
    for j in np.flatnonzero(known & (rows != node.number("skip", -1))):
        lines[rows[j]] = lines[rows[j]] + parts[j] if node.flag("add") else parts[j]
    if not known.all():
        lines[0] = _bad(y.dtype)
    return y


@reference("scatter")
def _scatter(node: Node, index: Array, src: Array, *base: Array) -> Array:
    axis, y = int(node.number("axis")), _start(node, src, base)
    rows, known = _rows(node, index, y.shape[axis])
    lines, parts, at, fine = (np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis])
                              for a in (y, src, rows, known))
    column = np.arange(len(lines))
    for j in range(at.shape[1]):
        use = fine[:, j]
        spot = column[use], at[use, j]
        lines[spot] = lines[spot] + parts[use, j] if node.flag("add") else parts[use, j]
    lines[~fine.all(1), 0] = _bad(y.dtype)
    rest = np.moveaxis(y, axis, -1).shape
    return np.asarray(np.moveaxis(lines.reshape(rest), -1, axis))
