"""Normalisation."""

from __future__ import annotations

from handtorch.graph.ops.op import Op

OPS: tuple[Op, ...] = ()
