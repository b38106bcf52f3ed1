"""A large program is made once; the next start finds it, and only what is the same finds it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from handtorch import pipeline
from handtorch.graph.node import Graph, Node, Port, Value, Where
from handtorch.pipeline import WORTH_KEEPING, compile_graph
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


@pytest.mark.parametrize("change", ["a line", "the device", "the package"])
def test_what_differs_is_made_anew(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_graph(row(WORTH_KEEPING), SPEC)
    monkeypatch.setattr(pipeline, "PASSES", (("never", never),))
    graph, spec = row(WORTH_KEEPING, line=2 if change == "a line" else 1), SPEC
    if change == "the device":
        spec = replace(SPEC, driver=SPEC.driver + " (another)")
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
