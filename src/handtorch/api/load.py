"""`.ht` files back to life, without torch: `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from handtorch.api.budget import Fitted, Fitting, as_bytes
from handtorch.api.inference import Inference
from handtorch.api.keep import Inferring, Kept, no_inference, without_copies
from handtorch.api.make import opened
from handtorch.api.step import TrainStep
from handtorch.api.within import clock_of, does_not_fit
from handtorch.errors import BadFile, CannotCapture, OutOfMemory, tells_the_callers_line
from handtorch.graph.node import Graph
from handtorch.meters.used import give_back
from handtorch.passes.accumulate import MicroBatched, micro_batched, rows_to_compare
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.device import Executor
from handtorch.runtime.micro import MicroSession
from handtorch.runtime.opencl.carry import programs_for
from handtorch.runtime.session import Session
from handtorch.store.ht_file import HtFile, Micro, Part, read_ht

Array = NDArray[Any]
# What our own code says of a graph that no capture made.
_WRONG = (AssertionError, ArithmeticError, LookupError, TypeError, ValueError)


@tells_the_callers_line
def load(path: str | os.PathLike[str], device: str | None = None, *, check_finite: bool = True,
         memory: str | int | None = None, trust_programs: bool = False) -> TrainStep | Inference:
    """The step or model that `save` wrote, with its state, compiled for the device at hand.

    A file with a training graph gives a TrainStep, which goes on where the saved one stood; one
    with an inference graph alone gives an Inference. torch is not needed. A file is data: whatever
    is in it, nothing of it is run that this package did not make itself, or that your own key does
    not vouch for. With `trust_programs` the compiled programs in it are run whoever made them:
    they can do whatever you can, so only for a file that you would run as a program.

    With `memory="1GiB"` (or a number of bytes) it holds no more than that on the device, as with
    `train_step`; results stay the same bit for bit. Micro-batches are those of the file: others
    need torch, and a step that does not fit in them is refused.

    >>> step.save("mine.ht")
    >>> again = ht.load("mine.ht")                  # here, or on a phone without torch
    >>> again.steps == step.steps
    True
    """
    held, executor = read_ht(Path(path)), opened(device)
    made_for = _Making(Path(path), executor, None if memory is None else as_bytes(memory),
                       programs_for(executor, held.programs, trust=trust_programs))
    if held.train is None:
        assert held.infer is not None
        return _inference(held, held.infer, made_for)
    kept, made = _kept(held, held.train), None
    infer = no_inference if held.infer is None else _own(held.infer, kept)
    if held.micro is not None:
        made = _in_parts(Path(path), held.train.graph, held.micro)
        kept = replace(kept, graph=held.micro.graph)
    program, fitted = made_for(kept.graph if made is None else made.graph)
    session = (Session(executor, program, kept.states) if made is None else
               MicroSession(executor, program, kept.states, made))
    step = TrainStep(session, without_copies(kept), infer=infer, steps=held.steps,
                     check_finite=check_finite, made=made, fitted=fitted, carried=held.programs)
    del held, kept              # a second copy of all states
    give_back()
    return step


@tells_the_callers_line
def load_inference(path: str | os.PathLike[str], device: str | None = None, *,
                   trust_programs: bool = False, mapped: bool = False) -> Inference:
    """The model of a file, with the weights it has there; the step that trains it is not made.

    With `mapped` weights go from the file to the device without a copy of them in between."""
    held, executor = read_ht(Path(path), mapped=mapped), opened(device)
    if held.infer is None:
        no_inference()
    assert held.infer is not None
    return _inference(held, held.infer, _Making(
        Path(path), executor, None, programs_for(executor, held.programs, trust=trust_programs)))


def _inference(held: HtFile, part: Part, made_for: _Making) -> Inference:
    kept = _kept(held, part)
    program, _ = made_for(kept.graph)
    return Inference(Session(made_for.executor, program, kept.states), without_copies(kept),
                     held.programs)


def _own(part: Part, train: Kept) -> Inferring:
    """The model's inference, with the states that the step does not hold on its device."""
    held = {s.name for s in train.graph.states}
    kept = Kept(part.graph, {s.name: train.states[s.name] for s in part.graph.states
                             if s.name not in held}, part.outputs, train.homes)
    return lambda: kept


def _kept(held: HtFile, part: Part) -> Kept:
    return Kept(part.graph, held.states, part.outputs, held.homes)


def _in_parts(path: Path, whole: Graph, micro: Micro) -> MicroBatched:
    """What the step that was saved was made of, made and proven anew."""
    try:
        rows, few = (g.inputs[0].value.shape[0] for g in (whole, micro.graph))
        if rows % micro.parts or few != rows_to_compare(rows, micro.parts):
            raise ValueError(f"{rows} rows in {micro.parts} parts and a step of {few} rows")
        return micro_batched(whole, micro.graph, micro.parts)
    except (CannotCapture, *_WRONG) as e:
        raise BadFile(f"{path} cannot be used", why=f"its micro-batches cannot be made: {e}",
                      fix="another copy of the file, or one written anew") from e


@dataclass(frozen=True)
class _Making:
    """How the graphs of one file become programs: for which device, within which memory, with
    which binaries."""

    path: Path
    executor: Executor
    memory_bytes: int | None
    built: Mapping[str, bytes]

    def __call__(self, graph: Graph) -> tuple[Program, Fitted | None]:
        """The checks of a file know every op; what they let through all the same ends here."""
        try:
            program, fitted = self._within(graph)
        except _WRONG as e:
            raise BadFile(f"{self.path} cannot be used", why=f"its graph cannot be compiled: {e}",
                          fix="another copy of the file, or one written anew") from e
        _check_memory(self.path, program)
        return program, fitted

    def _within(self, graph: Graph) -> tuple[Program, Fitted | None]:
        if self.memory_bytes is None:
            return self._with_binaries(compile_graph(graph, self.executor.spec)), None
        clock = clock_of(self.executor)
        fitting = Fitting(graph, self.executor.spec, None if clock is None else
                          lambda program: clock(self._with_binaries(program)))
        found = fitting.within(self.memory_bytes)
        if found is None:
            raise does_not_fit(fitting, self.memory_bytes,
                               fix="more memory, or a step saved with a smaller batch, or with "
                                   "more micro-batches (accumulate=...), which takes torch")
        return self._with_binaries(found.program), found

    def _with_binaries(self, program: Program) -> Program:
        return replace(program, built=self.built)


def _check_memory(path: Path, program: Program) -> None:
    """A small file may ask for much; what no memory here can hold is not even begun."""
    plan = program.plan
    need = sum(plan.bank_bytes) + plan.staging_in_bytes + plan.staging_out_bytes
    have = max(program.spec.global_bytes, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if need > have:
        raise OutOfMemory(f"{path} asks for {need} B of memory",
                          why=f"the device and this computer have {have} B at most",
                          fix="a step made with a smaller batch")
