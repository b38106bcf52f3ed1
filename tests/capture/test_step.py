"""The function form of `train_step`: a user's own step against the same function run by torch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import handtorch as ht
from handtorch.capture.step import capture_train_step
from handtorch.errors import BadInput, CannotCapture
from tests.capture.user_steps import (
    MADE,
    Made,
    X,
    assert_same_training,
    made,
    normal,
    said,
    simple,
    usual,
)

pytestmark = pytest.mark.spread


def gan() -> Made:
    """Two nets, two optimizers; the generator's loss sees the discriminator just updated."""
    torch.manual_seed(0)
    g = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 6))
    d = nn.Sequential(nn.Linear(6, 9), nn.LeakyReLU(0.2), nn.Linear(9, 1))
    of_g = torch.optim.Adam(g.parameters(), 0.02, betas=(0.5, 0.999))
    of_d = torch.optim.SGD(d.parameters(), 0.1, momentum=0.9)
    bce = nn.BCEWithLogitsLoss()

    def step(real: torch.Tensor, noise: torch.Tensor) -> dict[str, torch.Tensor]:
        n = real.shape[0]
        of_d.zero_grad()
        fake = g(noise)
        loss_d = bce(d(real), torch.ones(n, 1)) + bce(d(fake.detach()), torch.zeros(n, 1))
        loss_d.backward()
        of_d.step()
        of_g.zero_grad()
        loss_g = bce(d(fake), torch.ones(n, 1))
        loss_g.backward()
        of_g.step()
        return {"d": loss_d, "g": loss_g}
    return step, [g, d], [of_g, of_d]


