"""What computes a model's outputs: torch on the CPU, or ours on an OpenCL device.

An engine takes any number of rows up to its own and gives as many. It belongs to one thread, unless
it is made of replicas (`replicas.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from handtorch import knobs
from handtorch.dtypes import dtype
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.api.inference import Inference

Array = NDArray[Any]
Arrays = tuple[Array, ...]
CPU, OPENCL = "cpu", "opencl"
ENGINES = (CPU, OPENCL)


@dataclass(frozen=True)
class Port:
    """An input or output: NumPy's type, and the shape of one row."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Engine:
    """`run(arrays)` gives the outputs for all rows; `place` is what a user knows it by."""

    kind: str
    place: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    run: Callable[[Arrays], Arrays]
    close: Callable[[], None]
    at_once: int = 1                # batches that threads may run side by side


@dataclass(frozen=True)
class ZooModel:
    """A model of the zoo in one of its forms; None for the shape leaves the form's own pictures.

    Without weights it gets random ones, the same for the same seed."""

    name: str
    form: str = ""
    side: tuple[int, int] | None = None
    weights: Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class File:
    """A `.ht` file; `trust_programs` as for `handtorch infer`."""

    path: Path
    trust_programs: bool = False


Source = ZooModel | File


def open_engine(source: Source, kind: str, device: str | None = None, rows: int = 8) -> Engine:
    """An engine that is ready: weights loaded, everything compiled, every size run once."""
    if kind not in ENGINES:
        raise BadInput(f"no engine {kind!r}", why=f"there is {' and '.join(ENGINES)}")
    if isinstance(source, File):
        if kind == CPU:
            raise BadInput(f"{source.path} on the engine cpu", why="torch does not read .ht files",
                           fix="--engine opencl; a CPU is an OpenCL device too")
        return _of_file(source, device)
    return _torch(source) if kind == CPU else _opencl(source, device, rows)


def _of_file(source: File, device: str | None) -> Engine:
    from handtorch.api.load import load_inference
    from handtorch.runtime.epoch import batch_rows
    model = load_inference(source.path, device, trust_programs=source.trust_programs)
    inputs, outputs = (tuple(Port(p.name, dtype(p.value.dtype).numpy, tuple(p.value.shape[1:]))
                             for p in ports)
                       for ports in (model.program.graph.inputs, model.program.graph.outputs))
    run = _compiled({batch_rows(model.program.graph.inputs): model}, inputs)
    return Engine(OPENCL, model.device_name, inputs, outputs, run, model.close)


def _opencl(source: ZooModel, device: str | None, rows: int) -> Engine:
    """Compiled for one row and for a full batch: a lone request does not pay for seven others."""
    from handtorch.api.make import inference
    from handtorch.zoo.serving import example_inputs, served_model
    model = served_model(source.name, source.form, source.seed, read_weights(source))
    models = {size: inference(
        model, example=example_inputs(source.name, source.form, size, source.side), device=device)
        for size in sorted({1, rows})}

    def close() -> None:
        for made in models.values():
            made.close()
    inputs = _ports("input", _examples(source))
    run = _compiled(models, inputs)
    return Engine(OPENCL, models[1].device_name, inputs, _ports("output", run(_zeros(inputs, 1))),
                  run, close)


def _torch(source: ZooModel) -> Engine:
    """torch's threads sleep while they wait for each other, unless the user says otherwise.

    They would spin, each on a core that the server needs: a batch of four took 15 to 25 ms instead
    of 1 to 3 with eight clients on two cores. Holds where torch is not loaded yet."""
    if not knobs.loader_setting("OMP_WAIT_POLICY"):
        knobs.set_for_loader("OMP_WAIT_POLICY", "passive")
    from handtorch.baseline.torch_call import torch_calls
    from handtorch.zoo.serving import served_model
    call = torch_calls(served_model(source.name, source.form, source.seed, read_weights(source)))
    given = _examples(source)
    return Engine(CPU, "torch", _ports("input", given), _ports("output", call(given)), call,
                  lambda: None)


def _compiled(models: Mapping[int, Inference], inputs: tuple[Port, ...]
              ) -> Callable[[Arrays], Arrays]:
    """`models` by the rows they were made for; the smallest that holds all rows takes them."""
    sizes = sorted(models)

    def run(arrays: Arrays) -> Arrays:
        size = next((s for s in sizes if s >= len(arrays[0])), sizes[-1])
        return models[size].over(*arrays)
    for size in sizes:
        run(_zeros(inputs, size))           # the first call of each is slower than the others
    return run


def _examples(source: ZooModel) -> Arrays:
    from handtorch.zoo.serving import example_inputs
    return tuple(np.asarray(x) for x in
                 example_inputs(source.name, source.form, 1, source.side))


def _ports(name: str, arrays: Arrays) -> tuple[Port, ...]:
    """The same names on every engine."""
    return tuple(Port(f"{name}{i}" if i else name, x.dtype.name, x.shape[1:])
                 for i, x in enumerate(arrays))


def _zeros(ports: tuple[Port, ...], rows: int) -> Arrays:
    return tuple(np.zeros((rows, *p.shape), p.dtype) for p in ports)


def read_weights(source: ZooModel) -> dict[str, Array] | None:
    """Arrays by the names of torch's state dict, from safetensors or npz: no pickle, ever."""
    if source.weights is None:
        return None
    from handtorch.store.sample import read_arrays
    from handtorch.store.tensors import read_tensors
    if source.weights.suffix == ".npz":
        return read_arrays(source.weights)
    return read_tensors(source.weights)[0]
