"""Checkpoints: all of a step's state in one safetensors file, for the same step on any device."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.api.pause import Gate, handled
from handtorch.api.state import KEPT, STEPS
from handtorch.errors import BadFile, BadInput, tells_the_callers_line
from handtorch.graph.node import Graph, Port
from handtorch.graph.text import node_text
from handtorch.store.stamp import made_by
from handtorch.store.tensors import read_tensors, write_tensors

Array = NDArray[Any]

FORMAT, VERSION = "handtorch checkpoint", 1
_USERS = "user."
_TERMINATED = 128 + signal.SIGTERM               # what a shell calls it


def write_checkpoint(path: Path, captured: Any, state: Mapping[str, Array],
                     notes: Mapping[str, str]) -> None:
    """`path` holds all of `state`, what graph it belongs to, and the user's own `notes`."""
    for name, note in notes.items():
        if not (isinstance(name, str) and isinstance(note, str)):
            raise BadInput(f"the note {name!r}: {note!r}", why="notes are texts by name",
                           fix="str(), or json.dumps() and json.loads()")
    told = {"format": FORMAT, "format_version": str(VERSION), "made_by": made_by(),
            "steps": str(int(state[STEPS])), **told_of(captured)}
    write_tensors(path, state, {**told, **{f"{_USERS}{n}": note for n, note in notes.items()}})


@tells_the_callers_line
def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The state in a checkpoint as `state_dict()` gave it, whatever step it is of. An `Inference`
    takes its weights out of it; a step made differently, the batch for example, all of it.

    >>> step.save_checkpoint("run.safetensors")
    >>> infer.load_state_dict(ht.read_checkpoint("run.safetensors"))
    """
    return _read(Path(path))[0]


def state_for(path: Path, captured: Any) -> tuple[dict[str, Array], dict[str, str]]:
    """The state in a checkpoint of the captured graph, and the user's notes; refuses a checkpoint
    of another graph with what differs."""
    state, notes = _read(path)
    mine = told_of(captured)
    if any(notes.get(name) != told for name, told in mine.items()):
        raise BadInput(f"{path} is a checkpoint of another step",
                       why=_difference(captured.graph, state, notes, mine),
                       fix="make the step as it was made then; or, to go on with this one, "
                           "step.load_state_dict(ht.read_checkpoint(path))")
    return state, {n.removeprefix(_USERS): note for n, note in notes.items()
                   if n.startswith(_USERS)}


def _read(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    state, notes = read_tensors(path, sealed=True)
    if notes.get("format") != FORMAT:
        raise BadFile(f"{path} is no checkpoint", why=f"its notes do not say {FORMAT!r}",
                      fix="a file that step.save_checkpoint wrote")
    version = notes.get("format_version", "")
    if version != str(VERSION):
        raise BadFile(f"{path} is a checkpoint of version {version[:20]!r}",
                      why=f"this program, {made_by()}, reads version {VERSION}; the file is by "
                          f"{notes.get('made_by', 'nobody')[:80]}",
                      fix="the program that wrote it, or a newer one")
    return state, notes


@contextmanager
def saving(every: int, *, gate: Gate, steps: Callable[[], int], save: Callable[[], None]
           ) -> Iterator[None]:
    """`save` at the edge of each step whose number `every` divides, and on leaving, unless by an
    error."""
    if type(every) is not int or every < 1:
        raise BadInput(f"every={every!r}", why="it is a number of steps", fix="every=100")
    saved_at = steps()

    def due() -> None:
        nonlocal saved_at
        if steps() % every == 0 and steps() != saved_at:
            save()
            saved_at = steps()

    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            stack.enter_context(handled({signal.SIGTERM: lambda: sys.exit(_TERMINATED)}))
        gate.do_before_each(due)
        stack.callback(gate.do_before_each, None)
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            save()
            raise
        save()


def told_of(captured: Any) -> dict[str, str]:
    """The graph as a few texts: the same for the same training, whatever the device, and wherever
    in the user's files it stands. The first three tell people what differs, the rest that it does.
    """
    graph: Graph = captured.graph
    return {
        "graph.inputs": _ports(graph.inputs), "graph.outputs": _ports(graph.outputs),
        "graph.nodes": str(len(graph.nodes)),
        "graph.states": _hash("\n".join(f"{s.role} {s.name} {s.before} %{s.after.id}"
                                        for s in graph.states).encode()),
        "graph.text": _hash("\n".join(node_text(replace(n, where=None, layer=""))
                                      for n in graph.nodes).encode()),
        "graph.constants": _hash(*(np.ascontiguousarray(captured.states[s.name]).tobytes()
                                   for s in graph.states if s.role == "constant")),
    }


def _difference(graph: Graph, state: Mapping[str, Array], theirs: Mapping[str, str],
                mine: Mapping[str, str]) -> str:
    """The first thing that people would look at."""
    def differs(name: str) -> bool:
        return theirs.get(name) != mine[name]

    held = {s.name: s.before.shape for s in graph.states if s.role in KEPT}
    for name, shape in held.items():
        if name not in state:
            return f"it has no {name}, which is {list(shape)} here"
        if state[name].shape != shape:
            return f"its {name} is {list(state[name].shape)}, and {list(shape)} here"
    if more := [name for name in state if name not in held and name != STEPS]:
        return f"it has {more[0]}, and the step here has nothing of that name"
    for name, word in (("graph.inputs", "a batch"), ("graph.outputs", "what it gives")):
        if differs(name):
            return f"{word} was {theirs.get(name, '')[:200]}, and is {mine[name]} here"
    if differs("graph.nodes"):
        return (f"it was computed in {theirs.get('graph.nodes', '')[:20]} operations, and in "
                f"{mine['graph.nodes']} here")
    if differs("graph.constants") and not differs("graph.text"):
        return "numbers that are fixed in the step were others"
    return ("its operations are others, or have other settings: a rate of dropout, a momentum, "
            "an order")


def _ports(ports: tuple[Port, ...]) -> str:
    return ", ".join(f"{p.name} {p.value.dtype}{list(p.value.shape)}" for p in ports)


def _hash(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()
