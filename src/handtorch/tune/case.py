"""A variant on random data, with the right answer beside it: lowered as any program's would be that
it is chosen for, the answer by the reference in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from handtorch.errors import OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph, Node
from handtorch.graph.opset import flops
from handtorch.kernels.case import Array, Case
from handtorch.kernels.variant import Problem, Variant
from handtorch.lower.lower import lower_graph
from handtorch.runtime.ref.ops import run_node
from handtorch.tune.families import family_of


def check_room(problem: Problem, spec: DeviceSpec) -> None:
    """Refuse before NumPy and the driver take the machine's memory."""
    node = family_of(problem).node(problem, "plain")
    sizes = [v.nbytes for v in (*node.inputs, *node.outputs)]
    need, limit = sum(sizes), spec.global_bytes // 2
    if need > limit or max(sizes) > spec.largest_allocation_bytes:
        raise OutOfMemory(f"{problem} takes {need} B, twice that with its answer",
                          why=f"{spec.name} has {spec.global_bytes} B, "
                              f"{spec.largest_allocation_bytes} B in one allocation")


@lru_cache(maxsize=3)                       # all the work of one problem
def _data(problem: Problem, work: str) -> tuple[Node, Mapping[int, Array], Mapping[int, Array]]:
    """The node, random operands by value id, and the right answers by value id."""
    node = family_of(problem).node(problem, work)
    rng = np.random.default_rng(sum(problem.sizes()))
    given = {v.id: rng.standard_normal(v.shape, np.float32) for v in node.inputs}
    right = run_node(node, *(x.astype("f8") for x in given.values()))
    return node, given, {v.id: x for v, x in zip(node.outputs, right, strict=True)}


def case_of(problem: Problem, variant: Variant, spec: DeviceSpec, work: str) -> Case:
    """The problem by this very variant; `work` is one of the family's."""
    assert variant.fits(problem, spec), f"{variant} cannot compute {problem} on {spec.name}"
    node, given, want = _data(problem, work)
    chosen = replace(spec, tuned=((str(problem), str(variant)),), avoid=())
    lowered = lower_graph(Graph((node,), (), (), ()), chosen)
    operands = {o.value.id for s in lowered.steps for o in s.operands}
    kept = {i: x for i, x in given.items() if i in operands}
    # What is changed in place has its successor's name in the launches.
    kept |= {a.new.id: given[a.old.id] for a in lowered.aliases}
    # Rounding errors of random sign, each relative to a product of normal numbers.
    depth = flops(node) // (2 * node.outputs[0].size)
    return Case(f"{problem} {variant} {work}", lowered.steps, kept, want,
                1e-6 * max(4, depth) ** 0.5)
