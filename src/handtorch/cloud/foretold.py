"""What computing a model takes on a device that is not at hand, by its sheet. `simulated`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handtorch.api.on_sheet import simulated
from handtorch.cloud.engines import File, Source
from handtorch.errors import BadInput
from handtorch.pipeline import compile_graph
from handtorch.place.known import Known
from handtorch.place.processor import spec_of
from handtorch.place.sheet import Sheet
from handtorch.place.situation import Local
from handtorch.store.ht_file import read_ht

if TYPE_CHECKING:
    from handtorch.graph.node import Graph

NAMES = {"gpu": "device OpenCL", "cpu": "device CPU"}


def foretold(source: Source, sheet: Sheet) -> tuple[Local, ...]:
    """Our own program on each processor of the sheet, one picture at a time."""
    if not sheet.processors:
        raise BadInput(f"the sheet of {sheet.name}", why="it says what the device draws, and not "
                       "how quick it is", fix="--device-ms, or a [processor.gpu] in it: "
                       "docs/sheets.md")
    graph = _graph(source)
    return tuple(_on(graph, sheet, processor.kind) for processor in sheet.processors)


def _on(graph: Graph, sheet: Sheet, kind: str) -> Local:
    told = simulated(compile_graph(graph, spec_of(sheet, sheet.processor(kind))), sheet, kind)
    how = f"foretold by the sheet of {sheet.name}: {told.processor}"
    return Local(NAMES[kind], Known(told.times.total_s, "simulated", how),
                 memory_bytes=Known(float(told.held_bytes), "simulated", how)
                 ).all_of(sheet, gpu=kind == "gpu")


def _graph(source: Source) -> Graph:
    if isinstance(source, File):
        held = read_ht(source.path)
        if held.infer is None:
            raise BadInput(f"{source.path}", why="it holds a training step, and no model to run")
        return held.infer.graph
    from handtorch.capture.step import capture_inference
    from handtorch.zoo.serving import example_inputs, served_model
    return capture_inference(served_model(source.name, source.form), example_inputs(
        source.name, source.form, 1, source.side)).graph
