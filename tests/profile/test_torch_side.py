"""A function that runs torch on the CPU, profiled in the same form as a step on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput
from handtorch.profile.torch_side import TorchProfile
from handtorch.record import read_run

X, Y = torch.ones(8, 32), torch.zeros(8, dtype=torch.long)


def made() -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: torch.Tensor, y: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()
    return train


def test_a_call_gives_what_the_function_gives_and_is_a_step(tmp_path: Path) -> None:
    plain = made()
    want = [plain(X, Y) for _ in range(3)]
    with ht.profile(made(), name="small b8") as run:
        assert [run(X, Y) for _ in range(3)] == want
    run.save(tmp_path / "a.htr")
    taken = read_run(tmp_path / "a.htr")
    assert [s.number for s in taken.steps] == [0, 1, 2]
    assert {s.subject for s in taken.steps} == {"small b8"}
    assert {la.phase for la in taken.launches} == {"forward", "backward", "optimizer"}
    assert run.table().startswith("small b8 on torch cpu, training: 3 steps recorded")
    assert "memory" not in run.table()


def test_its_steps_can_follow_those_of_a_device() -> None:
    with ht.profile(made()) as run:
        run(X, Y)
    rows = list(run.rows(first_id=20))
    assert [r.id for r in rows if type(r).__name__ == "Step"] == [20]
    assert "Clock" not in {type(r).__name__ for r in rows}
    assert run.name == "train"


def test_steps_outside_the_block_are_refused() -> None:
    run = ht.profile(made())
    assert isinstance(run, TorchProfile)
    with pytest.raises(BadInput) as before:
        run(X, Y)
    assert before.value.what == "a step of train outside its profile"
    assert before.value.fix == "call it inside `with ht.profile(function) as run:`"
    with run:
        pass
    with pytest.raises(BadInput) as after:
        run(X, Y)
    assert after.value.what == before.value.what
    with pytest.raises(BadInput) as none:
        run.table()
    assert none.value.what == "a profile without a step"
