"""What a user of a step may do wrong, and a loss that is not finite: the whole messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput, NotFinite
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

X = torch.randn(8, 12, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 3, 4, 0, 1, -100])
NAN = torch.full_like(X, float("nan"))
GO_ON = ("  try: a lower learning rate, or clip_grad_norm_; a look for NaN in the batch; "
         "train_step(..., check_finite=False) or .numpy() to go on regardless")


def step_on(device: str, **settings: Any) -> Any:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5))
    return ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device=device, **settings)


@pytest.mark.parametrize(("batch", "message"), [
    ((X,), "the step takes 2 inputs: 1 were given\n{}"
           "  try: x as float32[8, 12], y as int32 or int64[8]; a batch that is a tuple as "
           "step(*batch)"),
    ((X[:4], Y), "input x is float32[4, 12]: the step was made for float32[8, 12]\n{}"
                 "  try: batches like the example (drop_last=True in a DataLoader), or another "
                 "step for this shape"),
    ((X.double(), Y), "input x is float64[8, 12]: the step was made for float32[8, 12]\n{}"
                      "  try: x.float(), or astype('float32')"),
    ((X.bfloat16(), Y), "input x: Got unsupported ScalarType BFloat16\n{}"
                        "  try: a CPU tensor or an array, float32[8, 12]"),
    ((X, Y.float()), "input y is float32[8]: the step was made for int32 or int64[8]\n{}"
                     "  try: x.long(), or astype('int64')"),
    ((None, Y), "input x is a NoneType: the step was made for float32[8, 12]\n{}"
                "  try: give a tensor or an array"),
    ((X, Y + 3), "input y holds 5: the classes in test_refusals.py are 0 to 4, and -100 is "
                 "left out\n{}  try: look at the labels or indices of this batch, or at the "
                 "size of the layer"),
], ids=["count", "shape", "double", "bfloat16", "labels", "none", "class"])
def test_a_batch_that_does_not_fit_is_refused(batch: tuple[Any, ...], message: str) -> None:
    step = step_on("null")
    with pytest.raises(BadInput) as e:
        step(*batch)
    assert said(e) == message.format("  from test_refusals.py  step(*batch)\n")
    with pytest.raises(BadInput) as e:
        step(x=X, y=Y)
    assert said(e) == ("inputs by name: x, y: they go by their place\n"
                       "  from test_refusals.py  step(x=X, y=Y)\n  try: step(x, y)")


def test_a_loss_of_nan_is_refused_when_it_is_read(opencl_device: Any) -> None:
    step = step_on(opencl_device.label)
    losses = [step(X, Y), step(X, Y), step(NAN, Y), step(X, Y)]
    assert step.resident.counters.waits_for_slot <= 1       # NaN is nothing to wait for
    first = float(losses[0])
    for read, text in ((float, "read(losses[2])"), (ht.Loss.item, "read(losses[2])"),
                       (lambda x: f"{x:.3f}", '(lambda x: f"{x:.3f}", ')):
        with pytest.raises(NotFinite) as e:
            read(losses[2])
        message = said(e)
        assert message.splitlines()[0] == (
            f"loss of step 3 is nan: the last finite one that was read is {first:.6g} of step 1; "
            "of 4 weights and buffers 4 are not finite now, the first being 0.weight")
        assert message.splitlines()[1].startswith(f"  from test_refusals.py  {text[:14]}")
        assert message.splitlines()[2] == GO_ON
    assert str(losses[2]) == "Loss(nan)" and np.isnan(losses[2].numpy())


def test_an_infinite_loss_whose_weights_are_gone() -> None:
    """What was read before and what the weights are is told as far as it is known."""
    model = nn.Linear(12, 1)
    step = ht.train_step(lambda x: (model(x) * 0).sum() + 1 / (x * 0).sum().abs(), models=[model],
                         optimizers=[], example=(X,), device="ref")
    loss = step(X)
    with pytest.raises(NotFinite) as e:
        float(loss)
    assert said(e) == ("loss of step 1 is inf: no finite one was read before it; of 2 weights and "
                       "buffers 0 are not finite now\n"
                       "  from test_refusals.py  float(loss)\n" + GO_ON)
    step.close()
    with pytest.raises(NotFinite) as e:
        float(loss)
    assert said(e).startswith("loss of step 1 is inf: no finite one was read before it\n")


def test_who_wants_nan_can_have_it() -> None:
    assert np.isnan(float(step_on("ref", check_finite=False)(NAN, Y)))


def test_what_a_loss_is_not_yet() -> None:
    loss = step_on("ref")(X, Y)
    assert f"{loss:.2f}" == f"{float(loss):.2f}" and f"{loss}" == repr(loss)
    for use in (lambda: loss + 1, lambda: 1 + loss, lambda: sum([loss]), lambda: loss < 1):
        with pytest.raises(BadInput) as e:
            use()
        assert said(e) == (
            "a loss in arithmetic: it is on its way, and its number must be waited for\n"
            "  from test_refusals.py  for use in (lambda: loss + 1, lambda: 1 + loss, "
            "lambda: sum([loss]), lambda: loss < 1):\n"
            "  try: float(loss), now and then; or compute it in the step and return it")
    with pytest.raises(BadInput) as e:
        loss.backward()
    assert said(e) == (
        "backward() on what a step gave: the step has gone backward and updated the weights "
        "already\n  from test_refusals.py  loss.backward()\n"
        "  try: leave it out, and optimizer.step() too")


@pytest.mark.parametrize("rate", [float("nan"), "0.1", None, torch.tensor(0.1)],
                         ids=["nan", "text", "none", "tensor"])
def test_a_learning_rate_that_is_no_number_is_refused(rate: Any) -> None:
    model = nn.Linear(12, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    step = ht.train_step(model, nn.CrossEntropyLoss(), optimizer, example=(X, Y), device="null")
    optimizer.param_groups[0]["lr"] = rate
    with pytest.raises(BadInput) as e:
        step(X, Y)
    assert said(e) == (f"SGD.param_groups[0]['lr'] is now {rate!r}: a learning rate is a finite "
                       "number\n  from test_refusals.py  step(X, Y)\n"
                       "  try: look at what changes it, a scheduler or your own code")


def test_a_device_goes_by_name() -> None:
    with pytest.raises(BadInput) as e:
        step_on(torch.device("cpu"))
    assert said(e) == (
        "device is a device: devices go by name\n"
        "  from test_refusals.py  return ht.train_step(model, nn.CrossEntropyLoss(), "
        "torch.optim.SGD(model.parameters(), 0.1),\n"
        "  try: device='pocl', for example; `handtorch devices` lists them")
