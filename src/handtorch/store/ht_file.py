"""A whole `.ht` file: its graphs, every state they share, and what ties them to torch.

It is a safetensors file (`store/tensors.py`) whose tensors are the states by name; the rest is
JSON in its notes. `docs/format.md` has it byte for byte."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.dtypes import dtype
from handtorch.errors import BadFile, StorageError
from handtorch.graph.node import Graph, State
from handtorch.graph.ties import KINDS, Home, Outputs
from handtorch.store import limits
from handtorch.store.graph_json import graph_from_json, graph_to_json
from handtorch.store.programs import Built, from_json, to_json
from handtorch.store.stamp import made_by
from handtorch.store.suspect import (
    Suspect,
    one_of,
    parsed,
    record,
    rows,
    shown,
    whole,
    word,
)
from handtorch.store.tensors import read_tensors, write_tensors

Array = NDArray[Any]
# 1 is a plain step or model, 2 has micro-batches, 3 has compiled programs and may have both.
FORMAT, VERSION = "handtorch", 3
_NOTES = ("format", "format_version", "made_by", "description")
_MOST_STEPS = 1 << 53
_PROGRAM = "handtorch.compiled."            # begins the names of tensors that hold binaries


@dataclass(frozen=True)
class Part:
    """A captured graph, and how its results are handed back."""

    graph: Graph
    outputs: Outputs


@dataclass(frozen=True)
class Micro:
    """The training graph's batch is run in so many parts; `graph` is the step captured for fewer
    rows, from which with the whole one that of a part is made."""

    parts: int
    graph: Graph


@dataclass(frozen=True)
class HtFile:
    """`states` has an array for each state of all graphs; states of one name are one."""

    train: Part | None
    infer: Part | None
    states: Mapping[str, Array]
    homes: tuple[Home, ...] = ()
    steps: int = 0                        # trained so far
    made_by: str = ""                     # known of a file that was read
    micro: Micro | None = None
    programs: tuple[Built, ...] = ()      # code: see `store/programs.py` before one is run

    def all_states(self) -> list[State]:
        """Every state once. Those of one name in two graphs must be alike, else Suspect."""
        graphs = [part.graph for part in (self.train, self.infer, self.micro) if part is not None]
        return _states(graphs)


def write_ht(path: Path, held: HtFile) -> None:
    """`path` holds all of it, or what it held before. Nothing is written that `read_ht` would
    refuse."""
    told: dict[str, Any] = {"homes": [_home_to_json(h) for h in held.homes], "steps": held.steps}
    for name, part in (("train", held.train), ("infer", held.infer)):
        if part is not None:
            told[name] = {"graph": graph_to_json(part.graph),
                          "outputs": {"kind": part.outputs.kind,
                                      "names": list(part.outputs.names)}}
    if held.micro is not None:
        told["micro"] = {"parts": held.micro.parts, "graph": graph_to_json(held.micro.graph)}
    programs = {f"{_PROGRAM}{i}": built for i, built in enumerate(held.programs)}
    if programs:
        told["programs"] = [to_json(built, name) for name, built in programs.items()]
    version = 3 if programs else 1 if held.micro is None else 2
    notes = {"format": FORMAT, "format_version": str(version), "made_by": made_by(),
             "description": json.dumps(told, separators=(",", ":"), allow_nan=False)}
    try:
        arrays = {s.name: np.asarray(held.states[s.name], dtype(s.before.dtype).numpy)
                  for s in held.all_states()}
        arrays |= {n: np.frombuffer(built.binary, "u1") for n, built in programs.items()}
        _held(arrays, notes)
    except Suspect as e:                  # found out now, while there is still a step to save
        raise StorageError(f"{path} was not written", why=f"nobody could read it: {e}",
                           fix="a smaller step; if this one is ordinary, it is our fault") from e
    write_tensors(path, arrays, notes)


def read_ht(path: Path, *, mapped: bool = False) -> HtFile:
    """All of a file, checked; nothing of it was run, and nothing but `programs` could be.

    `mapped` as of `read_tensors`."""
    arrays, notes = read_tensors(path, sealed=True, mapped=mapped)
    _check_version(path, notes)
    try:
        return _held(arrays, notes)
    except Suspect as e:
        raise BadFile(f"{path} cannot be used", why=str(e),
                      fix="another copy of the file, or one written anew") from e


def _check_version(path: Path, notes: Mapping[str, str]) -> None:
    if notes.get("format") != FORMAT:
        raise BadFile(f"{path} is no .ht file", why="its notes do not name the format",
                      fix="a file that step.save or Inference.save wrote")
    version = notes.get("format_version", "")
    if not (version.isascii() and version.isdigit() and len(version) < 10 and int(version) >= 1):
        raise BadFile(f"{path} cannot be used", why=f"its format version is {shown(version)}")
    if int(version) > VERSION:
        raise BadFile(f"{path} is written in version {int(version)} of the format",
                      why=f"this HandTorch reads versions up to {VERSION}; the file is by "
                          f"{shown(notes.get('made_by', 'an unnamed program'))}",
                      fix="a newer HandTorch")


def _held(arrays: Mapping[str, Array], notes: Mapping[str, str]) -> HtFile:
    record(dict(notes), "the head", _NOTES)
    more = {1: (), 2: ("micro",)}.get(int(notes["format_version"]), ("programs",))
    allowed = ("train", "infer", *(["micro"] if "programs" in more else []))
    told = record(parsed(notes["description"]), "the description", ("homes", "steps", *more),
                  allowed)
    train, infer = (_part(told[name], name) if name in told else None
                    for name in ("train", "infer"))
    if train is None and infer is None:
        raise Suspect("it holds no graph")
    micro = _micro(told["micro"], train) if "micro" in told else None
    states = HtFile(train, infer, {}, micro=micro).all_states()
    for state in states:
        _check_array(state, arrays.get(state.name))
    programs = rows(told.get("programs", []), "programs", limits.MOST_PROGRAMS,
                    lambda one: _built(one, arrays, {s.name for s in states}))
    tensors = [one["tensor"] for one in told.get("programs", [])]
    if unknown := arrays.keys() - {s.name for s in states} - set(tensors):
        raise Suspect(f"it holds {shown(min(unknown))}, which no graph knows")
    if len(set(tensors)) < len(tensors):
        raise Suspect("two of its programs are one tensor")
    homes = rows(told["homes"], "homes", limits.MOST_VALUES, _home)
    known = {s.name for s in states if s.role == "optimizer"}
    for home in homes:
        if home.state not in known:
            raise Suspect(f"a home is that of {shown(home.state)}, which is no optimizer's state")
    return HtFile(train, infer, {s.name: arrays[s.name] for s in states}, homes,
                  whole(told["steps"], "the number of steps", 0, _MOST_STEPS),
                  notes["made_by"], micro, programs)


def _built(told: Any, arrays: Mapping[str, Array], states: Collection[str]) -> Built:
    made_for, mac, tensor = from_json(told)
    array = arrays.get(tensor)
    if array is None or array.dtype.name != "uint8" or array.ndim != 1 or tensor in states:
        raise Suspect(f"its program {shown(tensor)} is no tensor of bytes")
    return Built(made_for, array.tobytes(), mac)


def _micro(told: Any, train: Part | None) -> Micro:
    if train is None:
        raise Suspect("it has micro-batches of no training graph")
    told = record(told, "micro", ("parts", "graph"))
    return Micro(whole(told["parts"], "the number of micro-batches", 2, limits.MOST_ELEMENTS),
                 graph_from_json(told["graph"]))


def _part(told: Any, name: str) -> Part:
    told = record(told, name, ("graph", "outputs"))
    ways = record(told["outputs"], f"the outputs of {name}", ("kind", "names"))
    outputs = Outputs(one_of(ways["kind"], f"how {name} gives its outputs", KINDS),
                      rows(ways["names"], f"the outputs of {name}", limits.MOST_PORTS,
                           lambda n: word(n, "an output's name", limits.LONGEST_NAME)))
    graph = graph_from_json(told["graph"])
    most = {"one": 1, "none": 0}.get(outputs.kind, limits.MOST_PORTS)
    if outputs.names != tuple(p.name for p in graph.outputs) or len(outputs.names) > most or (
            outputs.kind == "one" and not outputs.names):
        raise Suspect(f"the outputs of {name} are not those of its graph")
    return Part(graph, outputs)


def _states(graphs: Sequence[Graph]) -> list[State]:
    found: dict[str, State] = {}
    for graph in graphs:
        for state in graph.states:
            before = found.setdefault(state.name, state).before
            if (before.shape, before.dtype) != (state.before.shape, state.before.dtype):
                raise Suspect(f"{shown(state.name)} is {before} in one graph and {state.before} "
                              "in another")
    return list(found.values())


def _check_array(state: State, array: Array | None) -> None:
    if array is None:
        raise Suspect(f"it has no tensor {shown(state.name)}")
    want = dtype(state.before.dtype).numpy
    if array.shape != state.before.shape or array.dtype.name != want:
        raise Suspect(f"its tensor {shown(state.name)} is {array.dtype.name}{list(array.shape)}, "
                      f"and its graph has {want}{list(state.before.shape)}")


def _home_to_json(home: Home) -> dict[str, Any]:
    return {"state": home.state, "optimizer": home.optimizer, "key": home.key,
            "params": list(home.params), "kind": home.kind}


def _home(told: Any) -> Home:
    told = record(told, "a home", ("state", "optimizer", "key", "params", "kind"))
    state, key, kind = (word(told[name], f"a home's {name}", limits.LONGEST_NAME)
                        for name in ("state", "key", "kind"))
    return Home(state, whole(told["optimizer"], "a home's optimizer", 0, limits.MOST_PORTS), key,
                rows(told["params"], "a home's params", limits.MOST_VALUES,
                     lambda n: word(n, "a parameter's name", limits.LONGEST_NAME)), kind)
