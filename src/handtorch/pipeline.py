"""The one list of stages from a captured Graph to a Program; opens no device.

With HANDTORCH_DUMP=dir every stage's product is written there as text, in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handtorch import knobs
from handtorch.errors import StorageError
from handtorch.graph.check import check
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph
from handtorch.graph.text import graph_text, step_text
from handtorch.lower.lower import lower_graph
from handtorch.passes.cross_entropy import fuse_cross_entropy
from handtorch.passes.epilogue import fuse_epilogues
from handtorch.passes.fuse import fuse_pointwise
from handtorch.passes.order import order
from handtorch.passes.rewrite import without_dead
from handtorch.passes.settle import settle
from handtorch.passes.update import fuse_updates
from handtorch.passes.views import fold_views
from handtorch.plan.arena import make_plan
from handtorch.plan.proof import prove
from handtorch.program import Program

PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("dead code", without_dead),
    ("views", fold_views),
    ("cross-entropy", fuse_cross_entropy),
    ("epilogues", fuse_epilogues),
    ("updates", fuse_updates),
    ("point-wise regions", fuse_pointwise),
    ("settle", settle),
    ("order", order),
)


def compile_graph(graph: Graph, spec: DeviceSpec) -> Program:
    """A proven Program for `spec`; the same graph and spec give the same Program."""
    dump = _Dump(knobs.dump_folder())
    check(graph, "capture")
    dump("capture", graph_text(graph))
    for name, stage in PASSES:
        graph = stage(graph)
        check(graph, name)
        dump(name, graph_text(graph))
    lowered = lower_graph(graph, spec)
    dump("lower", "\n".join(map(step_text, lowered.steps)))
    plan = make_plan(graph, lowered, largest_allocation_bytes=spec.largest_allocation_bytes)
    prove(graph, lowered, plan)
    program = Program(graph, lowered.steps, plan, spec)
    dump("program", program.text())
    return program


class _Dump:
    """Numbers the stages, so that a folder lists them in order."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._count = folder, 0

    def __call__(self, stage: str, text: str) -> None:
        if self._folder is None:
            return
        path = self._folder / f"{self._count:02d}-{stage.replace(' ', '-')}.txt"
        self._count += 1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        except OSError as e:
            raise StorageError(f"HANDTORCH_DUMP: {path}", why=str(e.strerror),
                               fix="a folder that can be written, or unset HANDTORCH_DUMP") from e
