"""accumulate=k against torch on the whole batch, and what is refused because it would differ."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput, CannotCapture
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

ROWS = 8


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def whole(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(high))


class Recurrent(nn.Module):
    def __init__(self, batch_first: bool, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.rnn, self.last = kind(6, 8, num_layers=2, batch_first=batch_first), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> Any:
        if self.rnn.batch_first:
            return self.last(self.rnn(x)[0][:, -1])
        return self.last(self.rnn(x.transpose(0, 1))[0][-1])


class Language(nn.Module):
    """Words, their places, a transformer layer, and the table once more: a tied weight."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.places = nn.Parameter(torch.randn(1, 7, 16) * 0.1)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=dropout, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        mixed = self.layer(self.words(x) + self.places)
        return (mixed @ self.words.weight.T).transpose(1, 2)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))


def pictures(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm, nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(8, 5))


FLAT, IMAGE, SERIES = random(ROWS, 12), random(ROWS, 3, 9, 9), random(ROWS, 7, 6)
TEXT, LABELS, FLOATS = whole(20, ROWS, 7), whole(5, ROWS), random(ROWS, 5)
ENTROPY = nn.CrossEntropyLoss()
Case = tuple[Callable[[], nn.Module], Any, torch.Tensor, torch.Tensor]
MODELS: dict[str, Case] = {
    "mlp": (mlp, ENTROPY, FLAT, LABELS),
    "mlp, a sum": (mlp, nn.CrossEntropyLoss(reduction="sum"), FLAT, LABELS),
    "mlp, a sum of weighted classes": (mlp, nn.CrossEntropyLoss(
        weight=torch.tensor([1.0, 0.5, 2.0, 1.5, 0.3]), reduction="sum"), FLAT, LABELS),
    "mlp, smoothed labels": (mlp, nn.CrossEntropyLoss(label_smoothing=0.1), FLAT, LABELS),
    "mlp, squares": (mlp, nn.MSELoss(), FLAT, FLOATS),
    "mlp, a sum of squares": (mlp, nn.MSELoss(reduction="sum"), FLAT, FLOATS),
    "mlp, binary": (mlp, nn.BCEWithLogitsLoss(), FLAT, (FLOATS > 0).float()),
    "group-norm": (lambda: pictures(nn.GroupNorm(2, 8)), ENTROPY, IMAGE, LABELS),
    "instance-norm": (lambda: pictures(nn.InstanceNorm2d(8, affine=True)), ENTROPY, IMAGE, LABELS),
    "batch-norm that is frozen": (lambda: pictures(nn.BatchNorm2d(8).eval()), ENTROPY, IMAGE,
                                  LABELS),
    "lstm": (lambda: Recurrent(True, nn.LSTM), ENTROPY, SERIES, LABELS),
    "lstm, time first": (lambda: Recurrent(False, nn.LSTM), ENTROPY, SERIES, LABELS),
    "gru": (lambda: Recurrent(False, nn.GRU), ENTROPY, SERIES, LABELS),
    "transformer": (Language, ENTROPY, TEXT, whole(20, ROWS, 7)),
}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum, decay": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.02),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3),
}


def distance(ours: nn.Module, theirs: nn.Module) -> float:
    """Relative, of all weights together, in the 2-norm."""
    a, b = (torch.cat([p.detach().double().flatten() for p in m.parameters()])
            for m in (ours, theirs))
    return float((a - b).norm() / b.norm())


def check(case: Case, make: Callable[[Any], torch.optim.Optimizer], device: str, parts: int,
          steps: int = 4) -> None:
    """Losses and weights are those of torch in float64 on the whole batch: 1e-6 is eight roundings
    of float32."""
    build, loss_fn, x, y = case
    torch.manual_seed(3)
    ours = build()
    theirs = copy.deepcopy(ours).double()
    optimizer, reference = make(ours.parameters()), make(theirs.parameters())
    step = ht.train_step(ours, loss_fn, optimizer, example=(x, y), device=device, accumulate=parts)
    wide = [t.double() if t.is_floating_point() else t for t in (x, y)]
    exact = copy.deepcopy(loss_fn).double() if isinstance(loss_fn, nn.Module) else loss_fn
    for _ in range(steps):
        mine = float(step(x, y))
        reference.zero_grad()
        loss = exact(theirs(wide[0]), wide[1])
        loss.backward()
        reference.step()
        assert mine == pytest.approx(loss.item(), rel=1e-5)
    step.sync_to(ours, optimizer)
    assert distance(ours, theirs) < 1e-6
    step.close()


