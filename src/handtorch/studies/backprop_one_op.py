"""A training step as the paper ran it: one op at a time, operands in, results out.

Every tensor lives on the host. An op's operands are written to the device by blocking calls, its
kernels run, and its results are read back by blocking calls before the next op begins. Nothing is
fused. What is left out in favour of this way: views cost nothing, buffers are allocated once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.check import check
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph, Node, Value
from handtorch.graph.opset import flops
from handtorch.graph.step import Alias, Lowered, Step
from handtorch.kernels.gemm_specs import NAIVE
from handtorch.kernels.render import render, step_instance
from handtorch.lower.lower import LOWERINGS
from handtorch.lower.registry import Target
from handtorch.passes.rewrite import without_dead
from handtorch.passes.views import fold_views
from handtorch.runtime.device import Array
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.studies.backprop_accounting import Observed


@dataclass(frozen=True)
class Op:
    """One node and its launches; none where it is a view."""

    node: Node
    steps: tuple[Step, ...]
    aliases: tuple[Alias, ...]

    @property
    def moved_bytes(self) -> int:
        """What crosses for it: each operand once, each result once."""
        if not self.steps:
            return 0
        return sum(v.nbytes for v in (*dict.fromkeys(self.node.inputs), *self.node.outputs))


def unfused(graph: Graph) -> Graph:
    """The captured graph with views folded and each bias added by an op of its own."""
    graph = fold_views(without_dead(graph))
    fresh, nodes = count(graph.next_id()), list[Node]()
    for node in graph.nodes:
        if node.op == "matmul" and node.words("epilogue") == ("bias",):
            *factors, bias = node.inputs
            out = replace(node.outputs[0], id=next(fresh))
            attrs = {k: v for k, v in node.attrs.items() if k != "epilogue"}
            nodes.append(replace(node, inputs=tuple(factors), outputs=(out,), attrs=attrs))
            node = replace(node, op="add", inputs=(out, bias), attrs={})
        nodes.append(node)
    graph = replace(graph, nodes=tuple(nodes))
    check(graph, "unfused")
    views = {v.id for n in graph.nodes if n.op == "reshape" for v in n.outputs}
    assert not any(s.after.id in views for s in graph.states if s.changes), "a state is a view"
    return graph


def lower_ops(graph: Graph, spec: DeviceSpec, *, naive: bool) -> tuple[Op, ...]:
    """Each node's launches: those that our lowering picks, or with `naive` products by the naive
    kernel, after a transposed copy of what it cannot read as it lies."""
    fresh = count(graph.next_id())
    made = []
    for index, node in enumerate(graph.nodes):
        target = Target(spec, index, lambda shape: Value(next(fresh), tuple(shape)), flops(node))
        plain = naive and node.op == "matmul"
        lowered = _naive_product(node, target) if plain else LOWERINGS[node.op](node, target)
        made.append(Op(node, lowered.steps, lowered.aliases))
    return tuple(made)


def _naive_product(node: Node, target: Target) -> Lowered:
    assert not node.words("epilogue"), f"{node} is fused"
    steps, sides = list[Step](), list[Value]()
    for side, flag in zip(node.inputs, ("ta", "tb"), strict=True):
        if node.flag(flag):
            turned = target.scratch((side.shape[1], side.shape[0]))
            move = Node("transpose", (side,), (turned,), {"order": (1, 0)})
            steps += LOWERINGS["transpose"](move, target).steps
            side = turned
        sides.append(side)
    (m, k), n = sides[0].shape, sides[1].shape[1]
    steps.append(NAIVE.step((*sides, node.outputs[0]), {"M": m, "N": n, "K": k}, {},
                            node=target.node, flops=target.flops))
    return Lowered(tuple(steps))


@dataclass(frozen=True)
class _Call:
    """An op with its kernels' arguments set, and the buffers of what goes in and comes out."""

    node: Node
    into: tuple[tuple[int, Any], ...]
    launches: tuple[tuple[Any, tuple[int, ...], tuple[int, ...]], ...]
    out: tuple[tuple[int, Any], ...]


