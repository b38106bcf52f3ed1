"""Recurrent layers: which launches run one on a device; the numbers are in `tuned/rnn.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

GATES = {"tanh": 1, "relu": 1, "gru": 3, "lstm": 4}
_CELLS = {name: i for i, name in enumerate(GATES)}        # the macro CELL
_PACK_GROUP = 16
_LEAST_ITEMS = 2                # of a step of a gradient, for each compute unit
_TURNED, _PACK_ITEMS = 16, 32   # in vectors so wide weights are packed in tiles, by so many items


def _pack_geometry(defines: Defines, sizes: Sizes) -> Geometry:
    h, run, group = int(sizes["H"]), int(sizes["RUN"]), number(defines, "GROUP")
    runs = ceil_div(ceil_div(int(sizes["IN"]), run) + ceil_div(h, run), group) * group
    return (runs, ceil_div(h, number(defines, "V"))), (group, 1)


def _loop_geometry(defines: Defines, sizes: Sizes) -> Geometry:
    rows = ceil_div(int(sizes["BATCH"]), number(defines, "R"))
    return (rows, int(sizes["ACROSS"])), (1, number(defines, "WG"))


_LOOP = dict.fromkeys(("BATCH", "H", "TIME", "S0", "S1", "START", "STEP", "B_STEP"), "int")
PACK = Kernel("rnn_pack", (), _pack_geometry, dict.fromkeys(("H", "IN", "RUN"), "int"),
              {"GROUP": _PACK_GROUP, "GATES": 4, "V": 4, "BACK": 0, "FED": 0})
FORWARD = Kernel("rnn_forward", (), _loop_geometry, {**_LOOP, "IN": "int"},
                 {"CELL": 3, "SAVE": 1, "STATES": 1, "BIAS": 0, "FED": 0, "INPUT_BIAS": 0, "R": 2,
                  "V": 4, "WG": 1})
BACKWARD = Kernel("rnn_backward", (), _loop_geometry, _LOOP,
                  {"CELL": 3, "STATES": 1, "DY": 1, "DH": 1, "DC": 1, "R": 2, "N": 1, "RN": 2,
                   "V": 4, "WG": 1})
KERNELS: tuple[Kernel, ...] = (PACK, FORWARD, BACKWARD)


@dataclass(frozen=True)
class WeightsTile:
    """How `weights_grad` is cut: vectors of V, how many of them, the rows worth trying beside
    them, rows of D taken at a time, parts for each compute unit, and the most weights."""

    width: int
    vectors: int
    rows: tuple[int, ...]
    chunk: int
    parts: int
    most: int


@dataclass(frozen=True)
class Far:
    """What holds for layers with more bytes of weights than stay in the nearest cache; the width is
    that of items with several sequences."""

    bytes: int
    width: int
    rows: Mapping[int, float]


@dataclass(frozen=True)
class Tuning:
    """One entry of the table."""

    kinds: tuple[str, ...]
    float_width: int
    width: int
    group: int
    stepped: int
    fed_bytes: int
    vectors: Mapping[int, int]
    rows: Mapping[int, float]
    far: Far | None
    weights: WeightsTile | None


@cache
def _table() -> tuple[Tuning, ...]:
    text = (files("handtorch.kernels") / "tuned" / "rnn.json").read_text()
    return tuple(_tuning(entry) for entry in json.loads(text)["devices"])


def _tuning(entry: dict[str, Any]) -> Tuning:
    def rates(rows: dict[str, float]) -> Mapping[int, float]:
        return MappingProxyType({int(r): float(rate) for r, rate in rows.items()})
    tile, far = entry.get("weights"), entry.get("far")
    weights = tile and WeightsTile(tile["V"], tile["MV"], tuple(tile["J"]), tile["chunk"],
                                   tile["parts"], tile["most"])
    return Tuning(tuple(entry["kinds"]), entry["float_width"], entry["V"], entry["group"],
                  entry["stepped"], entry["fed_bytes"],
                  MappingProxyType({int(r): n for r, n in entry["vectors"].items()}),
                  rates(entry["rows"]),
                  far and Far(far["bytes"], far["V"], rates(far["rows"])), weights)


def tuning_for(spec: DeviceSpec) -> Tuning:
    """The entry of this kind of device with the widest vectors that it has."""
    fitting = [t for t in _table() if spec.kind in t.kinds and t.float_width <= spec.float_width]
    assert fitting, f"tuned/rnn.json has no entry for a {spec.kind} of width 1"
    return max(fitting, key=lambda t: t.float_width)


@dataclass(frozen=True)
class Layer:
    """The shape of one layer in one direction, and where its rows lie.

    `inputs` are what the loop itself multiplies with the input weights in each step; 0 where that
    product is given to it."""

    cell: str                               # "tanh", "relu", "gru" or "lstm"
    batch: int
    time: int
    hidden: int
    batch_first: bool = False
    reverse: bool = False
    inputs: int = 0

    def rows(self, backward: bool) -> dict[str, int]:
        """Row of step s of sequence b: START + s STEP + b B_STEP."""
        step, across = (1, self.time) if self.batch_first else (self.batch, 1)
        start = 0
        if self.reverse != backward:
            start, step = (self.time - 1) * step, -step
        return {"START": start, "STEP": step, "B_STEP": across}

    @property
    def work(self) -> int:
        """Multiply-adds of one step of one sequence; as many weights."""
        return GATES[self.cell] * self.hidden * (self.inputs + self.hidden)


@dataclass(frozen=True)
class Choice:
    """How a layer runs: R sequences and vectors of V units an item, WG items a group, and whether
    each time step is a launch of its own. The gradient takes so many `vectors` of units at a
    time."""

    rows: int
    width: int
    group: int
    stepped: bool
    vectors: int = 1


def choose(layer: Layer, spec: DeviceSpec) -> Choice:
    """The cheapest number of rows, then all steps in one launch unless a step is large."""
    tuning = tuning_for(spec)
    far = tuning.far if _is_far(layer, tuning) else None
    rates = far.rows if far else tuning.rows

    def cost(rows: int) -> float:
        # As for products: about one group for each unit is lost when the last ones run out. The
        # units of a step of its own are shared out too.
        stepped = layer.work * rows > tuning.stepped
        blocks = ceil_div(layer.hidden, tuning.width * tuning.group) if stepped else 1
        groups = ceil_div(layer.batch, rows) * blocks
        return (groups + spec.compute_units) / blocks * rows / rates[rows]
    rows = min((r for r in rates if r == 1 or r <= layer.batch), key=cost)
    width, widest = 1, far.width if far and rows > 1 else tuning.width
    while width * 2 <= min(widest, layer.hidden):
        width *= 2
    group = 1
    while group * 2 <= min(tuning.group, layer.hidden // width, spec.max_work_group):
        group *= 2
    stepped = layer.work * rows > tuning.stepped
    vectors = _vectors(layer, spec, rows, width, stepped) if group == 1 else 1
    return Choice(rows, width, group, stepped, vectors)


def _vectors(layer: Layer, spec: DeviceSpec, rows: int, width: int, stepped: bool) -> int:
    """How many vectors a gradient takes at a time: of a step of its own no more than leave every
    compute unit some items."""
    most = tuning_for(spec).vectors.get(rows, 1) if rows > 1 or not stepped else 1
    items = layer.hidden // width * ceil_div(layer.batch, rows)
    least = _LEAST_ITEMS * spec.compute_units if stepped else 0
    return next(n for n in (4, 2, 1) if n == 1 or (
        n <= most and layer.hidden % (n * width) == 0 and items >= n * least))


def _is_far(layer: Layer, tuning: Tuning) -> bool:
    """Whether its weights come from afar in each step; a layer whose steps are, or would become,
    launches is none of these."""
    return (tuning.far is not None and 4 * layer.work > tuning.far.bytes
            and layer.work * max(tuning.far.rows) <= tuning.stepped)


def feeds_itself(layer: Layer, spec: DeviceSpec) -> bool:
    """Whether the loop had better do its product with the inputs too: all steps are one launch,
    and the weights of both products stay in the nearest cache from one step to the next."""
    fits = 4 * layer.work <= tuning_for(spec).fed_bytes
    return fits and not choose(layer, spec).stepped


def pack_steps(layer: Layer, weights: Sequence[Value], back: bool, choice: Choice, *, node: int,
               scratch: Callable[[Shape], Value]) -> tuple[Value, Step]:
    """The weights in the order the loop reads them: the input weights [gates H, inputs] first, if
    it multiplies with them, then the recurrent ones [gates H, H]."""
    gates, width, fed = GATES[layer.cell], choice.width, int(layer.inputs > 0)
    assert len(weights) == 1 + fed, f"{len(weights)} weights of {layer}"
    blocks, depth = ceil_div(layer.hidden, width), layer.inputs + layer.hidden
    packed = scratch((blocks, depth, gates, width))
    run, group = 1, _PACK_GROUP
    if width == _TURNED:
        run, group = _TURNED * ceil_div(depth * blocks, _TURNED * _PACK_ITEMS), 1
    return packed, PACK.step((*weights, packed),
                             {"H": layer.hidden, "IN": layer.inputs, "RUN": run},
                             {"GATES": gates, "V": width, "BACK": int(back), "FED": fed,
                              "GROUP": group},
                             node=node, access=("r",) * len(weights) + ("w",))


def loop_steps(kernel: Kernel, layer: Layer, choice: Choice, reads: Sequence[Value],
               writes: Sequence[Value], defines: Mapping[str, int], *, node: int, flops: int
               ) -> tuple[Step, ...]:
    """The launches of FORWARD or BACKWARD over all time steps: one, or one for each step.

    The operands, `reads` then `writes`, are in the kernel's order."""
    back = kernel is BACKWARD
    steps = layer.time + (defines["STATES"] if back else 0)
    vectors = choice.vectors if back else 1
    blocks = layer.hidden // (vectors * choice.width) if choice.stepped else 1
    across = ceil_div(blocks, choice.group) * choice.group
    macros = {**defines, "CELL": _CELLS[layer.cell], "R": choice.rows, "V": choice.width,
              "WG": choice.group}
    macros |= ({"N": vectors, "RN": vectors * choice.rows} if back else
               {"FED": int(layer.inputs > 0)})
    sizes = {"BATCH": layer.batch, "H": layer.hidden, "TIME": layer.time, "ACROSS": across,
             "IN": layer.inputs, **layer.rows(back)}
    runs = [(s, s + 1) for s in range(steps)] if choice.stepped else [(0, steps)]
    # What the first launch begins the next ones go on with.
    made = (kernel.step((*reads, *writes), {**sizes, "S0": first, "S1": last}, macros, node=node,
                        access=["r"] * len(reads) + ["rw" if first else "w"] * len(writes),
                        flops=flops // len(runs)) for first, last in runs)
    return tuple(replace(s, bytes=s.bytes // len(runs)) for s in made)


