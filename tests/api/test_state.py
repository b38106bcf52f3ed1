"""state_dict and load_state_dict: complete, strict, and nothing lost by a bad one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput
from tests.api.resuming import Run, X, Y, model
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

FIX = ("\n  try: state_dict() of a step made in the same way; weights alone go into the torch "
       "model, before train_step")
FIT = ("\n  try: names as in the model's own state_dict(), and the buffers that torch leaves out "
       "of it (persistent=False)")


@pytest.fixture
def run() -> Run:
    made = Run("ref")
    made.train(0, 3)
    return made


@pytest.mark.parametrize("device", ["ref", "opencl"])
def test_everything_that_decides_the_future_is_there(opencl_device: Any, device: str) -> None:
    at = device if device == "ref" else str(opencl_device.label)
    run = Run(at)
    run.train(0, 3)
    state = run.step.state_dict()
    want = run.train(3, 6)
    weights = ["0.weight", "0.bias", "1.weight", "1.bias", "5.weight", "5.bias"]
    assert set(state) == {
        *run.model.state_dict(), "rng", "optimizer.0.lr", "optimizer.0.step", "handtorch.steps",
        *(f"optimizer.{m}.{w}" for m in ("exp_avg", "exp_avg_sq") for w in weights)}
    assert state["handtorch.steps"] == 3 and state["1.num_batches_tracked"] == 3
    after = Run(at, seed=7)
    for _ in range(3):
        after.schedule.step()
    after.step.load_state_dict(state)
    assert after.train(3, 6) == want
    run.step.load_state_dict(state)              # back, and the same again
    assert run.step.steps == 3
    run.optimizer.param_groups[0]["lr"] = float(state["optimizer.0.lr"][0])
    assert run.train(3, 6) == want


def test_it_is_a_copy(run: Run) -> None:
    state = run.step.state_dict()
    kept = {name: array.copy() for name, array in state.items()}
    run.train(3, 4)
    for name, array in state.items():
        np.testing.assert_array_equal(array, kept[name], err_msg=name)
        array[...] = 0                           # and ours to write to
    assert run.step.state_dict()["0.weight"].any()


def test_weights_are_torchs(run: Run) -> None:
    run.step.sync_to(run.model)
    state = run.step.state_dict()
    for name, tensor in run.model.state_dict().items():
        np.testing.assert_array_equal(state[name], tensor.numpy())
    fresh = model()
    names = fresh.state_dict().keys()
    fresh.load_state_dict({n: torch.from_numpy(a) for n, a in state.items() if n in names})
    torch.testing.assert_close(fresh.state_dict(), run.model.state_dict())


def test_tensors_are_taken_too(run: Run) -> None:
    state = run.step.state_dict()
    tensors = {n: torch.from_numpy(a) for n, a in state.items()}
    tensors["1.num_batches_tracked"] = tensors["1.num_batches_tracked"].long()
    after = Run("ref", seed=7)
    after.step.load_state_dict(tensors)
    for name, array in after.step.state_dict().items():
        assert array.tobytes() == state[name].tobytes(), name


def refused(run: Run, state: Any) -> str:
    """The words of the refusal, which must not have changed anything."""
    before = run.step.state_dict()
    with pytest.raises(BadInput) as e:
        run.step.load_state_dict(state)
    for name, array in run.step.state_dict().items():
        assert array.tobytes() == before[name].tobytes(), name
    return said(e).replace("\n  from test_state.py  run.step.load_state_dict(state)", "")


def test_what_does_not_fit_is_named(run: Run) -> None:
    state = Run("ref", seed=7).step.state_dict()
    what = "the state does not fit this step"
    assert refused(run, {**state, "0.weight": state["0.weight"].astype("f8")}) == (
        f"{what}: different: 0.weight is float64[4, 3, 3, 3] and should be float32[4, 3, 3, 3]"
        + FIX)
    turned = state["5.weight"].T
    less = {n: a for n, a in state.items() if n not in ("rng", "handtorch.steps")}
    assert refused(run, {**less, "5.weight": turned, "a": turned, "b": turned}) == (
        f"{what}: missing: rng, handtorch.steps; unexpected: a, b; different: 5.weight is "
        "float32[64, 5] and should be float32[5, 64]" + FIX)
    assert refused(run, run.model.state_dict()).startswith(
        f"{what}: missing: optimizer.0.step, optimizer.exp_avg.0.weight, "
        "optimizer.exp_avg_sq.0.weight and 13 more\n")
    assert refused(run, [1]) == "a list as state: it is arrays by name" + FIX


def test_numbers_that_cannot_be_are_refused(run: Run) -> None:
    state = Run("ref", seed=7).step.state_dict()
    assert refused(run, {**state, "optimizer.0.lr": np.array([np.nan])}) == (
        "optimizer.0.lr is [nan]: a learning rate is a finite number")
    assert refused(run, {**state, "1.num_batches_tracked": np.array(2**31)}) == (
        "1.num_batches_tracked holds numbers from 2147483648 to 2147483648: the device has 32 "
        "bits for them")
    assert refused(run, {**state, "handtorch.steps": np.array(-1)}) == (
        "handtorch.steps is array(-1): it counts the steps done so far\n"
        "  try: the number as state_dict() gives it")
    assert "a Tensor in the state: " in refused(
        run, {**state, "0.bias": torch.zeros(4, dtype=torch.bfloat16)})


def answers(given: Any, device: str = "ref") -> Any:
    infer = ht.inference(model(), example=(X[0],), device=device)
    infer.load_state_dict(given)
    return infer(X[0])


def test_an_inference_takes_weights(opencl_device: Any) -> None:
    run = Run(opencl_device.label)
    run.train(0, 3)
    run.step.sync_to(run.model)
    with torch.no_grad():
        want = run.model.eval()(torch.from_numpy(X[0])).numpy()
    from_step = answers(run.step.state_dict(), opencl_device.label)
    np.testing.assert_allclose(from_step, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(answers(run.model.state_dict(), opencl_device.label), from_step)


def test_an_inference_refuses_what_does_not_fit() -> None:
    infer = ht.inference(model(), example=(X[0],), device="ref")
    before, weights = infer(X[0]), model().state_dict()
    del weights["1.running_var"]
    weights["5.bias"], weights["head.weight"] = torch.zeros(7), torch.zeros(2)
    with pytest.raises(BadInput) as e:
        infer.load_state_dict(weights)
    assert said(e) == (
        "the weights do not fit this model: missing: 1.running_var; unexpected: head.weight; "
        "different: 5.bias is float32[7] and should be float32[5]\n"
        "  from test_state.py  infer.load_state_dict(weights)" + FIT)
    np.testing.assert_array_equal(infer(X[0]), before)


def test_a_loss_with_tensors_and_tied_weights() -> None:
    def tied() -> nn.Sequential:
        net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
        net[2].weight = net[0].weight
        return net

    net, x, y = tied(), X[0, :, 0, 0], Y[0]
    step = ht.train_step(net, nn.CrossEntropyLoss(torch.ones(6)),
                         torch.optim.SGD(net.parameters(), 0.1), example=(x, y), device="ref")
    step(x, y)
    assert set(step.state_dict()) == {"0.weight", "0.bias", "2.bias", "optimizer.0.lr",
                                      "loss_fn.weight", "handtorch.steps"}
    step.sync_to(net)
    infer = ht.inference(tied(), example=(x,), device="ref")
    infer.load_state_dict(step.state_dict())
    first = infer(x)
    infer.load_state_dict(net.state_dict())      # has 2.weight too: the same tensor
    np.testing.assert_array_equal(infer(x), first)
    apart = {n: w.clone() for n, w in net.state_dict().items()}
    with pytest.raises(BadInput, match=r"unexpected: 2\.weight"):
        infer.load_state_dict(apart)


def test_several_models_and_optimizers() -> None:
    one, two = nn.Linear(6, 6), nn.Linear(6, 6)
    optimizers = [torch.optim.SGD(one.parameters(), 0.1, momentum=0.9),
                  torch.optim.Adam(two.parameters(), 0.2)]

    def fn(x: torch.Tensor) -> torch.Tensor:
        for o in optimizers:
            o.zero_grad()
        loss = two(one(x)).square().mean()
        loss.backward()
        for o in optimizers:
            o.step()
        return loss

    x = X[0, :, 0, 0]
    step = ht.train_step(fn, models=[one, two], optimizers=optimizers, example=(x,), device="ref")
    step(x)
    state = step.state_dict()
    want = [float(step(x)) for _ in range(3)]
    assert {"model0.weight", "model1.bias", "optimizer0.momentum_buffer.model0.weight",
            "optimizer1.0.lr", "optimizer1.exp_avg.model1.weight"} <= set(state)
    step.load_state_dict(state)
    assert [float(step(x)) for _ in range(3)] == want
    assert [o.param_groups[0]["lr"] for o in optimizers] == [0.1, 0.2]