class OneOpAtATime:
    """The step on a device that keeps nothing: all state is on the host between two ops."""

    def __init__(self, on: OpenCLContext, graph: Graph, ops: Sequence[Op],
                 states: Mapping[str, Array], program: Any = None) -> None:
        self._on, self._cl, self._graph = on, on.cl, graph
        self._buffers: dict[int, Any] = {}
        steps = [s for op in ops for s in op.steps]
        self._program = program or on.build(render(steps))
        with on.asking("preparing the kernels"):
            self._calls = [self._prepared(op) for op in ops]
        self._host = {v.id: np.zeros(v.shape, dtype(v.dtype).numpy) for v in graph.values()}
        for state in graph.states:
            self._host[state.before.id][...] = states[state.name]
        self.moved_bytes = sum(op.moved_bytes for op in ops)

    def _prepared(self, op: Op) -> _Call:
        old = {a.new.id: a.old for a in op.aliases}

        def buffer(value: Value) -> Any:
            value = old.get(value.id, value)
            if value.id not in self._buffers:
                self._buffers[value.id] = self._on.buffer(value.nbytes)
            return self._buffers[value.id]
        launches = []
        for step in op.steps:
            self._on.check_launch(step)
            kernel = self._cl.Kernel(self._program, step_instance(step))
            self._on.set_arguments(kernel, step, [(buffer(o.value), 0) for o in step.operands])
            launches.append((kernel, step.global_size, step.local_size))
        into = dict.fromkeys(op.node.inputs) if op.steps else ()
        out = op.node.outputs if op.steps else ()
        return _Call(op.node, tuple((v.id, buffer(v)) for v in into), tuple(launches),
                     tuple((v.id, buffer(v)) for v in out))

    def __call__(self, *batch: Array) -> tuple[Array, ...]:
        """One step on `batch`; afterwards it is done and its results are here."""
        self._run(batch, self._on.queue)
        return tuple(self._host[p.value.id].copy() for p in self._graph.outputs)

    def observe(self, *batch: Array) -> Observed:
        """One step on the profiling queue, with the events of all it did."""
        self._on.queue.finish()
        start_ns = time.perf_counter_ns()
        kernels, copies = self._run(batch, self._on.timed_queue)
        wall_ns = time.perf_counter_ns() - start_ns
        return Observed(wall_ns, tuple(map(self._on.times, kernels)),
                        tuple(map(self._on.times, copies)))

    def _run(self, batch: Sequence[Array], queue: Any) -> tuple[list[Any], list[Any]]:
        """The events of kernels and of copies; every copy blocks until it is done."""
        host, copy, launch = self._host, self._cl.enqueue_copy, self._cl.enqueue_nd_range_kernel
        for port, array in zip(self._graph.inputs, batch, strict=True):
            np.copyto(host[port.value.id], array, casting="same_kind")
        kernels, copies = list[Any](), list[Any]()
        with self._on.asking("a step"):
            for call in self._calls:
                if not call.launches:                   # the same bytes in another shape
                    x, y = call.node.inputs[0], call.node.outputs[0]
                    host[y.id] = host[x.id].reshape(y.shape)
                for key, buffer in call.into:
                    copies.append(copy(queue, buffer, host[key], is_blocking=True))
                for kernel, global_size, local_size in call.launches:
                    kernels.append(launch(queue, kernel, global_size, local_size))
                for key, buffer in call.out:
                    copies.append(copy(queue, host[key], buffer, is_blocking=True))
        for state in self._graph.states:                # new becomes old without a copy
            if state.changes:
                old, new = state.before.id, state.after.id
                host[old], host[new] = host[new], host[old]
        return kernels, copies

    def close(self) -> None:
        """Give the device's memory back."""
        self._on.queue.finish()
        self._on.timed_queue.finish()
        self._calls.clear()
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers.clear()
