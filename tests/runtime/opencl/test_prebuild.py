"""A program compiled by child processes gives the same results, and is found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.kernels.render import split, step_instance
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor
from handtorch.runtime.opencl import prebuild

X = np.linspace(-2, 2, 35, dtype="f4").reshape(5, 7)


def several() -> Graph:
    """x -> softmax, its logarithm, row sums, column sums: several different kernels."""
    x = Value(0, (5, 7))
    outs = [Value(1, (5, 7)), Value(2, (5, 7)), Value(3, (5,)), Value(4, (7,))]
    nodes = (Node("softmax", (x,), (outs[0],)), Node("log_softmax", (x,), (outs[1],)),
             Node("sum", (x,), (outs[2],), {"axes": (1,)}),
             Node("sum", (x,), (outs[3],), {"axes": (0,)}))
    return Graph(nodes, (Port("x", x),), (), tuple(Port(f"y{v.id}", v) for v in outs))


def test_parts_share_no_kernel_and_lose_none() -> None:
    steps = compile_graph(several(), open_executor("ref").spec).steps
    parts = split(steps, 2)
    names = [{step_instance(s) for s in part} for part in parts]
    assert len(parts) == 2 and not names[0] & names[1]
    assert sorted(map(step_instance, steps)) == sorted(step_instance(s) for p in parts for s in p)


def test_children_compile_once(opencl_device: Any, tmp_path: Path,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(prebuild, "WORTH_IT", 1)
    started: list[int] = []
    real = prebuild._in_children
    monkeypatch.setattr(prebuild, "_in_children",
                        lambda on, parts, plan: (started.append(len(parts)), real(on, parts, plan)))
    monkeypatch.setattr(prebuild.os, "sched_getaffinity", lambda pid: {0, 1})
    executor = open_executor(opencl_device.label)
    program = compile_graph(several(), executor.spec)
    for _ in range(2):
        got = executor.load(program, {}).submit([X]).result()
        want = open_executor("ref").load(program, {}).submit([X]).result()
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-6)
    assert started == [2, 0], "the second time everything is in the cache"


def test_a_child_that_dies_leaves_the_work_to_us(opencl_device: Any, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(prebuild, "WORTH_IT", 1)
    monkeypatch.setattr(prebuild.sys, "executable", "/bin/false")
    executor = open_executor(opencl_device.label)
    program = compile_graph(several(), executor.spec)
    got = executor.load(program, {}).submit([X]).result()
    np.testing.assert_allclose(got[2], X.sum(1), rtol=1e-5, atol=1e-6)