def dqn(clip: str = "norm") -> Made:
    """Q-learning with a target network that follows slowly, clipped gradients."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    target = copy.deepcopy(net)
    optimizer = torch.optim.RMSprop(net.parameters(), 0.01)

    def step(s: torch.Tensor, a: torch.Tensor, r: torch.Tensor, s2: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            aim = r + 0.9 * target(s2).max(1).values
        q = net(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, aim)
        optimizer.zero_grad()
        loss.backward()
        if clip == "norm":
            nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        elif clip == "value":
            nn.utils.clip_grad_value_(net.parameters(), 0.01)
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), net.parameters(), strict=True):
                old.mul_(0.8).add_(new, alpha=0.2)
        return loss
    return step, [net, target], [optimizer]


def dcgan() -> Made:
    """Convolutions and batch-norm in both nets, two backwards into the discriminator.

    No bias before a batch-norm: its gradient is rounding alone, which Adam would blow up."""
    torch.manual_seed(0)
    g = nn.Sequential(nn.ConvTranspose2d(4, 6, 4, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
                      nn.ConvTranspose2d(6, 3, 4, 2, 1), nn.Tanh())
    d = nn.Sequential(nn.Conv2d(3, 6, 4, 2, 1, bias=False), nn.BatchNorm2d(6), nn.LeakyReLU(0.2),
                      nn.Conv2d(6, 1, 4))
    of_g, of_d = (torch.optim.Adam(m.parameters(), 2e-3, betas=(0.5, 0.999)) for m in (g, d))
    bce = nn.BCEWithLogitsLoss()

    def step(real: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n = real.shape[0]
        d.zero_grad()
        on_real = bce(d(real).view(-1), torch.ones(n))
        on_real.backward()
        fake = g(noise)
        on_fake = bce(d(fake.detach()).view(-1), torch.zeros(n))
        on_fake.backward()
        of_d.step()
        g.zero_grad()
        loss_g = bce(d(fake).view(-1), torch.ones(n))
        loss_g.backward()
        of_g.step()
        return on_real + on_fake, loss_g
    return step, [g, d], [of_g, of_d]


GAN_BATCH = (normal(7, 6), normal(7, 4, seed=1))
DQN_BATCH = (normal(6, 5), torch.tensor([0, 1, 2, 2, 1, 0]), normal(6, seed=1),
             normal(6, 5, seed=2))


def test_gan_on_ref() -> None:
    assert_same_training(gan, GAN_BATCH, "ref")


def test_gan(opencl_device: Any) -> None:
    assert_same_training(gan, GAN_BATCH, opencl_device.label)


def test_dcgan_on_ref() -> None:
    step = assert_same_training(dcgan, (normal(5, 3, 8, 8), normal(5, 4, 1, 1)), "ref", steps=4)
    changed = {s.name for s in step.program.graph.states if s.role == "buffer" and s.changes}
    assert changed == {f"model{i}.1.{name}" for i in (0, 1) for name in
                       ("running_mean", "running_var", "num_batches_tracked")}


@pytest.mark.parametrize("clip", ["none", "norm", "value"])
def test_dqn_on_ref(clip: str) -> None:
    assert_same_training(lambda: dqn(clip), DQN_BATCH, "ref")


def test_dqn(opencl_device: Any) -> None:
    assert_same_training(dqn, DQN_BATCH, opencl_device.label)


def test_states_and_inputs_have_readable_names() -> None:
    step = made(gan(), GAN_BATCH)
    graph = step.program.graph
    names = {s.name for s in graph.states}
    assert {"model0.0.weight", "model1.2.bias", "optimizer0.0.lr", "optimizer1.0.lr",
            "optimizer0.0.step", "optimizer0.exp_avg.model0.2.bias",
            "optimizer1.momentum_buffer.model1.0.weight"} <= names
    assert [p.name for p in graph.inputs] == ["real", "noise"]
    assert [p.name for p in graph.outputs] == ["d", "g"]
    assert {n.layer for n in graph.nodes if n.op == "matmul"} == {
        "model0.0", "model0.2", "model1.0", "model1.2"}


def test_results_come_back_as_they_were_given() -> None:
    def give(kind: str) -> Any:
        def body(model: nn.Module, optimizer: Any, x: torch.Tensor) -> Any:
            loss = usual(model, optimizer, x)
            y = model(x).detach()
            return {"tuple": (loss, y), "dict": {"loss": loss, "y": y}, "none": None}[kind]
        return made(simple(body), (X,), "ref")(X)
    pair, named = give("tuple"), give("dict")
    assert isinstance(pair, tuple) and list(named) == ["loss", "y"] and give("none") is None
    assert float(pair[0]) == float(named["loss"]) > 0
    assert pair[1].numpy().shape == (4, 2) and repr(pair[1]) == "Loss([4, 2])"
    with pytest.raises(BadInput) as e:
        float(pair[1])
    assert said(e) == ("a result of shape [4, 2] as one number: it holds 8\n"
                       "  from test_step.py  float(pair[1])\n"
                       "  try: `.numpy()` gives all of it")


def test_a_model_of_another_dtype_is_refused_by_name() -> None:
    model = nn.Linear(3, 2).double()
    with pytest.raises(BadInput) as e:
        made((lambda x: x, [model], []), (X,))
    assert said(e) == ("weight is float64: HandTorch computes in float32 and int32\n"
                       f"{MADE}  try: model.float() and inputs.float()")


def test_the_two_forms_do_not_mix() -> None:
    fn, models, optimizers = simple(usual)
    with pytest.raises(BadInput, match="train_step with models and a loss or an optimizer"):
        ht.train_step(fn, nn.MSELoss(), models=models, optimizers=optimizers, example=(X,))
    with pytest.raises(BadInput, match="train_step without a loss, an optimizer or models"):
        ht.train_step(fn, optimizers=optimizers, example=(X,))


def test_a_loss_may_hold_tensors_but_nothing_to_train() -> None:
    y = torch.tensor([0, 1, 1, 0])
    torch.manual_seed(0)
    ours = nn.Linear(3, 2)
    theirs = copy.deepcopy(ours)
    loss_fn = Weighted()
    step = ht.train_step(ours, loss_fn, torch.optim.SGD(ours.parameters(), 0.1), example=(X, y),
                         device="ref")
    optimizer = torch.optim.SGD(theirs.parameters(), 0.1)
    loss = loss_fn(theirs(X), y)
    loss.backward()
    optimizer.step()
    assert float(step(X, y)) == pytest.approx(loss.item(), rel=1e-6)
    step.sync_to(ours)
    torch.testing.assert_close(ours.weight, theirs.weight)
    loss_fn.weight = nn.Parameter(loss_fn.scale)
    with pytest.raises(CannotCapture, match="a loss with parameters of its own: "):
        ht.train_step(ours, loss_fn, optimizer, example=(X, y), device="ref")


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0, 3.0]))

    def forward(self, scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (F.log_softmax(scores * self.scale, -1)).sum().neg()


def test_numbers_in_a_tensor_made_in_the_step_are_kept() -> None:
    def body(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
        return usual(model, optimizer, x * torch.tensor([1.0, -2.0, 0.5]) + torch.tensor(0.25))
    assert_same_training(lambda: simple(body, lr=0.01), (X,), "ref", steps=2)


def test_states_are_torchs_own_memory_and_what_torch_has_not_made_is_one_number() -> None:
    torch.manual_seed(0)
    net = nn.Linear(30, 20)
    batch = torch.randn(4, 30), torch.tensor([0, 1, 2, 3])
    fresh = torch.optim.Adam(net.parameters())
    held = capture_train_step(net, F.cross_entropy, fresh, batch).states
    assert np.shares_memory(held["weight"], net.weight.detach().numpy())
    for key in ("exp_avg", "exp_avg_sq"):
        start = held[f"optimizer.{key}.weight"]
        assert start.shape == (20, 30) and start.strides == (0, 0) and not start.any()
    F.cross_entropy(net(batch[0]), batch[1]).backward()
    fresh.step()
    held = capture_train_step(net, F.cross_entropy, fresh, batch).states
    np.testing.assert_array_equal(held["optimizer.exp_avg.weight"],
                                  fresh.state[net.weight]["exp_avg"].numpy())


def test_a_step_keeps_no_second_copy_of_its_weights() -> None:
    step = made(gan(), GAN_BATCH)
    assert step._captured.states.keys() == {s.name for s in step._captured.graph.states
                                            if s.role == "constant"}
