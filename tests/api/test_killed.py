"""SIGKILL at random moments of saving: the old or the new file is whole, and training goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.knobs import environment_for_child
from tests.api.killed import X, Y

ROOT = Path(__file__).resolve().parents[2]
KINDS = pytest.mark.parametrize("kind", ["checkpoint", "ht"])


def survives(folder: Path, kind: str, kills: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
    step = ht.train_step(model, nn.CrossEntropyLoss(),
                         torch.optim.Adam(model.parameters(), 0.01), example=(X[0], Y[0]),
                         device="ref")
    step.save(folder / "base.ht")
    # One thread: a fork takes none along but its own.
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    made = subprocess.run([sys.executable, "-m", "tests.api.killed", str(folder), kind, str(kills),
                           "1"], cwd=ROOT, env={**environment_for_child(), **one_thread},
                          capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    seen = json.loads(made.stdout)
    print(seen)
    assert seen["steps"] >= seen["kills"] >= kills and not seen["torch"]
    # Else they came too late or too early to prove anything.
    assert seen["while writing"] >= kills // 10


@KINDS
def test_twenty_kills(tmp_path: Path, kind: str) -> None:
    survives(tmp_path, kind, 20)


@pytest.mark.slow
@KINDS
def test_two_hundred_kills(tmp_path: Path, kind: str) -> None:
    survives(tmp_path, kind, 200)
