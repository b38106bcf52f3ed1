"""The one list of stages from a captured Graph to a Program; opens no device.

With HANDTORCH_DUMP=dir every stage's product is written there as text, in order."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType

from handtorch import knobs
from handtorch.errors import BadInput, StorageError
from handtorch.graph.check import check
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph, Node, Port, State, Value, Where
from handtorch.graph.step import Operand, Step
from handtorch.graph.text import graph_text, step_text
from handtorch.kernels.results import checked_results, results_name
from handtorch.lower.lower import lower_graph
from handtorch.passes.cross_entropy import fuse_cross_entropy
from handtorch.passes.epilogue import fuse_epilogues
from handtorch.passes.fuse import fuse_pointwise
from handtorch.passes.gradients import join_weight_gradients
from handtorch.passes.layout import channels_last
from handtorch.passes.masks import narrow_masks
from handtorch.passes.order import order
from handtorch.passes.recompute import recompute
from handtorch.passes.recurrent import fuse_input_products
from handtorch.passes.rewrite import without_dead
from handtorch.passes.settle import settle
from handtorch.passes.tape import Tape, make_tape
from handtorch.passes.trade import spare
from handtorch.passes.update import fuse_updates
from handtorch.passes.views import fold_views
from handtorch.passes.weights import taps_first
from handtorch.plan.arena import make_plan
from handtorch.plan.cost import (
    Roofline,
    Shape,
    estimated,
    moving_nodes,
    node_times_ns,
    workspace_bytes,
)
from handtorch.plan.liveness import Life
from handtorch.plan.plan import Place, Plan
from handtorch.plan.proof import prove
from handtorch.program import Program
from handtorch.store.graph_json import graph_to_json
from handtorch.store.kept import keep, kept

PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("dead code", without_dead),
    ("layout", channels_last),
    ("weights", taps_first),
    ("cross-entropy", fuse_cross_entropy),
    ("views", fold_views),
    ("epilogues", fuse_epilogues),
    ("recurrent layers", fuse_input_products),
    ("updates", fuse_updates),
    ("weight gradients", join_weight_gradients),
    ("masks", narrow_masks),
    ("point-wise regions", fuse_pointwise),
    ("settle", settle),
    ("order", order),
)

_NONE: Mapping[Shape, float] = MappingProxyType({})
WORTH_KEEPING = 200           # nodes; fewer are compiled in the time that it takes to look
# What a Program is made of, and all that is made from a file.
_PARTS = (Program, Graph, Node, Value, Where, Port, State, Step, Operand, Plan, Place, Life,
          DeviceSpec)


def compile_graph(graph: Graph, spec: DeviceSpec) -> Program:
    """A proven Program for `spec`; the same graph, spec and tuned results give the same Program.

    Tuned results are those in `spec`, or else those kept for its device and driver. A large one
    is kept, and not made again from the same graph by the same version of this package."""
    spec, dump = with_tuned(spec), _Dump(knobs.dump_folder())
    if dump.folder is not None or len(graph.nodes) < WORTH_KEEPING:
        return _made(graph, spec, dump)
    name = _name(graph, spec)
    program = kept(name, _PARTS)
    if not isinstance(program, Program):
        program = _made(graph, spec, dump)
        keep(name, program)
    return program


def _made(graph: Graph, spec: DeviceSpec, dump: _Dump) -> Program:
    return _spared(_finished(_prepared(graph, dump), spec, dump), dump)


def _name(graph: Graph, spec: DeviceSpec) -> str:
    """Differs wherever the program could: in the graph and its lines, the device with what was
    tuned on it, the time that may be spent on memory, or the compiler."""
    told = json.dumps([_package(), sys.version, repr(spec), knobs.spare_share(),
                       graph_to_json(graph)])
    return hashlib.sha256(told.encode()).hexdigest()


@cache
def _package() -> str:
    return sources()


def sources(without: Collection[str] = ()) -> str:
    """The SHA-256 of this package's files as they are now, but for those of the rooms `without`:
    while it is worked on, its version says nothing."""
    found, root = hashlib.sha256(), Path(__file__).parent
    for path in sorted(p for p in root.rglob("*.*") if p.suffix in (".py", ".cl", ".h")):
        name = path.relative_to(root)
        if name.parts[0] not in without:
            data = path.read_bytes()
            found.update(f"{name} {len(data)}\0".encode() + data)
    return found.hexdigest()


def prepared(graph: Graph) -> Graph:
    """A captured graph after all passes: what would be lowered, in the order in which it runs."""
    return _prepared(graph, _Dump(None))


def finished(graph: Graph, spec: DeviceSpec) -> Program:
    """The proven Program of a graph that all passes have seen."""
    check(graph, "all passes")
    return _finished(graph, with_tuned(spec), _Dump(knobs.dump_folder()))


def spared(whole: Program) -> Program:
    """`whole`, or one that holds less and takes next to no more time: what is nearly free to make
    again on the way back is not kept (ADR 35). Results are the same bit for bit."""
    return _spared(whole, _Dump(knobs.dump_folder()))


def _spared(whole: Program, dump: _Dump) -> Program:
    graph, steps, share = whole.graph, whole.steps, knobs.spare_share()
    if not share or not any(n.phase == "backward" for n in graph.nodes):
        return whole
    tape = tape_of(whole, estimated(whole.spec))
    found = spare(tape.only(moving_nodes(steps, estimated(whole.spec))), share)
    if not found.drops:
        return whole
    smaller = recompute(tape, found.drops)
    check(smaller, "spared")
    dump("spared", lambda: graph_text(smaller))
    program = _finished(smaller, whole.spec, dump)
    return program if program.plan.peak_bytes < whole.plan.peak_bytes else whole


def tape_of(program: Program, roofline: Roofline, taken_ns: Mapping[Shape, float] = _NONE
            ) -> Tape:
    """What a program holds at each of its nodes, with times as `taken_ns` or by the roofline."""
    graph, count = program.graph, len(program.graph.nodes)
    return make_tape(graph, node_times_ns(program.steps, count, roofline, taken_ns),
                     workspace_bytes(program.steps, count, {v.id for v in graph.values()}))


def _prepared(graph: Graph, dump: _Dump) -> Graph:
    sound: dict[int, Node] = {}

    def seen(name: str, graph: Graph) -> Graph:
        check(graph, name, sound)
        dump(name, lambda: graph_text(graph))
        return graph
    graph = seen("capture", graph)
    for name, stage in PASSES:
        graph = seen(name, stage(graph))
    return graph


def _finished(graph: Graph, spec: DeviceSpec, dump: _Dump) -> Program:
    lowered = lower_graph(graph, spec)
    dump("lower", lambda: "\n".join(map(step_text, lowered.all_steps)))
    plan = make_plan(graph, lowered, largest_allocation_bytes=spec.largest_allocation_bytes)
    prove(graph, lowered, plan)
    program = Program(graph, lowered.steps, plan, spec, lowered.once)
    dump("program", program.text)
    return program


class TunedWarning(UserWarning):
    """Tuned results that cannot be used; everything works, as if nothing had been tuned."""


def tuned_file(spec: DeviceSpec) -> Path:
    """Where the user's own results for this device and driver lie, if there are any."""
    return knobs.cache_folder() / "tuned" / results_name(spec)