IN_ROWS = ("mlp", "group-norm", "lstm")           # the others, a row at a time, are slow tests


@pytest.mark.parametrize(("name", "parts"), [
    *((name, 2) for name in MODELS),
    *(pytest.param(name, ROWS, marks=() if name in IN_ROWS else pytest.mark.slow)
      for name in MODELS)])
def test_weights_are_those_of_the_whole_batch(name: str, parts: int) -> None:
    check(MODELS[name], OPTIMIZERS["momentum, decay"], "ref", parts)


@pytest.mark.parametrize("name", ["mlp", "group-norm", "lstm", "transformer"])
def test_on_a_device_too(opencl_device: Any, name: str) -> None:
    check(MODELS[name], OPTIMIZERS["adamw"], opencl_device.label, 4)


@pytest.mark.parametrize("device", ["ref", "opencl"])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_optimizer_updates_once(opencl_device: Any, device: str,
                                      make: Callable[[Any], torch.optim.Optimizer]) -> None:
    check(MODELS["mlp"], make, device if device == "ref" else opencl_device.label, 4)


def clipped(model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """A user's own step: a penalty in the loss, gradients clipped by their norm."""
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        scores = model(x)
        weight = next(model.parameters())
        loss = F.cross_entropy(scores, y, reduction="sum") + 0.01 * (weight ** 2).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        right = (scores.argmax(1) == y).sum()
        return {"loss": loss, "right": right, "scores": scores, "norm": weight.norm()}
    return step


@pytest.mark.parametrize("device", ["ref", "opencl"])
def test_clipping_and_penalties_see_the_whole_gradient(opencl_device: Any, device: str) -> None:
    """Not linear in it, so they wait for the sum; and every kind of result is put together."""
    torch.manual_seed(3)
    ours = mlp()
    theirs = copy.deepcopy(ours).double()
    make = OPTIMIZERS["sgd"]
    optimizer, reference = make(ours.parameters()), make(theirs.parameters())
    step = ht.train_step(clipped(ours, optimizer), models=[ours], optimizers=[optimizer],
                         example=(FLAT, LABELS), accumulate=4,
                         device=device if device == "ref" else opencl_device.label)
    eager = clipped(theirs, reference)
    for _ in range(3):
        mine, want = step(FLAT, LABELS), eager(FLAT.double(), LABELS)
        for name, tensor in want.items():
            np.testing.assert_allclose(mine[name].numpy(), tensor.detach().numpy(), rtol=1e-5,
                                       atol=1e-5)
    step.sync_to(ours)
    assert distance(ours, theirs) < 1e-6


def test_a_steady_state_without_waiting_and_clean_accumulators(opencl_device: Any) -> None:
    model = mlp()
    step = ht.train_step(model, ENTROPY, OPTIMIZERS["adam"](model.parameters()),
                         example=(FLAT, LABELS), device=opencl_device.label, accumulate=4)
    before = step.resident.counters.blocking_calls
    for _ in range(5):
        step(FLAT, LABELS)
    assert step.resident.counters.blocking_calls == before
    launches = step.program.update_step
    assert step.resident.counters.launches == 5 * (3 * launches + len(step.program.steps))
    held = [s for s in step.program.graph.states if s.role == "accumulator"]
    assert {s.name for s in held} == {f"gradient.{name}" for name, _ in model.named_parameters()}
    assert all(not step.resident.read_state(s.name).any() for s in held)


def test_an_epoch_goes_over_whole_batches() -> None:
    x, y = random(21, 12), whole(5, 21)
    losses = []
    for parts in (1, 4):
        torch.manual_seed(3)
        model = mlp()
        step = ht.train_step(model, ENTROPY, OPTIMIZERS["sgd"](model.parameters()),
                             example=(FLAT, LABELS), device="ref", accumulate=parts)
        losses.append([[float(loss) for loss in step.epoch(x, y, seed=seed)]
                       for seed in (None, 1)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_what_is_printed_tells_of_the_parts_and_of_their_sums() -> None:
    model = mlp()
    step = ht.train_step(model, ENTROPY, OPTIMIZERS["sgd"](model.parameters()),
                         example=(FLAT, LABELS), device="ref", accumulate=4)
    lines = str(step).splitlines()
    assert lines[0] == "4 micro-batches of 2 rows and one update a step; of each micro-batch:"
    assert "of which 1,172 add up gradients" in lines[3]


def refused(model: nn.Module, loss_fn: Any = ENTROPY, example: Any = (FLAT, LABELS),
            parts: int = 4) -> str:
    with pytest.raises((BadInput, CannotCapture)) as e:
        ht.train_step(model, loss_fn, OPTIMIZERS["sgd"](model.parameters()), example=example,
                      device="ref", accumulate=parts)
    return said(e)


def test_batch_norm_is_refused_with_its_layer() -> None:
    text = refused(pictures(nn.BatchNorm2d(8)), example=(IMAGE, LABELS))
    assert text.splitlines()[0] == (
        "micro-batches: norm_stats of layer 1: batch-norm takes mean and variance over all rows of "
        "the batch, and a part of it has others")
    assert text.splitlines()[-1] == (
        "  try: nn.GroupNorm; layer.eval() before train_step, which keeps its statistics as they "
        "are; or the whole batch without accumulate")


class Odd(nn.Module):
    """A linear layer and something that looks beyond single rows."""

    def __init__(self, look: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.fc, self.look = nn.Linear(12, 5), look

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.look(self.fc(x))


LOOKS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "a mean over the batch": (lambda h: h - h.mean(0), "rows of the batch meet a sum over all"),
    "the largest of the batch": (lambda h: h - h.amax(0), "it takes the largest or smallest over"),
    "softmax over the batch": (lambda h: h.softmax(0), "it takes the softmax over rows"),
    "attention across rows": (lambda h: (h @ h.T) @ h, "a product of rows of the batch with other"),
    "a shuffle": (lambda h: h.roll(1, 0), "it picks rows of the batch by their place"),
    "the order of rows": (lambda h: h.flip(0), "it picks rows of the batch by their place"),
    "the first row": (lambda h: h + h[:1], "it picks rows of the batch by their place"),
    "a row that is written": (lambda h: h.index_fill(0, torch.tensor([0]), 1.0),
                              "it writes to rows of the batch"),
    "noise for all": (lambda h: h + torch.randn(5), "random numbers that all rows of the batch"),
    "the number of rows": (lambda h: h * (1 + len(h)) ** 0.5, "depends on the number of rows"),
    "another course": (lambda h: h.tanh() if len(h) < 4 else h, "the step takes another course"),
}


@pytest.mark.parametrize(("look", "why"), LOOKS.values(), ids=LOOKS)
def test_what_mixes_rows_is_refused(look: Any, why: str) -> None:
    text = refused(Odd(look))
    assert why in text
    assert "test_parts.py" in text


def test_class_weights_in_a_mean_are_refused() -> None:
    text = refused(mlp(), nn.CrossEntropyLoss(weight=torch.ones(5)))
    assert "divided by the sum of the weights of the labels" in text


def test_the_second_half_of_a_gan_is_refused() -> None:
    first, second = nn.Linear(12, 12), nn.Linear(12, 1)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]

    def step(x: torch.Tensor) -> Any:
        optimizers[1].zero_grad()
        second(first(x).detach()).mean().backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        loss = second(first(x)).mean()
        loss.backward()
        optimizers[0].step()
        return loss

    with pytest.raises(CannotCapture) as e:
        ht.train_step(step, models=[first, second], optimizers=optimizers, example=(FLAT,),
                      device="ref", accumulate=2)
    text = said(e)
    assert "with weights that the step has updated already" in text
    assert "loss = second(first(x)).mean()" in text


def test_two_optimizers_after_all_gradients_are_not() -> None:
    def losses(parts: int) -> list[float]:
        torch.manual_seed(3)
        first, second = nn.Linear(12, 12), nn.Linear(12, 5)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for o in optimizers:
                o.zero_grad()
            loss = F.cross_entropy(second(first(x)), y)
            loss.backward()
            for o in optimizers:
                o.step()
            return loss

        made = ht.train_step(step, models=[first, second], optimizers=optimizers, device="ref",
                             example=(FLAT, LABELS), accumulate=parts)
        return [float(made(FLAT, LABELS)) for _ in range(3)]
    assert losses(4) == pytest.approx(losses(1), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_labels_that_do_not_count_must_be_spread_evenly(smoothing: float) -> None:
    model = mlp()
    step = ht.train_step(model, nn.CrossEntropyLoss(label_smoothing=smoothing),
                         OPTIMIZERS["sgd"](model.parameters()),
                         example=(FLAT, LABELS), device="ref", accumulate=4)
    y = LABELS.clone()
    y[::2] = -100
    float(step(FLAT, y))
    y[2] = 1
    with pytest.raises(BadInput) as e:
        step(FLAT, y)
    assert said(e).splitlines()[0] == (
        "input y has 1, 2, 1, 1 labels other than -100 in its micro-batches: the mean of the batch "
        "is the mean of theirs only if they have equally many")


@pytest.mark.parametrize(("parts", "says"), [
    (3, "accumulate=3 of a batch of 8 rows: its micro-batches would not be of one size"),
    (0, "accumulate=0: it is the number of micro-batches of a batch"),
    (2.0, "accumulate=2.0: it is the number of micro-batches of a batch"),
])
def test_numbers_of_parts_that_cannot_be(parts: Any, says: str) -> None:
    assert refused(mlp(), parts=parts).splitlines()[0] == says


def test_inputs_need_a_first_axis_in_common() -> None:
    text = refused(mlp(), example=(FLAT, LABELS[:4]))
    assert text.splitlines()[0] == (
        "accumulate=4 of a batch of shapes [8, 12], [4]: it is cut along the first axis, which "
        "must be there and of one length in all inputs")


def test_a_place_for_the_whole_batch_there_is_not() -> None:
    model = mlp()
    step = ht.train_step(model, ENTROPY, OPTIMIZERS["sgd"](model.parameters()),
                         example=(FLAT, LABELS), device="ref", accumulate=4)
    with pytest.raises(BadInput) as e:
        step.stage()
    assert said(e).splitlines()[0] == (
        "stage() of a step that accumulates: a batch goes to the device in 4 parts, each to a "
        "place of its own")


def test_a_checkpoint_goes_on(tmp_path: Path) -> None:
    steps = []
    for _ in range(2):
        model = mlp()
        steps.append(ht.train_step(model, ENTROPY, OPTIMIZERS["adamw"](model.parameters()),
                                   example=(FLAT, LABELS), device="ref", accumulate=4))
    steps[0](FLAT, LABELS)
    steps[0].save_checkpoint(tmp_path / "a.safetensors")
    steps[1].load_checkpoint(tmp_path / "a.safetensors")
    losses = [float(step(FLAT, LABELS)) for step in steps]
    assert losses[0] == losses[1] and [step.steps for step in steps] == [2, 2]


def test_dropout_works_and_each_part_has_numbers_of_its_own() -> None:
    torch.manual_seed(3)
    model = Language(dropout=0.5)
    step = ht.train_step(model, ENTROPY, torch.optim.SGD(model.parameters(), lr=0.0),
                         example=(TEXT[:1].repeat(8, 1), TEXT[:1].repeat(8, 1)), device="ref",
                         accumulate=8)
    ticket = step(TEXT[:1].repeat(8, 1), TEXT[:1].repeat(8, 1)).ticket
    assert len({float(part.result()[0]) for part in ticket.parts}) == 8
