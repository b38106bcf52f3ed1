"""`.ht` files back to life, without torch: `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from handtorch.api.inference import Inference
from handtorch.api.keep import Inferring, Kept, no_inference, without_copies
from handtorch.api.make import opened
from handtorch.api.step import TrainStep
from handtorch.errors import BadFile, CannotCapture, OutOfMemory, tells_the_callers_line
from handtorch.graph.node import Graph
from handtorch.passes.accumulate import MicroBatched, micro_batched, rows_to_compare
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.device import Executor
from handtorch.runtime.micro import MicroSession
from handtorch.runtime.session import Session
from handtorch.store.ht_file import HtFile, Micro, Part, read_ht

Array = NDArray[Any]
# What our own code says of a graph that no capture made.
_WRONG = (AssertionError, ArithmeticError, LookupError, TypeError, ValueError)


@tells_the_callers_line
def load(path: str | os.PathLike[str], device: str | None = None, *, check_finite: bool = True
         ) -> TrainStep | Inference:
    """The step or model that `save` wrote, with its state, compiled for the device at hand.

    A file with a training graph gives a TrainStep, which goes on where the saved one stood; one
    with an inference graph alone gives an Inference. torch is not needed. A file is data: whatever
    is in it, nothing of it is run that this package did not make itself."""
    held = read_ht(Path(path))
    executor = opened(device)
    if held.train is None:
        assert held.infer is not None
        kept = _kept(held, held.infer)
        return Inference(_session(Path(path), executor, kept.graph, kept.states),
                         without_copies(kept))
    kept = _kept(held, held.train)
    infer = no_inference if held.infer is None else _own(held.infer, kept)
    if held.micro is not None:
        made = _in_parts(Path(path), held.train.graph, held.micro)
        kept = replace(kept, graph=held.micro.graph)
        session: Session = MicroSession(
            executor, _program(Path(path), executor, made.graph), kept.states, made)
    else:
        made, session = None, _session(Path(path), executor, kept.graph, kept.states)
    return TrainStep(session, without_copies(kept), infer=infer, steps=held.steps,
                     check_finite=check_finite, made=made)


@tells_the_callers_line
def load_inference(path: str | os.PathLike[str], device: str | None = None) -> Inference:
    """The model of a file, with the weights it has there; the step that trains it is not made."""
    held = read_ht(Path(path))
    kept = no_inference() if held.infer is None else _kept(held, held.infer)
    return Inference(_session(Path(path), opened(device), kept.graph, kept.states),
                     without_copies(kept))


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


def _session(path: Path, executor: Executor, graph: Graph, states: Mapping[str, Array]) -> Session:
    return Session(executor, _program(path, executor, graph), states)


def _program(path: Path, executor: Executor, graph: Graph) -> Program:
    """The checks of a file know every op; what they let through all the same ends here."""
    try:
        program = compile_graph(graph, executor.spec)
    except _WRONG as e:
        raise BadFile(f"{path} cannot be used", why=f"its graph cannot be compiled: {e}",
                      fix="another copy of the file, or one written anew") from e
    _check_memory(path, program)
    return program


def _check_memory(path: Path, program: Program) -> None:
    """A small file may ask for much; what no memory here can hold is not even begun."""
    plan = program.plan
    need = sum(plan.bank_bytes) + plan.staging_in_bytes + plan.staging_out_bytes
    have = max(program.spec.global_bytes, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if need > have:
        raise OutOfMemory(f"{path} asks for {need} B of memory",
                          why=f"the device and this computer have {have} B at most",
                          fix="a step made with a smaller batch")
