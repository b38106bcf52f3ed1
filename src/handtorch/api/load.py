"""`.ht` files back to life, without torch: `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from handtorch.api.inference import Inference
from handtorch.api.keep import Kept, no_inference
from handtorch.api.make import opened
from handtorch.api.step import TrainStep
from handtorch.errors import BadFile, OutOfMemory, tells_the_callers_line
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.device import Executor
from handtorch.runtime.session import Session
from handtorch.store.ht_file import HtFile, Part, read_ht

Array = NDArray[Any]


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
        return Inference(_session(Path(path), executor, kept.graph, kept.states), kept)
    kept = _kept(held, held.train)
    infer = no_inference if held.infer is None else partial(_kept, held, held.infer)
    return TrainStep(_session(Path(path), executor, kept.graph, kept.states), kept, infer=infer,
                     steps=held.steps, check_finite=check_finite)


@tells_the_callers_line
def load_inference(path: str | os.PathLike[str], device: str | None = None) -> Inference:
    """The model of a file, with the weights it has there; the step that trains it is not made."""
    held = read_ht(Path(path))
    kept = no_inference() if held.infer is None else _kept(held, held.infer)
    return Inference(_session(Path(path), opened(device), kept.graph, kept.states), kept)


def _kept(held: HtFile, part: Part) -> Kept:
    return Kept(part.graph, held.states, part.outputs, held.homes)


def _session(path: Path, executor: Executor, graph: Any, states: Mapping[str, Array]) -> Session:
    """The checks of a file know every op; what they let through all the same ends here."""
    try:
        program = compile_graph(graph, executor.spec)
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as e:
        raise BadFile(f"{path} cannot be used", why=f"its graph cannot be compiled: {e}",
                      fix="another copy of the file, or one written anew") from e
    _check_memory(path, program)
    return Session(executor, program, states)


def _check_memory(path: Path, program: Program) -> None:
    """A small file may ask for much; what no memory here can hold is not even begun."""
    plan = program.plan
    need = sum(plan.bank_bytes) + plan.staging_in_bytes + plan.staging_out_bytes
    have = max(program.spec.global_bytes, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if need > have:
        raise OutOfMemory(f"{path} asks for {need} B of memory",
                          why=f"the device and this computer have {have} B at most",
                          fix="a step made with a smaller batch")
