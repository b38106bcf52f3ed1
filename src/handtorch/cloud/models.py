"""A model that is served: what it is made of, what it takes, and what it is while it is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from handtorch.cloud.batching import Array, Arrays, Batcher
from handtorch.cloud.engines import Engine, Port, Source
from handtorch.cloud.protocol import BYTES, NUMPY, Request, Tensor, Wanted
from handtorch.cloud.recipes import TOP, Recipe
from handtorch.errors import BadInput

PICTURE = "picture"
_DATATYPE = {np.dtype(code).name: name for name, code in NUMPY.items()}


@dataclass(frozen=True)
class Replicas:
    """How many processes compute a model: as many as are needed, within these bounds."""

    least: int
    most: int


@dataclass(frozen=True)
class Offer:
    """A version of a model that may be loaded: named by whoever started the server.

    `recipe` None leaves the one that fits the input, or none where that is no picture; `replicas`
    None computes it in the server's own process."""

    name: str
    version: str
    source: Source
    engine: str
    device: str | None = None
    recipe: Recipe | None = None
    labels: tuple[str, ...] = ()
    trained: bool = True
    replicas: Replicas | None = None


@dataclass
class Loaded:
    """An offer with its engine; only `threads` ever call it."""

    offer: Offer
    engine: Engine
    recipe: Recipe | None
    batcher: Batcher
    threads: ThreadPoolExecutor
    users: int = 0              # requests that are being answered with it

    @contextmanager
    def used(self) -> Iterator[None]:
        """Meanwhile it is not unloaded."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1


def metadata(loaded: Loaded, versions: Sequence[str]) -> dict[str, Any]:
    """What the protocol tells of a model; `parameters` are ours."""
    offer, engine = loaded.offer, loaded.engine
    told: dict[str, Any] = {
        "name": offer.name, "versions": list(versions),
        "platform": f"handtorch_{engine.kind}",
        "inputs": [_described(p) for p in engine.inputs],
        "outputs": [_described(p) for p in engine.outputs]}
    parameters: dict[str, Any] = {"engine": engine.kind, "place": engine.place,
                                  "max_batch_size": loaded.batcher.limits.rows,
                                  "trained": offer.trained, "labels": bool(offer.labels)}
    if loaded.recipe is not None:
        parameters["picture"] = {"name": PICTURE, "datatype": BYTES, "shape": [-1],
                                 "recipe": loaded.recipe.name,
                                 "shorter_side": loaded.recipe.shorter_side,
                                 "crop": list(loaded.recipe.crop)}
    return {**told, "parameters": parameters}


def config(loaded: Loaded) -> dict[str, Any]:
    """As Triton's clients ask for it; shapes without the row."""
    return {"name": loaded.offer.name, "platform": f"handtorch_{loaded.engine.kind}",
            "max_batch_size": loaded.batcher.limits.rows,
            "input": [_configured(p) for p in loaded.engine.inputs],
            "output": [_configured(p) for p in loaded.engine.outputs]}


def _described(port: Port) -> dict[str, Any]:
    return {"name": port.name, "datatype": _DATATYPE[port.dtype], "shape": [-1, *port.shape]}


def _configured(port: Port) -> dict[str, Any]:
    return {"name": port.name, "data_type": f"TYPE_{_DATATYPE[port.dtype]}",
            "dims": list(port.shape)}


def pictures_of(loaded: Loaded, request: Request) -> tuple[bytes, ...] | None:
    """The picture files of a request; None where it brings tensors."""
    if not any(t.datatype == BYTES for t in request.inputs):
        return None
    tensor = request.inputs[0]
    if len(request.inputs) != 1 or len(tensor.shape) not in (1, 2) or tensor.shape[1:] not in (
            (), (1,)):
        raise BadInput("pictures", why=f"{len(request.inputs)} inputs, the first of shape "
                       f"{list(tensor.shape)}", fix="one input of datatype BYTES and shape [n]")
    if loaded.recipe is None:
        raise BadInput(f"a picture for {loaded.offer.name}", why="its input is no picture",
                       fix=f"tensors: {_kinds(loaded.engine.inputs)}")
    assert isinstance(tensor.values, tuple)
    _check_rows(len(tensor.values), loaded)
    return tensor.values


def arrays_of(loaded: Loaded, request: Request) -> Arrays:
    """The tensors of a request in the order the engine takes them; refuses what does not fit."""
    given = {t.name: t for t in request.inputs}
    ports = loaded.engine.inputs
    if given.keys() != {p.name for p in ports}:
        raise BadInput(f"inputs {', '.join(map(repr, given))}"[:300],
                       why=f"{loaded.offer.name} takes {_kinds(ports)}")
    arrays = tuple(_checked(given[p.name], p) for p in ports)
    rows = {len(a) for a in arrays}
    if len(rows) != 1:
        raise BadInput("inputs of different numbers of rows")
    _check_rows(rows.pop(), loaded)
    return arrays


def _checked(tensor: Tensor, port: Port) -> Array:
    values = tensor.values
    if (isinstance(values, tuple) or values.dtype != np.dtype(port.dtype)
            or tensor.shape[1:] != port.shape or not tensor.shape):
        raise BadInput(f"input {tensor.name!r} is {tensor.datatype}{list(tensor.shape)}",
                       why=f"the model takes {_kinds((port,))}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise BadInput(f"input {tensor.name!r}", why="a number in it is NaN or infinite")
    return values


def _check_rows(rows: int, loaded: Loaded) -> None:
    most = loaded.batcher.limits.rows
    if not 1 <= rows <= most:
        raise BadInput(f"{rows} rows", why=f"a request has 1 to {most}",
                       fix="several requests: they are computed together")


def wanted_of(loaded: Loaded, request: Request, pictures: bool) -> tuple[Wanted, ...]:
    """What to answer with: as asked; else every output, and the top five of a picture."""
    names = [p.name for p in loaded.engine.outputs]
    if not request.wanted:
        return tuple(Wanted(n, request.binary, TOP if pictures else 0) for n in names)
    if unknown := [w.name for w in request.wanted if w.name not in names]:
        raise BadInput(f"no output {unknown[0]!r}", why=f"{loaded.offer.name} has "
                       f"{', '.join(names)}")
    if len({w.name for w in request.wanted}) != len(request.wanted):
        raise BadInput("an output is asked for twice")
    for w in request.wanted:
        if w.classes and len(_port(loaded, w.name).shape) != 1:
            raise BadInput(f"classes of output {w.name!r}", why="it has no score for each class")
    return request.wanted


def answered(loaded: Loaded, wanted: Wanted, rows: Array) -> Tensor:
    """One output as it was asked for."""
    if not wanted.classes:
        return Tensor.of(wanted.name, rows)
    labels, found = loaded.offer.labels, []
    count = min(wanted.classes, rows.shape[1])
    order = np.argsort(-rows, axis=1, kind="stable")[:, :count]     # ties: the lower class first
    for row, best in zip(rows, order, strict=True):
        for i in best.tolist():
            found.append(f"{row[i]:.6f}:{i}" + (f":{labels[i]}" if labels else ""))
    return Tensor.strings(wanted.name, [s.encode() for s in found], (len(rows), count))


def _port(loaded: Loaded, name: str) -> Port:
    return next(p for p in loaded.engine.outputs if p.name == name)


def _kinds(ports: Sequence[Port]) -> str:
    return ", ".join(f"{p.name} as {_DATATYPE[p.dtype]}{[-1, *p.shape]}" for p in ports)
