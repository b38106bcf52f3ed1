"""Every kind of launch of a program gets a time, and larger ones a longer one."""

from __future__ import annotations

from typing import Any

from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.pipeline import compile_graph
from handtorch.plan.cost import shape_of
from handtorch.runtime.opencl.clock import launch_times_ns
from handtorch.runtime.opencl.executor import OpenCLExecutor


def test_each_kind_once(opencl_device: Any) -> None:
    on = OpenCLExecutor(opencl_device)
    a, b, c, d = (Value(i, s) for i, s in enumerate(((64, 512), (512, 512), (64, 512), (64, 512))))
    program = compile_graph(Graph((Node("matmul", (a, b), (c,)), Node("matmul", (c, b), (d,))),
                                  (Port("a", a), Port("b", b)), (), (Port("d", d),)), on.spec)
    taken = launch_times_ns(on, program)
    assert taken.keys() == {shape_of(s) for s in program.steps}
    assert len(taken) < len(program.steps)
    assert all(ns > 0 for ns in taken.values())
