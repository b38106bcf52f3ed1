"""Every kind of launch of a program gets a time, and larger ones a longer one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.pipeline import compile_graph
from handtorch.plan.cost import shape_of
from handtorch.program import Program
from handtorch.runtime.opencl import clock
from handtorch.runtime.opencl.clock import launch_times_ns
from handtorch.runtime.opencl.executor import OpenCLExecutor


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))


def two_products(on: OpenCLExecutor) -> Program:
    a, b, c, d = (Value(i, s) for i, s in enumerate(((64, 512), (512, 512), (64, 512), (64, 512))))
    return compile_graph(Graph((Node("matmul", (a, b), (c,)), Node("matmul", (c, b), (d,))),
                               (Port("a", a), Port("b", b)), (), (Port("d", d),)), on.spec)


def test_each_kind_once(opencl_device: Any) -> None:
    on = OpenCLExecutor(opencl_device)
    program = two_products(on)
    taken = launch_times_ns(on, program)
    assert taken.keys() == {shape_of(s) for s in program.steps}
    assert len(taken) < len(program.steps)
    assert all(ns > 0 for ns in taken.values())


def test_what_was_timed_is_not_run_again(opencl_device: Any, monkeypatch: pytest.MonkeyPatch
                                         ) -> None:
    on = OpenCLExecutor(opencl_device)
    taken = launch_times_ns(on, two_products(on))
    monkeypatch.setattr(clock, "_taken", lambda *_: pytest.fail("it was timed again"))
    assert launch_times_ns(on, two_products(on)) == taken


def test_an_interrupted_call_keeps_what_it_timed(opencl_device: Any,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    on = OpenCLExecutor(opencl_device)
    a, b = Value(0, (40,)), Value(1, (40,))
    nodes = (Node("relu", (a,), (b,)), Node("sum", (b,), (Value(2, ()),), {"axes": (0,)}))
    program = compile_graph(Graph(nodes, (Port("a", a),), (), (Port("s", nodes[1].outputs[0]),)),
                            on.spec)
    whole = clock._taken

    def stopped(*given: Any) -> Any:
        yield next(whole(*given))
        raise KeyboardInterrupt
    monkeypatch.setattr(clock, "_taken", stopped)
    with pytest.raises(KeyboardInterrupt):
        launch_times_ns(on, program)
    asked: list[int] = []

    def counted(on: Any, program: Any, kinds: Any) -> Any:
        asked.append(len(kinds))
        return whole(on, program, kinds)
    monkeypatch.setattr(clock, "_taken", counted)
    taken = launch_times_ns(on, program)
    assert taken.keys() == {shape_of(s) for s in program.steps}
    assert asked == [len(taken) - 1]
