"""Graphs and steps as text: the same text for the same product, made for reading and for diffs."""

from __future__ import annotations

from handtorch.graph.node import Graph, Node
from handtorch.graph.step import Step


def node_text(node: Node) -> str:
    outs = ", ".join(map(str, node.outputs))
    ins = ", ".join(f"%{v.id}" for v in node.inputs)
    attrs = " ".join(f"{k}={v!r}" for k, v in node.attrs.items())
    tail = "  # " + " ".join(x for x in (node.phase, node.layer, str(node.where or "")) if x)
    return f"{outs} = {node.op}({ins}){' ' + attrs if attrs else ''}{tail}"


def graph_text(graph: Graph) -> str:
    lines = [f"  input {p.name}: {p.value}" for p in graph.inputs]
    for s in graph.states:
        after = f" -> %{s.after.id}" if s.changes else ""
        order = f" order={s.order!r}" if s.order else ""
        lines.append(f"  {s.role} {s.name}: {s.before}{after}{order}")
    lines += [f"  {node_text(n)}" for n in graph.nodes]
    lines += [f"  output {p.name}: %{p.value.id}" for p in graph.outputs]
    return "\n".join(lines)


def step_text(step: Step) -> str:
    operands = ", ".join(f"{o.access} %{o.value.id}" for o in step.operands)
    defines = " ".join(f"{k}={v}" for k, v in step.defines)
    scalars = " ".join(f"{n}" for _, n in step.scalars)
    shape = f"{'x'.join(map(str, step.global_size))}/{'x'.join(map(str, step.local_size))}"
    return f"{step.kernel}({operands}) [{scalars}] {shape} {defines}".rstrip()
