"""A large program is made once; the next start finds it, and only what is the same finds it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from handtorch import pipeline
from handtorch.errors import BadInput
from handtorch.graph.node import Attr, Graph, Node, Port, Value, Where
from handtorch.pipeline import WORTH_KEEPING, compile_graph
from handtorch.plan.cost import estimated, node_times_ns
from handtorch.program import Program
from handtorch.runtime.choose import open_executor

SPEC = open_executor("null").spec


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))
    monkeypatch.delenv("HANDTORCH_DUMP", raising=False)
    return tmp_path / "kept"


def row(count: int, line: int = 1) -> Graph:
    """`count` nodes in a row, all from one line."""
    values = [Value(i, (2, 3)) for i in range(count + 1)]
    nodes = tuple(Node("softmax", (a,), (b,), where=Where("net.py", line, "softmax"))
                  for a, b in pairwise(values))
    return Graph(nodes, (Port("x", values[0]),), (), (Port("y", values[-1]),))


def never(graph: Graph) -> Graph:
    raise AssertionError("made again")


def test_a_large_program_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = row(WORTH_KEEPING)
    first = compile_graph(graph, SPEC)
    monkeypatch.setattr(pipeline, "PASSES", (("never", never),))
    again = compile_graph(graph, SPEC)
    assert again is not first
    assert again == first and again.hash == first.hash


@pytest.mark.parametrize("change", ["a line", "the device", "the package", "the time to spare"])
def test_what_differs_is_made_anew(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_graph(row(WORTH_KEEPING), SPEC)
    monkeypatch.setattr(pipeline, "PASSES", (("never", never),))
    graph, spec = row(WORTH_KEEPING, line=2 if change == "a line" else 1), SPEC
    if change == "the device":
        spec = replace(SPEC, driver=SPEC.driver + " (another)")
    if change == "the time to spare":
        monkeypatch.setenv("HANDTORCH_SPARE", "3")
    if change == "the package":
        monkeypatch.setattr(pipeline, "_package", lambda: "another")
    with pytest.raises(AssertionError, match="made again"):
        compile_graph(graph, spec)


def test_sources_are_those_of_all_rooms_that_are_not_left_out() -> None:
    assert pipeline.sources() == pipeline.sources(("no_such_room",))
    digests = {pipeline.sources(without) for without in ((), ("kernels",), ("lower",),
                                                         ("kernels", "lower"))}
    assert len(digests) == 4


def test_a_small_program_is_not_kept(folder: Path) -> None:
    compile_graph(row(WORTH_KEEPING - 1), SPEC)
    assert not folder.exists()


def test_a_dump_has_every_stage_of_a_program_that_was_kept(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_graph(row(WORTH_KEEPING), SPEC)
    monkeypatch.setenv("HANDTORCH_DUMP", str(tmp_path / "dump"))
    compile_graph(row(WORTH_KEEPING), SPEC)
    assert len(list((tmp_path / "dump").iterdir())) == len(pipeline.PASSES) + 3


def there_and_back(phase: str) -> Graph:
    """Products and what is made of them in a moment; on the way back each is read again."""
    shape = (1024, 1024)
    values = [Value(i, shape) for i in range(21)]
    body: dict[str, Attr] = {"body": "sin(x0)", "shape": shape}
    nodes = [Node("pointwise", (a,), (b,), body) if i % 2 else
             Node("matmul", (a, values[0]), (b,)) for i, (a, b) in enumerate(pairwise(values))]
    back = values[-1]
    for i in reversed(range(20)):
        values.append(Value(len(values), shape))
        nodes.append(Node("matmul", (back, values[i]), (values[-1],), phase=phase))
        back = values[-1]
    return Graph(tuple(nodes), (Port("x", values[0]),), (), (Port("y", back),))


def again(program: Program) -> int:
    return sum(n.phase == "recompute" for n in program.graph.nodes)


def test_a_training_step_keeps_less_for_a_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = there_and_back("backward")
    less = compile_graph(graph, SPEC)
    monkeypatch.setenv("HANDTORCH_SPARE", "0")
    whole = compile_graph(graph, SPEC)
    assert again(less) and not again(whole)
    assert less.plan.peak_bytes < 0.97 * whole.plan.peak_bytes
    took = [sum(node_times_ns(p.steps, len(p.graph.nodes), estimated(SPEC), {}))
            for p in (whole, less)]
    assert took[0] < took[1] <= 1.10 * took[0]


def test_what_has_no_way_back_keeps_all() -> None:
    assert not again(compile_graph(there_and_back("forward"), SPEC))


@pytest.mark.parametrize("given", ["much", "-1", "101", "nan"])
def test_a_time_to_spare_that_is_none_is_refused(given: str, monkeypatch: pytest.MonkeyPatch
                                                 ) -> None:
    monkeypatch.setenv("HANDTORCH_SPARE", given)
    with pytest.raises(BadInput) as refused:
        compile_graph(row(2), SPEC)
    assert refused.value.message() == (
        f"HANDTORCH_SPARE={given}: it is a percentage, 0 to 100\n"
        "  try: unset it, or 0 to keep every value")
