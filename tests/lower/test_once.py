"""What follows from weights alone is computed once, and again when they were written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.capture.step import capture_inference, capture_train_step
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.step import Lowered
from handtorch.pipeline import compile_graph
from handtorch.plan.proof import prove
from handtorch.program import Program
from handtorch.zoo.har import HarLSTM

pytestmark = pytest.mark.spread

X = torch.randn(3, 4, 9, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 5])


def inference() -> Program:
    torch.manual_seed(0)
    return compile_graph(capture_inference(HarLSTM(hidden=8), (X,)).graph, GENERIC)


def test_packing_and_sums_of_biases_are_no_part_of_a_run() -> None:
    program = inference()
    once, always = ([s.kernel for s in steps] for steps in (program.once, program.steps))
    assert once.count("rnn_pack") == 2 and once.count("pointwise") == 2
    assert once.count("pack_b") == 4, "two layers, and the ones before and after them"
    assert not {"rnn_pack", "pack_b"} & set(always)
    assert "once" in program.text().splitlines(), "the hash knows them"


def test_a_program_that_trains_keeps_nothing() -> None:
    model = HarLSTM(hidden=8)
    captured = capture_train_step(model, nn.functional.cross_entropy,
                                  torch.optim.SGD(model.parameters(), 0.1), (X, Y))
    assert compile_graph(captured.graph, GENERIC).once == ()


def test_the_proof_sees_when_what_was_kept_is_overwritten() -> None:
    program = inference()
    plan = program.plan
    lowered = Lowered(program.steps, (), program.once)
    kept = next(o.value for s in program.once for o in s.operands if o.writes)
    passing = next(o.value for s in program.steps for o in s.operands
                   if o.writes and plan.places[o.value.id].bank >= 0)
    places = {**plan.places, kept.id: plan.places[passing.id]}
    with pytest.raises(AssertionError, match=r"reads %|does not last"):
        prove(program.graph, lowered, replace(plan, places=places))


def test_new_weights_are_prepared_anew(opencl_device: Any) -> None:
    torch.manual_seed(1)
    model, other = HarLSTM(hidden=8), HarLSTM(hidden=8)
    infer = ht.inference(model, example=(X,), device=opencl_device.label)
    counters = infer.session.resident.counters
    for net in (model, other, model):
        infer.load_state_dict(net.state_dict())
        before = counters.launches
        with torch.no_grad():
            np.testing.assert_allclose(infer(X), net(X).numpy(), atol=1e-6)
        assert counters.launches - before == len(infer.program.steps)
    infer.close()
