"""A step or a model into a `.ht` file, and what a step needs to give its model for inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from handtorch.errors import BadInput, HandTorchError
from handtorch.graph.node import Graph
from handtorch.graph.ties import Home, Outputs
from handtorch.passes.accumulate import MicroBatched
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.device import Executor
from handtorch.runtime.opencl.carry import programs_of
from handtorch.store.ht_file import HtFile, Micro, Part, write_ht
from handtorch.store.programs import Built

Array = NDArray[Any]
APART = "infer."


class SavedWithout(UserWarning):
    """A file was written whole, but without something one could have expected in it."""


@dataclass(frozen=True)
class Kept:
    """A graph with what its states start with, as a capture gives it, but of no torch object."""

    graph: Graph
    states: Mapping[str, Array]
    outputs: Outputs
    homes: tuple[Home, ...] = ()
    follows: tuple[Any, ...] = ()


# Gives the compiled programs that go into a file, of the step and of the inference beside it.
Compiled = Callable[[Part | None], tuple[Built, ...]]


def no_programs(_: Part | None) -> tuple[Built, ...]:
    return ()


# Gives the model's inference, with its weights as they were at any time; refuses if there is none.
Inferring = Callable[[], Kept]


def beside(train: Graph, captured: Any) -> Kept:
    """An inference of the model that `train` trains, with its weights under the same names.

    Constants and random numbers are each graph's own, and get names of their own."""
    trained = {s.name: s.before for s in train.states}
    names = {s.name: f"{APART}{s.name}" if s.role in ("constant", "rng") else s.name
             for s in captured.graph.states}
    for state in captured.graph.states:
        twin = trained.get(names[state.name])
        if state.role not in ("constant", "rng") and (
                twin is None or (twin.shape, twin.dtype) != (state.before.shape,
                                                             state.before.dtype)):
            raise BadInput(f"{state.name} of the model is {state.before}",
                           why=f"the step trains {twin or 'nothing of that name'}",
                           fix="a model that stays as it was when the step was made")
    graph = replace(captured.graph, states=tuple(replace(s, name=names[s.name])
                                                 for s in captured.graph.states))
    states = {names.get(name, name): array for name, array in captured.states.items()}
    return Kept(graph, states, captured.outputs)


def without_copies(captured: Any) -> Any:
    """`captured`, once its states are on the device: of them only constants are asked for again,
    and the rest would be a second copy of the model, or keep torch's alive."""
    kept = {s.name: captured.states[s.name] for s in captured.graph.states if s.role == "constant"}
    return replace(captured, states=kept)


def save_step(path: Path, captured: Any, infer: Inferring, held: Mapping[str, Array], steps: int,
              made: MicroBatched | None = None, compiled: Compiled = no_programs) -> None:
    """The training graph with the states `held` now and, if the model has one, its inference;
    `compiled` gives the programs to keep with it.

    A step in micro-batches is the whole one, what was captured for fewer rows, and their number."""
    inferring = None
    states = dict(held)
    try:
        kept = infer()
    except HandTorchError as e:
        warnings.warn(f"{path} is saved without a graph for inference: {e.what}"
                      + (f": {e.why}" if e.why else ""), SavedWithout, stacklevel=4)
    else:
        inferring = Part(kept.graph, kept.outputs)
        states |= {s.name: kept.states[s.name] for s in kept.graph.states if s.name not in states}
    graph = captured.graph if made is None else made.whole
    micro = None if made is None else Micro(made.parts, captured.graph)
    write_ht(path, HtFile(Part(graph, captured.outputs), inferring, states, captured.homes, steps,
                          micro=micro, programs=compiled(inferring)))


def save_inference(path: Path, captured: Any, held: Mapping[str, Array],
                   programs: tuple[Built, ...] = ()) -> None:
    write_ht(path, HtFile(None, Part(captured.graph, captured.outputs), held, programs=programs))


def compiled_here(executor: Executor, program: Program, carried: tuple[Built, ...],
                  infer: Part | None) -> tuple[Built, ...]:
    """The programs of a step and its inference for the device they are on, beside those `carried`
    for others. Results are the same with and without."""
    more = [] if infer is None else [compile_graph(infer.graph, executor.spec)]
    return programs_of(executor, [program, *more], carried)


def no_inference() -> Kept:
    """What a step of the user's own function, or of a file without one, has to say."""
    raise BadInput("this step has no graph for inference",
                   why="only train_step(model, loss_fn, optimizer, ...) and the files saved from "
                       "it know which part of the step is the model",
                   fix="ht.inference(model, example=...)")
