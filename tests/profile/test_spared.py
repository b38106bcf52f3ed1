"""What one launch instead of two would not move, from what launches touch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.profile.spared import Region, of_program, spared_bytes
from handtorch.runtime.opencl.discover import FoundDevice


def r(memory: int, start: int = 0, end: int = 100) -> Region:
    return Region(memory, start, end, True, False)


def w(memory: int, start: int = 0, end: int = 100) -> Region:
    return Region(memory, start, end, False, True)


@pytest.mark.parametrize("launches, kept, spared", [
    ([[r(1), w(2)], [r(2), w(3)]], [r(3)], [0, 200]),                   # neither written nor read
    ([[r(1), w(2)], [r(2), w(3)]], [r(2)], [0, 100]),                   # a result: written anyway
    ([[w(2)], [r(2), w(3)], [r(2), r(3), w(4)]], [], [0, 100, 200]),    # read again
    ([[w(2)], [r(2), w(3)], [r(2, 40, 50), w(4)]], [], [0, 100, 0]),    # a view of it is
    ([[w(2)], [r(2), w(3)], [w(2)], [r(2), w(4)]], [], [0, 200, 0, 200]),   # its place is reused
    ([[w(2)], [r(2), w(2)], [r(2), w(2)]], [r(2)], [0, 200, 200]),      # in place
    ([[w(2)], [r(5), w(3)], [r(2), w(4)]], [], [0, 0, 0]),              # not the next one
    ([[w(2)], [r(2, 0, 50), w(3)]], [], [0, 0]),                        # a part
    ([], [], []), ([[r(1), w(2)]], [r(2)], [0])])
def test_cases(launches: list[list[Region]], kept: list[Region], spared: list[int]) -> None:
    assert spared_bytes(launches, kept) == spared


def test_never_more_than_the_second_reads_and_the_first_writes(opencl_device: FoundDevice) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    x, y = torch.randn(8, 16).numpy(), (torch.arange(8) % 4).numpy()
    step = ht.train_step(model, nn.functional.cross_entropy,
                         torch.optim.SGD(model.parameters(), lr=0.1), example=(x, y),
                         device=opencl_device.label)
    program = step.session.program
    found = of_program(program)
    assert len(found) == len(program.steps) and any(found)
    for i, n in enumerate(found[1:], 1):
        wrote = sum(o.value.nbytes for o in program.steps[i - 1].operands if o.writes)
        read = sum(o.value.nbytes for o in program.steps[i].operands if o.reads)
        assert 0 <= n <= wrote + read
    step.close()
