"""TrainStep: one training step, compiled and resident."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.api.budget import Fitted
from handtorch.api.checkpoint import saving, state_for, write_checkpoint
from handtorch.api.given import as_given, listed
from handtorch.api.inference import Inference
from handtorch.api.keep import (
    Inferring,
    compiled_here,
    no_inference,
    no_programs,
    save_step,
)
from handtorch.api.loss import Loss, Losses, Watch
from handtorch.api.pause import Gate, Pausable
from handtorch.api.rates import FollowedGroup, checked_rate
from handtorch.api.state import STEPS, checked_state, read_state, write_states
from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.graph.node import ROLES
from handtorch.graph.ops.random import seed_words
from handtorch.graph.parts import ACCUMULATOR
from handtorch.passes.accumulate import MicroBatched
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.describe import describe, explain
from handtorch.runtime.device import Ticket
from handtorch.runtime.epoch import Epoch
from handtorch.runtime.session import Session
from handtorch.store.programs import Built

Array = NDArray[Any]


class TrainStep(Pausable):
    """One training step, compiled and resident: weights and optimizer state stay on the device.

    Calling it queues a step and returns at once; at most a few steps are ever under way.

    >>> step = ht.train_step(model, loss_fn, optimizer, example=(x, y))
    >>> step
    10 launches a step on ...
    """

    def __init__(self, session: Session, captured: Any, *, check_finite: bool = True,
                 infer: Inferring = no_inference, steps: int = 0,
                 made: MicroBatched | None = None, fitted: Fitted | None = None,
                 carried: tuple[Built, ...] = ()) -> None:
        self._carried = carried                 # programs of the file it came from, of any device
        self._session, self._captured, self._made = session, captured, made
        self._infer, self._steps_before, self.fitted = infer, steps, fitted
        self._watch = Watch(session) if check_finite else None
        self._groups = [FollowedGroup(f) for f in captured.follows]
        self._gate = Gate()

    @property
    def program(self) -> Program:
        """The launches that were compiled, their places in memory and their source.

        >>> len(step.program.steps), step.program.plan.peak_bytes
        (10, 2048)
        """
        return self._session.program

    @property
    def session(self) -> Session:
        """The resident program behind names and checked batches; `ht.profile` listens there.

        >>> [port.name for port in step.session.graph.inputs]
        ['x', 'y']
        """
        return self._session

    @property
    def resident(self) -> Any:
        """What lies on the device, with counters of what was launched and what crossed the bus.

        >>> float(step(x, y)) > 0 and step.resident.counters.steps > 0
        True
        """
        return self._session.resident

    @property
    def device_name(self) -> str:
        """The name of the OpenCL device it runs on, as its driver gives it.

        >>> step.device_name in str(step)
        True
        """
        return self._session.executor.spec.name

    @property
    def steps(self) -> int:
        """How many steps have been trained, those before it was saved and loaded included.

        >>> before = step.steps
        >>> loss = step(x, y)
        >>> step.steps - before
        1
        """
        return self._steps_before + self._session.steps

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rate of each parameter group.

        >>> step.rates
        (0.1,)
        """
        if self._groups:
            return tuple(group.asked() for group in self._groups)
        return tuple(float(self._session.resident.read_state(name)[0])
                     for name in _names(self.program)["hyper"])

    @tells_the_callers_line
    def set_rate(self, rate: float, group: int = 0) -> None:
        """The learning rate of a parameter group, from the next step on. A step that follows a
        torch optimizer has it changed there too.

        >>> step.set_rate(0.05)
        >>> optimizer.param_groups[0]["lr"]
        0.05
        >>> step.set_rate(0.1)
        """
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
        """Train on one batch. A learning rate changed in the torch optimizer counts from here.

        >>> loss = step(x, y)                       # returns at once
        >>> float(loss) > 0                         # waits
        True
        """
        if named:
            raise BadInput(f"inputs by name: {', '.join(named)}", why="they go by their place",
                           fix=f"step({', '.join(p.name for p in self._session.graph.inputs)})")
        if self._gate.attended:
            self._gate.passing(self._session.resident.finish)
        for group in self._groups:
            if group.moved():
                self._session.resident.write_state(group.state, np.array([group.rate], "f4"))
        return self._handles(self._session.run(batch, timed=timed))

    @tells_the_callers_line
    def stage(self) -> tuple[Array, ...]:
        """The inputs of the next call as arrays where the device will read them: fill them and
        give them to the call, and nothing is copied. After it they are not to be touched.

        >>> inputs = step.stage()
        >>> inputs[0][:], inputs[1][:] = x, y
        >>> float(step(*inputs)) > 0
        True
        """
        if self._made is not None:
            raise BadInput("stage() of a step that accumulates",
                           why=f"a batch goes to the device in {self._made.parts} parts, each to a "
                               "place of its own",
                           fix="the batch as arrays; step.epoch(...) works")
        return self._session.stage()

    @tells_the_callers_line
    def epoch(self, *arrays: Any, seed: int | None = None, start: int = 0) -> Iterator[Any]:
        """Steps over whole arrays in memory, once: yields what the call gives for each batch.

        With a `seed` the rows come in the order `np.random.default_rng(seed).permutation(rows)`,
        the same on every machine, and are gathered where the device will read them; without one
        they come as they lie. A last batch that is not whole is left out, as by a DataLoader with
        drop_last=True. The arrays are checked here, before the first step.

        `start` batches are left out at the beginning, which were done before an interruption: the
        rest comes in the same order.

        >>> xs, ys = np.ones((30, 4), "f4"), np.zeros(30, "i4")
        >>> len([float(loss) for loss in step.epoch(xs, ys, seed=0)])
        3
        """
        return Epoch(self._session.graph, arrays, seed, start, step=self,
                     stage=self._session.stage)

    def _handles(self, ticket: Ticket) -> Losses:
        outputs, step = self._captured.outputs, self.steps
        return as_given(outputs, [Loss(ticket, i, name, step, self._watch)
                                   for i, name in enumerate(outputs.names)])

    @tells_the_callers_line
    def sync_to(self, model: Any, optimizer: Any = None) -> None:
        """Weights and buffers go back into the torch `model`; optimizer state if one is given.

        A step made with several models or optimizers takes lists of them, in the same order.

        >>> step.sync_to(model, optimizer)
        """
        from handtorch.capture.hand_back import copy_into, copy_into_optimizers
        models, names = listed(model), _names(self.program)
        weights = [n for n in (*names["parameter"], *names["buffer"])
                   if not n.startswith("loss_fn.")]          # fixed: a trained loss is refused
        copy_into(models, self._session.read(weights))
        if optimizer is not None:
            copy_into_optimizers(listed(optimizer), models, self._captured.homes,
                                 self._session.read(names["optimizer"]))

    @tells_the_callers_line
    def state_dict(self) -> dict[str, Array]:
        """Everything that decides the steps to come, as copies by name, waiting for the steps under
        way: parameters and buffers under torch's names (`model0.NAME` if there are several models;
        tied weights once), optimizer state, learning rates, random numbers, the count of steps.

        >>> list(step.state_dict())[:3]
        ['0.weight', '0.bias', '2.weight']
        """
        return read_state(self._session, self.rates, self.steps)

    @tells_the_callers_line
    def load_state_dict(self, given: Mapping[str, Any]) -> None:
        """The step goes on from this state, as `state_dict()` gave it: arrays or torch tensors.

        Every name must be there, none more, and each must fit, or nothing is changed. Learning
        rates go into the torch optimizer that the step follows; its scheduler, if it has one, has
        a state of its own.

        >>> step.load_state_dict(step.state_dict())
        """
        arrays = checked_state(self._session, given)
        hyper = _names(self.program)["hyper"]
        write_states(self._session, {n: a for n, a in arrays.items() if n not in (*hyper, STEPS)})
        for group, name in enumerate(hyper):
            self.set_rate(float(arrays[name][0]), group)
        self._steps_before = int(arrays[STEPS]) - int(self._session.resident.counters.steps)
        if self._watch is not None:                          # what it saw belongs to another run
            self._watch = Watch(self._session)

    @tells_the_callers_line
    def save_checkpoint(self, path: str | os.PathLike[str], notes: Mapping[str, str] | None = None
                        ) -> None:
        """`path` holds all of `state_dict()`, and `notes` of your own, in the safetensors format.

        Waits for the steps under way. The file is the old one or the whole new one, always.

        >>> step.save_checkpoint("run.safetensors", {"epoch": "3"})
        """
        write_checkpoint(Path(path), self._captured, self.state_dict(), notes or {})

    @tells_the_callers_line
    def load_checkpoint(self, path: str | os.PathLike[str]) -> dict[str, str]:
        """The step goes on where the one stood that wrote the checkpoint, on any device; on the
        same device with the same losses, bit for bit. Gives the notes back.

        A checkpoint of another graph, or a file that was changed, is refused and changes nothing.

        >>> step.save_checkpoint("run.safetensors", {"epoch": "3"})
        >>> step.load_checkpoint("run.safetensors")
        {'epoch': '3'}
        """
        state, notes = state_for(Path(path), self._captured)
        self.load_state_dict(state)
        return notes

    def checkpointing(self, path: str | os.PathLike[str], *, every: int,
                      notes: Callable[[], Mapping[str, str]] = dict
                      ) -> AbstractContextManager[None]:
        """Inside, a checkpoint is written at every step whose number `every` divides, and a last
        one on leaving; also on Ctrl-C, exit() and, in the main thread, SIGTERM, which then ends
        the program. Another error leaves the last one as it is: what went wrong is not kept.

        >>> with step.checkpointing("run.safetensors", every=100):
        ...     loss = step(x, y)
        """
        return saving(every, gate=self._gate, steps=lambda: self.steps,
                      save=lambda: self.save_checkpoint(path, notes()))

    @tells_the_callers_line
    def save(self, path: str | os.PathLike[str], *, programs: bool = False) -> None:
        """`path` holds the step with all its state as it is now, and the model for inference where
        the step knows it; `ht.load` goes on from there on any device, without torch.

        With `programs` the file also holds what this device's driver compiled, of the step and of
        its inference, vouched for by your key (`docs/format.md`): loaded on the same device and
        driver, nothing is compiled. On PoCL that compiles everything once more now.

        Waits for the steps under way. The file is the old one or the whole new one, always.

        >>> step.save("mine.ht")
        """
        held = self._session.read([s.name for s in self.program.graph.states
                                   if s.role != ACCUMULATOR])       # zero between two steps
        rates = dict(zip(_names(self.program)["hyper"], self.rates, strict=True))
        held |= {name: np.array([rate], "f4") for name, rate in rates.items()}
        save_step(Path(path), self._captured, self._infer, held, self.steps, self._made,
                  partial(compiled_here, self._session.executor, self.program, self._carried)
                  if programs else no_programs)

    @tells_the_callers_line
    def inference(self) -> Inference:
        """The model with the weights it has now, for batches like the step's, on the same device.
        Later steps do not change it.

        >>> step.inference()(x).shape
        (8, 2)
        """
        kept, executor = self._infer(), self._session.executor
        mine = [s.name for s in self.program.graph.states]
        states = {**kept.states, **self._session.read(
            [s.name for s in kept.graph.states if s.name in mine])}
        program = replace(compile_graph(kept.graph, executor.spec), built=self.program.built)
        return Inference(Session(executor, program, states), kept)

    @tells_the_callers_line
    def reseed(self, seed: int) -> None:
        """The random numbers of the steps to come start anew, as those of a step made with this
        seed; a step without random numbers has nothing to start.

        >>> step.reseed(1)
        """
        words = np.array(seed_words(seed), "u4")
        if _names(self.program)["rng"]:
            self._session.resident.write_state("rng", words)

    @tells_the_callers_line
    def explain(self, layer: str | None = None) -> str:
        """Every launch of a layer (by its module path; None: all), with the line it comes from.

        >>> print(step.explain("2"))                # of model[2]
        launch  kernel  op      phase    layer  from
        1       ...     matmul  forward  2      ...
        """
        return explain(self.program, layer)

    def close(self) -> None:
        """Give the device's memory back.

        >>> ht.train_step(model, loss_fn, optimizer, example=(x, y)).close()
        """
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
