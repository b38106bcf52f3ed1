"""TrainStep: one training step, compiled and resident."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.api.given import as_given, listed
from handtorch.api.inference import Inference
from handtorch.api.keep import Inferring, no_inference, save_step
from handtorch.api.loss import Loss, Losses, Watch
from handtorch.api.rates import FollowedGroup, checked_rate
from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.graph.node import ROLES
from handtorch.graph.ops.random import seed_words
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.describe import describe, explain
from handtorch.runtime.device import Ticket
from handtorch.runtime.epoch import Epoch
from handtorch.runtime.session import Session

Array = NDArray[Any]


class TrainStep:
    """One training step, compiled and resident: weights and optimizer state stay on the device.

    Calling it queues a step and returns at once; at most a few steps are ever under way."""

    def __init__(self, session: Session, captured: Any, *, check_finite: bool = True,
                 infer: Inferring = no_inference, steps: int = 0) -> None:
        self._session, self._captured = session, captured
        self._infer, self._steps_before = infer, steps
        self._watch = Watch(session) if check_finite else None
        self._groups = [FollowedGroup(f) for f in captured.follows]

    @property
    def program(self) -> Program:
        return self._session.program

    @property
    def resident(self) -> Any:
        return self._session.resident

    @property
    def steps(self) -> int:
        """How many steps have been trained, those before it was saved and loaded included."""
        return self._steps_before + int(self._session.resident.counters.steps)

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rate of each parameter group."""
        if self._groups:
            return tuple(group.asked() for group in self._groups)
        return tuple(float(self._session.resident.read_state(name)[0])
                     for name in _names(self.program)["hyper"])

    @tells_the_callers_line
    def set_rate(self, rate: float, group: int = 0) -> None:
        """The learning rate of a parameter group, from the next step on. A step that follows a
        torch optimizer has it changed there too."""
        names = _names(self.program)["hyper"]
        if not (isinstance(group, int) and 0 <= group < len(names)):
            raise BadInput(f"parameter group {group!r}",
                           why=f"the step has {len(names)} of them, counted from 0")
        rate = checked_rate(rate, f"the learning rate of group {group}")
        if self._groups:
            self._groups[group].ask(rate)
        else:
            self._session.resident.write_state(names[group], np.array([rate], "f4"))

    @tells_the_callers_line
    def __call__(self, *batch: Any, timed: bool = False, **named: Any) -> Any:
        """Train on one batch. A learning rate changed in the torch optimizer counts from here."""
        if named:
            raise BadInput(f"inputs by name: {', '.join(named)}", why="they go by their place",
                           fix=f"step({', '.join(p.name for p in self.program.graph.inputs)})")
        for group in self._groups:
            if group.moved():
                self._session.resident.write_state(group.state, np.array([group.rate], "f4"))
        return self._handles(self._session.run(batch, timed=timed))

    @tells_the_callers_line
    def stage(self) -> tuple[Array, ...]:
        """The inputs of the next call as arrays where the device will read them: fill them and
        give them to the call, and nothing is copied. After it they are not to be touched."""
        staged: tuple[Array, ...] = self._session.resident.stage()
        return staged

    @tells_the_callers_line
    def epoch(self, *arrays: Any, seed: int | None = None) -> Iterator[Any]:
        """Steps over whole arrays in memory, once: yields what the call gives for each batch.

        With a `seed` the rows come in the order `np.random.default_rng(seed).permutation(rows)`,
        the same on every machine, and are gathered where the device will read them; without one
        they come as they lie. A last batch that is not whole is left out, as by a DataLoader with
        drop_last=True. The arrays are checked here, before the first step."""
        return Epoch(self.program.graph, arrays, seed, step=self, stage=self.stage)

    def _handles(self, ticket: Ticket) -> Losses:
        outputs, step = self._captured.outputs, self.steps
        return as_given(outputs, [Loss(ticket, i, name, step, self._watch)
                                   for i, name in enumerate(outputs.names)])

    @tells_the_callers_line
    def sync_to(self, model: Any, optimizer: Any = None) -> None:
        """Weights and buffers go back into the torch `model`; optimizer state if one is given.

        A step made with several models or optimizers takes lists of them, in the same order."""
        from handtorch.capture.hand_back import copy_into, copy_into_optimizers
        models, names = listed(model), _names(self.program)
        weights = [n for n in (*names["parameter"], *names["buffer"])
                   if not n.startswith("loss_fn.")]          # fixed: a trained loss is refused
        copy_into(models, self._session.read(weights))
        if optimizer is not None:
            copy_into_optimizers(listed(optimizer), models, self._captured.homes,
                                 self._session.read(names["optimizer"]))

    @tells_the_callers_line
    def save(self, path: str | os.PathLike[str]) -> None:
        """`path` holds the step with all its state as it is now, and the model for inference where
        the step knows it; `ht.load` goes on from there on any device, without torch.

        Waits for the steps under way. The file is the old one or the whole new one, always."""
        names = [s.name for s in self.program.graph.states]
        save_step(Path(path), self._captured, self._infer, self._session.read(names), self.steps)

    @tells_the_callers_line
    def inference(self) -> Inference:
        """The model with the weights it has now, for batches like the step's, on the same device.
        Later steps do not change it."""
        kept, executor = self._infer(), self._session.executor
        mine = [s.name for s in self.program.graph.states]
        states = {**kept.states, **self._session.read(
            [s.name for s in kept.graph.states if s.name in mine])}
        return Inference(Session(executor, compile_graph(kept.graph, executor.spec), states), kept)

    @tells_the_callers_line
    def reseed(self, seed: int) -> None:
        """The random numbers of the steps to come start anew, as those of a step made with this
        seed; a step without random numbers has nothing to start."""
        words = np.array(seed_words(seed), "u4")
        if _names(self.program)["rng"]:
            self._session.resident.write_state("rng", words)

    @tells_the_callers_line
    def explain(self, layer: str | None = None) -> str:
        """Every launch of a layer (by its module path; None: all), with the line it comes from."""
        return explain(self.program, layer)

    def close(self) -> None:
        """Give the device's memory back."""
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)


def _names(program: Program) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {role: [] for role in ROLES}
    for state in program.graph.states:
        names[state.role].append(state.name)
    return names
