"""A case on several sides: real ones, and some that lie, die or hang back."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.baseline.fair import Plan
from handtorch.bench.case import Case
from handtorch.bench.compare import Compared, Setting, compare
from handtorch.bench.outcome import Outcome
from handtorch.bench.sides import FROM_FILE, SIDES, TORCH, SideKind
from handtorch.errors import BadInput
from handtorch.runtime.opencl.discover import FoundDevice

pytestmark = pytest.mark.spread

CASE = Case("train", "Model1", 4)
PLAN = Plan(rounds=2, block_s=0.01)
# A peer of our making: it gives the expected losses, but for what its name says.
PEER = """
import sys
from handtorch.bench.case import EXPECTED, read_calls
from handtorch.bench.side import serve

class Peer:
    version = "peer 1"
    def __init__(self, asked):
        self.right, self.runs = read_calls(asked.folder / EXPECTED), 0
    def once(self, number):
        first = self.right[number % len(self.right)]
        lies = {kind!r} == "liar" or {kind!r} == "late liar" and self.runs
        return [loss * (float("nan") if self.runs else 1.001) if lies else loss for loss in first]
    def run(self, count):
        self.runs += 1
        if {kind!r} == "mortal" and self.runs == 4:
            sys.exit("I have seen enough")

serve(lambda asked: Peer)
"""


def peer(folder: Path, kind: str) -> str:
    """An interpreter that runs this peer whatever it is asked to run."""
    program, shell = folder / f"{kind}.py", folder / kind
    program.write_text(PEER.format(kind=kind))
    shell.write_text(f"#!/bin/sh\nexec {sys.executable} '{program}'\n")
    shell.chmod(0o755)
    return str(shell)


@pytest.fixture
def at(opencl_device: FoundDevice) -> Setting:
    own = dict.fromkeys((FROM_FILE, TORCH), sys.executable)
    spec = opencl_device.spec
    return Setting(opencl_device.label, {"name": spec.name, "platform": spec.platform}, 1, own, {},
                   PLAN, cold=False)


def with_peers(at: Setting, folder: Path, *kinds: str) -> tuple[list[SideKind], Setting]:
    made = {kind: peer(folder, kind) for kind in kinds}
    sides = [SideKind(kind, "", (), ("train",), "") for kind in kinds]
    return sides, replace(at, python={**at.python, **made})


def by_side(found: Compared) -> dict[str, Outcome]:
    return {one.side: one for one in found.outcomes}


def test_ours_and_torch_agree_and_are_timed_in_turn(at: Setting) -> None:
    said: list[str] = []
    found = compare(CASE, [SIDES["train"][n] for n in (FROM_FILE, TORCH)],
                    replace(at, progress=said.append))
    for one in found.outcomes:
        assert (one.state, one.reason) == ("believed", "")
        assert len(one.off) == 3 and one.off[0] <= 1e-5
        assert len(one.firsts_s) == 3 and len(one.seconds) == 2 and one.runs >= 2
        assert one.memory is not None
        assert one.memory.peak_bytes >= one.memory.steps_bytes > one.memory.before_bytes / 2
    assert said[-1] == "Model1 b4: handtorch-ht, torch, in turn"
    assert found.others is None or 0 <= found.others <= 1


def test_a_peer_that_lies_is_shown_and_not_timed(at: Setting, tmp_path: Path) -> None:
    kinds, there = with_peers(at, tmp_path, "liar", "late liar", "honest")
    found = by_side(compare(CASE, kinds, there))
    assert found["liar"].state == "differs" and found["liar"].seconds == ()
    assert "off by 0.001, 0.001, 0.001, allowed 1e-05, then 0.05" in found["liar"].reason
    assert found["late liar"].state == "differs" and found["late liar"].seconds == ()
    assert found["late liar"].reason == "after the timed runs: its loss has become nan"
    assert found["honest"].state == "believed" and len(found["honest"].seconds) == 2


def test_a_peer_that_dies_is_told_and_the_others_go_on(at: Setting, tmp_path: Path) -> None:
    kinds, there = with_peers(at, tmp_path, "mortal", "honest")
    found = by_side(compare(CASE, kinds, there))
    assert (found["mortal"].state, found["mortal"].seconds) == ("failed", ())
    assert found["mortal"].reason == \
        "the process of mortal ended: exit code 1: I have seen enough"
    assert found["mortal"].firsts_s                     # what it showed before is kept
    assert len(found["honest"].seconds) == 2


def test_a_peer_that_is_not_there_has_its_reason(at: Setting) -> None:
    absent = replace(at, python={}, absent={"mnn": "MNN is not installed"})
    (one,) = compare(CASE, [SIDES["train"]["mnn"]], absent).outcomes
    assert (one.state, one.reason) == ("skipped", "MNN is not installed")


def test_memory_is_of_a_process_that_compiled_nothing(at: Setting) -> None:
    found = compare(CASE, [SIDES["train"][FROM_FILE]], replace(at, plan=None, cold=True))
    (one,) = found.outcomes
    assert one.state == "believed" and one.seconds == () and found.others is None
    assert one.memory is not None and one.memory.peak_bytes > 0
    assert len(one.firsts_s) == 3


def test_what_cannot_be_prepared_is_refused(at: Setting) -> None:
    with pytest.raises(BadInput, match="Model1 nosuch b4 cannot be prepared: Model1 in form"):
        compare(Case("train", "Model1", 4, "nosuch"), [SIDES["train"][TORCH]], at)
