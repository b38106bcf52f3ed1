"""A side's own end of the protocol, in a process with a toy for an engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from handtorch import knobs
from handtorch.bench.case import GIVEN, Asked, Case, read_calls, write_calls
from handtorch.bench.process import SideEnded, SideProcess

TOY = """
import time
import numpy as np
from handtorch.bench.side import CannotRun, serve
from handtorch.errors import BadInput

class Toy:
    version = "toy 1"
    def __init__(self, asked):
        self.batches = asked.batches()
    def once(self, number):
        (x,) = self.batches[number % len(self.batches)]
        if x[0] < 0:
            raise ValueError("the engine is broken")
        return [x * 2]
    def run(self, count):
        time.sleep(0.02 * count)

def make(asked):
    print("a library's banner")            # is no answer
    if asked.case.model == "Skipped":
        raise CannotRun("no such layer", why="it is a toy")
    if asked.case.model == "Refused":
        raise BadInput("a model", why="too large")
    if asked.case.model == "Missing":
        import no_such_library
    return Toy(asked)

serve(lambda asked: make)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[SideProcess]:
    with SideProcess("toy", [sys.executable, "-c", TOY], knobs.environment_for_child(),
                     tmp_path / "log") as process:
        yield process


def asked(folder: Path, model: str = "Net", first: float = 1.0) -> dict[str, object]:
    write_calls(folder / GIVEN, [(np.array([first, i], "f4"),) for i in range(2)])
    return Asked(Case("infer", model), folder, "pocl", 1).to_json()


def test_first_runs_times_and_memory(toy: SideProcess, tmp_path: Path) -> None:
    told = toy.ask("make", **asked(tmp_path))
    assert told["version"] == "toy 1" and len(told["firsts_s"]) == 3
    results = read_calls(Path(told["results"]))
    assert [call[0].tolist() for call in results] == [[2, 0], [2, 2], [2, 0]]    # batches in turn
    ran = toy.ask("run", warm_up=50, count=3)
    assert 0.06 <= ran["seconds"] < 1.0                 # the warm-up, a whole second, is not in it
    again = read_calls(Path(toy.ask("again")["results"]))
    assert again[0][0].tolist() == [2, 0]
    memory = toy.ask("memory")
    assert 0 < memory["before_bytes"] <= memory["peak_bytes"]
    assert memory["steps_bytes"] <= memory["peak_bytes"]


@pytest.mark.parametrize("model, told", [
    ("Skipped", {"skipped": "no such layer: it is a toy"}),
    ("Refused", {"error": "a model: too large"}),
    ("Missing", {"skipped": "it is not installed: No module named 'no_such_library'"}),
])
def test_a_refusal_is_an_answer(toy: SideProcess, tmp_path: Path, model: str,
                                told: dict[str, str]) -> None:
    assert toy.ask("make", **asked(tmp_path, model)) == told


def test_what_nobody_foresaw_ends_it_in_its_own_words(toy: SideProcess, tmp_path: Path) -> None:
    with pytest.raises(SideEnded, match="exit code 1: ValueError: the engine is broken"):
        toy.ask("make", **asked(tmp_path, first=-1.0))


def test_it_ends_with_its_input(toy: SideProcess) -> None:
    pid = toy._process.pid
    toy.close()
    assert toy._process.returncode == 0
    assert not os.path.exists(f"/proc/{pid}")


def test_a_case_survives_its_way(tmp_path: Path) -> None:
    case = Case("product", "", 1, "nt", sizes=(2, 3, 4))
    sent = Asked(case, tmp_path, "pocl", 2, {"name": "cpu"}, {"file": True})
    assert Asked.from_json(sent.to_json()) == sent
    assert case.title == "2x3x4 nt"
    assert Case("train", "BERT", 16, "squad128", True).title == "BERT squad128 (narrow) b16"
