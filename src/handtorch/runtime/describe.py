"""A program in words: what a step costs, what lives at its peak, where launches come from."""

from __future__ import annotations

from handtorch.errors import BadInput
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.parts import ACCUMULATOR
from handtorch.program import Program

_SHOWN = 8


def describe(program: Program, spec: DeviceSpec) -> str:
    """Launches, bytes across the bus, memory, and what is alive at its peak."""
    plan, graph = program.plan, program.graph
    ports = (*graph.inputs, *graph.outputs)
    once = f", after {len(program.once)} that prepare its weights once" if program.once else ""
    again = sum(program.node_of(s).phase == "recompute" for s in program.steps)
    made = f", {again} of which make again what is not kept" if again else ""
    lines = [f"{len(program.steps)} launches a step on {spec.name}{made}{once}",
             f"{program.bytes_crossing():,} bytes cross a step: "
             + ", ".join(f"{p.name} {p.value.nbytes:,}" for p in ports),
             f"{plan.peak_bytes:,} bytes of arena at the peak, floor {plan.floor_bytes:,}, "
             f"of which {plan.lasting_bytes:,} last between steps{_sums(program)}"]
    if program.steps and plan.alive_at_peak:
        lines += [f"alive at the peak, launch {plan.peak_step} "
                  f"({program.steps[plan.peak_step].kernel}):", *_alive(program)]
    return "\n".join(lines)


def _sums(program: Program) -> str:
    """What micro-batches add to memory: a second set of gradients, if you like."""
    held = sum(s.before.nbytes for s in program.graph.states if s.role == ACCUMULATOR)
    return f", of which {held:,} add up gradients" if held else ""


def _alive(program: Program) -> list[str]:
    graph = program.graph
    state = {s.before.id: s.name for s in graph.states}
    value = {o.value.id: o.value for s in program.all_steps for o in s.operands}
    value |= {v.id: v for v in graph.values()}
    maker = {v.id: n for n in graph.nodes for v in n.outputs}
    alive = sorted((value[k] for k in program.plan.alive_at_peak),
                   key=lambda v: (-v.nbytes, v.id))
    lines = []
    for v in alive[:_SHOWN]:
        made = maker.get(v.id)
        name = state.get(v.id) or (f"{made.op} of {made.layer or made.phase}" if made
                                   else "workspace")
        lines.append(f"  {v.nbytes:>14,}  {v}  {name}")
    if len(alive) > _SHOWN:
        rest = alive[_SHOWN:]
        lines.append(f"  {sum(v.nbytes for v in rest):>14,}  {len(rest)} more")
    return lines


def explain(program: Program, layer: str | None = None) -> str:
    """Every launch of `layer` (a module's path, or one that begins with it; None: of all), with
    its phase and the source line it comes from."""
    rows = []
    for number, step in enumerate(program.steps):
        node = program.node_of(step)
        if layer is None or node.layer == layer or node.layer.startswith(f"{layer}."):
            rows.append((str(number), step.kernel, node.op, node.phase, node.layer or "-",
                         str(node.where or "-")))
    if not rows:
        known = sorted({program.node_of(s).layer for s in program.steps} - {""})
        raise BadInput(f"no launch belongs to layer {layer!r}",
                       why=f"the program has {', '.join(known)}", fix="name one of these")
    head = ("launch", "kernel", "op", "phase", "layer", "from")
    wide = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, wide, strict=True)).rstrip()
                     for r in (head, *rows))
