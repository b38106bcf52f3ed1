"""Files made to hurt end as an error of ours, or load because nothing in them matters.

Ten thousand of them are the slow test; a few hundred run each time. See `hostile.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from handtorch import knobs
from handtorch.api.make import train_step
from handtorch.store.sample import SAMPLE, model_file

HERE = Path(__file__).resolve().parent


def run(base: Path, folder: Path, first: int, count: int) -> dict[tuple[str, str], int]:
    """In a child with 2 GiB of address space, so that a crash or a greedy allocation shows."""
    command = [sys.executable, str(HERE / "hostile.py"), str(base), str(folder)]
    done = subprocess.run([*command, str(first), str(count)], env=knobs.environment_for_child(),
                          capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split() for line in done.stdout.splitlines()]
    return {(kind, how): int(times) for kind, how, times in rows}


def judge(ended: dict[tuple[str, str], int], count: int) -> None:
    assert sum(ended.values()) == count
    ours = {"BadFile", "StorageError", "BadInput", "OutOfMemory", "CannotLower"}
    assert {how.removeprefix("loads,") for _, how in ended} <= {*ours, "loads"}
    for kind in ("truncated", "grown", "flipped", "noise", "newer"):
        assert not ended.get((kind, "loads")), f"{kind}: {ended}"
    # A few changes mean nothing: another line number, another layer's name, a weight's bit.
    assert ended[("tampered", "BadFile")] > ended.get(("tampered", "loads"), 0)


@pytest.fixture(scope="module")
def richer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolution, batch norm, pooling, an LSTM, dropout and Adam in one step."""
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.BatchNorm2d(2)
            self.lstm, self.fc = torch.nn.LSTM(4, 3), torch.nn.Linear(3, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.nn.functional.max_pool2d(self.norm(self.conv(x)), 2)
            y = torch.nn.functional.dropout(y, 0.5, self.training)
            rows, _ = self.lstm(y.reshape(-1, 4, 4).transpose(0, 1))
            scores: torch.Tensor = self.fc(torch.nn.functional.layer_norm(rows[-1], (3,)))
            return scores

    torch.manual_seed(0)
    model = Net()
    x, y = torch.randn(2, 1, 8, 8), torch.tensor([1, 4, 0, 2])
    step = train_step(model, torch.nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters()),
                      example=(x, y), device="ref")
    path = tmp_path_factory.mktemp("richer") / "richer.ht"
    step.save(path)
    return path


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step in micro-batches: the file has a third graph."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    step = train_step(model, torch.nn.CrossEntropyLoss(),
                      torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), device="ref",
                      example=(torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])), accumulate=3)
    path = tmp_path_factory.mktemp("parts") / "parts.ht"
    step.save(path)
    return path


def test_some_hostile_files(tmp_path: Path, richer: Path, in_parts: Path) -> None:
    judge(run(in_parts, tmp_path, 0, 110), 110)
    judge(run(model_file(SAMPLE), tmp_path, 0, 330), 330)
    judge(run(richer, tmp_path, 0, 110), 110)


@pytest.mark.slow
def test_ten_thousand_hostile_files(tmp_path: Path, richer: Path, in_parts: Path) -> None:
    judge(run(in_parts, tmp_path, 11_000, 2_000), 2_000)
    judge(run(model_file(SAMPLE), tmp_path, 1000, 5_000), 5_000)
    judge(run(richer, tmp_path, 6000, 5_000), 5_000)
