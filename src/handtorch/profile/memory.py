"""Memory by role, exact, from the plan: over the launches of a step, and at its peak.

Nothing is inferred from a running program. Every stretch of the arena belongs to one role, as long
as the plan says that somebody needs it; sizes are those the plan reserves, alignment included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from handtorch.meters.used import memory_of_process
from handtorch.plan.liveness import Life
from handtorch.plan.plan import aligned
from handtorch.program import Program

PARAMETERS, GRADIENTS, OPTIMIZER = "parameters", "gradients", "optimizer state"
INPUTS, OUTPUTS, INTERMEDIATES = "inputs", "outputs", "intermediates"
WORKSPACE, BUFFERS, CONSTANTS = "workspace", "buffers", "constants"
SLACK = "slack"             # held by nobody: between two values of the arena, or for steps to come
ALIVE, MOST_ALIVE = "alive at the peak", 30         # a moment; how many have a row of their own
ROLES = (PARAMETERS, GRADIENTS, OPTIMIZER, INPUTS, OUTPUTS, INTERMEDIATES, WORKSPACE, BUFFERS,
         CONSTANTS)
_OF_STATE = {"parameter": PARAMETERS, "buffer": BUFFERS, "optimizer": OPTIMIZER,
             "hyper": OPTIMIZER, "rng": BUFFERS, "constant": CONSTANTS, "accumulator": GRADIENTS}


@dataclass(frozen=True)
class Held:
    """Bytes by role: `over[role][i]` while launch `i` runs, `peak` at the launch with the most.

    `peak` with its slack is all that the device holds for the program."""

    over: Mapping[str, tuple[int, ...]]
    peak: Mapping[str, int]
    peak_launch: int


def held(program: Program, ring: int) -> Held:
    """`ring` is how many steps have a place for their batch and results at once."""
    plan = program.plan
    launches = max(len(program.steps), 1)
    over = {role: np.zeros(launches, np.int64) for role in ROLES}
    roles = _roles(program)
    for life in plan.lives:
        over[roles[life.root]][life.first:life.last + 1] += aligned(life.nbytes)
    over[INPUTS] += plan.staging_in_bytes
    over[OUTPUTS] += plan.staging_out_bytes
    total = np.sum(list(over.values()), axis=0)
    at = int(total.argmax())
    peak = {role: int(line[at]) for role, line in over.items()}
    whole = plan.peak_bytes + ring * (plan.staging_in_bytes + plan.staging_out_bytes)
    return Held({role: tuple(map(int, line)) for role, line in over.items()},
                {**peak, SLACK: whole - sum(peak.values())}, at)


def alive(program: Program, launch: int, shown: int = MOST_ALIVE) -> dict[str, int]:
    """Who holds the arena while `launch` runs, by name, the largest first: "intermediates: matmul
    in fc1", "parameters: fc1.weight". Beyond `shown` of them the rest is one entry for each role.
    """
    graph = program.graph
    states = {v.id: s.name for s in graph.states for v in (s.before, s.after)}
    maker = {v.id: n for n in graph.nodes for v in n.outputs}
    roles = _roles(program)
    found: Counter[str] = Counter()
    for life in program.plan.lives:
        if life.first <= launch <= life.last:
            name = next((states[v] for v in life.members if v in states), "")
            node = next((maker[v] for v in life.members if v in maker), None)
            if not name and node is not None:
                name = f"{node.op} in {node.layer or node.phase}"
            found[f"{roles[life.root]}: {name}" if name else roles[life.root]] += aligned(
                life.nbytes)
    named = dict(found.most_common(shown))
    rest: Counter[str] = Counter()
    for name, nbytes in found.items():
        if name not in named:
            rest[f"{name.split(':')[0]}: others"] += nbytes
    return {**named, **rest}


def changes(line: tuple[int, ...]) -> list[tuple[int, int]]:
    """(launch, bytes) at the first launch and wherever it changes: enough to draw the line."""
    return [(i, n) for i, n in enumerate(line) if i == 0 or n != line[i - 1]]


def process_peak_bytes() -> int:
    """The most this process has ever had in memory, weights of other programs and Python too."""
    return memory_of_process("VmHWM")


def _roles(program: Program) -> dict[int, str]:
    """The role of each stretch of the arena, by its root.

    What is left of a backward pass for the optimizer to read is a gradient, also where it is
    scaled or clipped on the way; gradients of feature maps come and go, and are intermediates."""
    graph = program.graph
    of_state = {v.id: _OF_STATE[s.role] for s in graph.states for v in (s.before, s.after)}
    known = {v.id for v in graph.values()}
    made_in = {v.id: n.phase for n in graph.nodes for v in n.outputs}
    read_by_update = {v.id for n in graph.nodes if n.phase == "optimizer" for v in n.inputs}
    gradients = {v for v in read_by_update if made_in.get(v) == "backward"}

    def role(life: Life) -> str:
        for value in life.members:
            if value in of_state:
                return of_state[value]
        if not gradients.isdisjoint(life.members):
            return GRADIENTS
        return INTERMEDIATES if not known.isdisjoint(life.members) else WORKSPACE

    return {life.root: role(life) for life in program.plan.lives}
