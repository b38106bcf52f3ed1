"""Ten models of the zoo in their small form: commands and gaps are the time of the loop."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import handtorch as ht
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.zoo.registry import MODELS

NAMES = ("Model1", "HarLSTM", "CharCNN", "DQN", "DCGAN", "SqueezeNet1_1", "MobileNetV2",
         "ResNet50", "Seq2Seq", "BERT")


def waited(given: Any) -> None:
    losses = given.values() if isinstance(given, dict) else given
    for loss in losses if not hasattr(losses, "numpy") else (losses,):
        loss.numpy()


@pytest.mark.timed
@pytest.mark.parametrize("name", NAMES)
def test_commands_and_gaps_are_the_time_of_the_loop(opencl_device: FoundDevice, name: str) -> None:
    torch.manual_seed(0)
    entry = MODELS[name]
    model, data = entry.make(small=True), entry.batch(entry.small_batch, small=True)
    made = entry.optimizers(model)
    step = ht.train_step(entry.step(model, made), models=[model], optimizers=made, example=data,
                         device=opencl_device.label, check_finite=False)
    waited(step(*data))
    with ht.profile(step, name=name) as found:
        begin = time.monotonic_ns()
        while time.monotonic_ns() - begin < 500_000_000:
            given = step(*data)
        waited(given)
        wall = time.monotonic_ns() - begin
    run = found.run
    assert sum(s.end_ns - s.start_ns for s in run.steps) == pytest.approx(wall, rel=0.01)
    assert not [g for g in run.gaps if g.cause == "other"]
    step.close()
