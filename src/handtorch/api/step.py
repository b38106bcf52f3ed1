"""TrainStep: one training step, compiled and resident."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.api.budget import Fitted
from handtorch.api.given import as_given, listed
from handtorch.api.loss import Loss, Losses, Watch
from handtorch.api.rates import FollowedGroup
from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.graph.node import ROLES
from handtorch.graph.ops.random import seed_words
from handtorch.passes.accumulate import MicroBatched
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
                 made: MicroBatched | None = None, fitted: Fitted | None = None) -> None:
        self._session, self._captured, self._made = session, captured, made
        self.fitted = fitted
        self._watch = Watch(session) if check_finite else None
        self._groups = [FollowedGroup(f) for f in captured.follows]

    @property
    def program(self) -> Program:
        return self._session.program

    @property
    def resident(self) -> Any:
        return self._session.resident

    @tells_the_callers_line
    def __call__(self, *batch: Any, timed: bool = False, **named: Any) -> Any:
        """Train on one batch. A learning rate changed in the torch optimizer counts from here."""
        if named:
            raise BadInput(f"inputs by name: {', '.join(named)}", why="they go by their place",
                           fix=f"step({', '.join(p.name for p in self._session.graph.inputs)})")
        for group in self._groups:
            if group.moved():
                self._session.resident.write_state(group.state, np.array([group.rate], "f4"))
        return self._handles(self._session.run(batch, timed=timed))

    @tells_the_callers_line
    def stage(self) -> tuple[Array, ...]:
        """The inputs of the next call as arrays where the device will read them: fill them and
        give them to the call, and nothing is copied. After it they are not to be touched."""
        if self._made is not None:
            raise BadInput("stage() of a step that accumulates",
                           why=f"a batch goes to the device in {self._made.parts} parts, each to a "
                               "place of its own",
                           fix="the batch as arrays; step.epoch(...) works")
        return self._session.stage()

    @tells_the_callers_line
    def epoch(self, *arrays: Any, seed: int | None = None) -> Iterator[Any]:
        """Steps over whole arrays in memory, once: yields what the call gives for each batch.

        With a `seed` the rows come in the order `np.random.default_rng(seed).permutation(rows)`,
        the same on every machine, and are gathered where the device will read them; without one
        they come as they lie. A last batch that is not whole is left out, as by a DataLoader with
        drop_last=True. The arrays are checked here, before the first step."""
        return Epoch(self._session.graph, arrays, seed, step=self, stage=self._session.stage)

    def _handles(self, ticket: Ticket) -> Losses:
        outputs, step = self._captured.outputs, self._session.steps
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
        told = describe(self.program, self._session.executor.spec)
        if self.fitted is not None:
            told = f"{told}\n{self.fitted.text()}"
        if self._made is None:
            return told
        parts, rows = self._made.parts, self._made.rows
        return (f"{parts} micro-batches of {rows // parts} rows and one update a step; of each "
                f"micro-batch:\n{told}")


def _names(program: Program) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {role: [] for role in ROLES}
    for state in program.graph.states:
        names[state.role].append(state.name)
    return names
