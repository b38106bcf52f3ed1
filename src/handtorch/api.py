"""What users call: `train_step`, `inference`, and the objects they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.graph.device_spec import DeviceSpec
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.choose import open_executor
from handtorch.runtime.device import Executor, Ticket
from handtorch.runtime.session import Session

Array = NDArray[Any]


class Loss:
    """A loss on its way: `float(loss)` waits for the step that makes it."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket

    def __float__(self) -> float:
        return float(self.ticket.result()[0])

    def item(self) -> float:
        return float(self)

    def __repr__(self) -> str:
        return f"Loss({float(self):.6g})"


class TrainStep:
    """One training step, compiled and resident: weights and optimizer state stay on the device.

    Calling it queues a step and returns at once; at most a few steps are ever under way."""

    def __init__(self, session: Session, rates: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self._session = session
        self._rates = [(name, group, float(group["lr"])) for name, group in rates]

    @property
    def program(self) -> Program:
        return self._session.program

    @property
    def resident(self) -> Any:
        return self._session.resident

    def __call__(self, *batch: Any, timed: bool = False) -> Loss:
        """Train on one batch. A learning rate changed in the torch optimizer counts from here."""
        for i, (name, group, last) in enumerate(self._rates):
            if group["lr"] != last:
                self._rates[i] = (name, group, float(group["lr"]))
                self._session.resident.write_state(name, np.array([group["lr"]], "f4"))
        return Loss(self._session.run(batch, timed=timed))

    def sync_to(self, model: Any, optimizer: Any = None) -> None:
        """Weights and buffers go back into the torch `model`; optimizer state if one is given."""
        from handtorch.capture.step import copy_into, copy_into_optimizer
        names = _names(self.program)
        copy_into(model, self._session.read([*names["parameter"], *names["buffer"]]))
        if optimizer is not None:
            copy_into_optimizer(optimizer, model, self._session.read(names["optimizer"]))

    def close(self) -> None:
        """Give the device's memory back."""
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)


class Inference:
    """A model compiled for one batch shape; calling it gives NumPy arrays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def program(self) -> Program:
        return self._session.program

    def __call__(self, *batch: Any) -> Array | tuple[Array, ...]:
        outputs = self._session.run(batch).result()
        return outputs[0] if len(outputs) == 1 else outputs

    def close(self) -> None:
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)


def train_step(model: Any, loss_fn: Any, optimizer: Any, *, example: Sequence[Any],
               device: str | None = None) -> TrainStep:
    """Capture, compile and load the step `optimizer` on `loss_fn(model(x), y)`.

    `example` is a batch like those to come; only its shapes and types matter. The torch objects
    keep their values: training happens on the device's copy until `sync_to`."""
    from handtorch.capture.step import capture_train_step
    executor = open_executor(device)
    captured = capture_train_step(model, loss_fn, optimizer, example)
    program = compile_graph(captured.graph, executor.spec)
    return TrainStep(_session(executor, program, captured.states), captured.rates)


def inference(model: Any, *, example: Sequence[Any], device: str | None = None) -> Inference:
    """Capture, compile and load `model` in eval mode for batches like `example`."""
    from handtorch.capture.step import capture_inference
    executor = open_executor(device)
    captured = capture_inference(model, example)
    program = compile_graph(captured.graph, executor.spec)
    return Inference(_session(executor, program, captured.states))


def _session(executor: Executor, program: Program, states: Any) -> Session:
    return Session(executor, program, states)


def _names(program: Program) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {"parameter": [], "buffer": [], "optimizer": [], "hyper": []}
    for state in program.graph.states:
        names[state.role].append(state.name)
    return names


def describe(program: Program, spec: DeviceSpec) -> str:
    """Launches, bytes across the bus, memory, and what is alive at its peak."""
    plan, graph = program.plan, program.graph
    lines = [f"{len(program.steps)} launches a step on {spec.name}",
             f"{program.bytes_crossing():,} bytes cross a step: "
             + ", ".join(f"{p.name} {p.value.nbytes:,}" for p in (*graph.inputs, *graph.outputs)),
             f"{plan.peak_bytes:,} bytes of arena at the peak, floor {plan.floor_bytes:,}, "
             f"of which {plan.lasting_bytes:,} last between steps"]
    state = {s.before.id: s.name for s in graph.states}
    value = {v.id: v for v in graph.values()}
    maker = {v.id: n for n in graph.nodes for v in n.outputs}
    if plan.alive_at_peak:
        lines.append(f"alive at the peak, launch {plan.peak_step} "
                     f"({program.steps[plan.peak_step].kernel}):" if program.steps else "")
    alive = sorted((value[k] for k in plan.alive_at_peak if k in value),
                   key=lambda v: (-v.nbytes, v.id))
    for v in alive[:8]:
        made = maker.get(v.id)
        name = state.get(v.id) or (f"{made.op} of {made.layer or made.phase}" if made else "")
        lines.append(f"  {v.nbytes:>12,}  {v}  {name}")
    if len(alive) > 8:
        lines.append(f"  {sum(v.nbytes for v in alive[8:]):>12,}  {len(alive) - 8} more")
    return "\n".join(lines)