def with_tuned(spec: DeviceSpec) -> DeviceSpec:
    """`spec` and what was tuned on its device and driver: by the user, else as shipped with the
    package. One that has results already stays as it is."""
    if spec.tuned or spec.avoid:
        return spec
    for place, data in _kept(spec):
        try:
            told = checked_results(place, data, spec)
        except BadInput as e:
            warnings.warn(f"not used: {e}", TunedWarning, stacklevel=3)
            continue
        return replace(spec, tuned=tuple(sorted(told["best"].items())),
                       avoid=tuple(sorted(told["avoid"])))
    return spec


def _kept(spec: DeviceSpec) -> Iterator[tuple[str, bytes]]:
    places: tuple[Traversable, ...] = (tuned_file(spec), shipped() / results_name(spec))
    for place in places:
        try:
            yield str(place), place.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as e:
            warnings.warn(f"tuned results {place}: {e.strerror}", TunedWarning, stacklevel=4)


def shipped() -> Traversable:
    """The folder of results that come with the package."""
    return files("handtorch.kernels") / "tuned"


class _Dump:
    """Numbers the stages, so that a folder lists them in order; a text is made only for one."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self._count = folder, 0

    def __call__(self, stage: str, text: Callable[[], str]) -> None:
        if self.folder is None:
            return
        path = self.folder / f"{self._count:02d}-{stage.replace(' ', '-')}.txt"
        self._count += 1
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text() + "\n")
        except OSError as e:
            raise StorageError(f"HANDTORCH_DUMP: {path}", why=str(e.strerror),
                               fix="a folder that can be written, or unset HANDTORCH_DUMP") from e
