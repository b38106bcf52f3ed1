"""Losses in every reduction, forward and gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import assert_all_like_torch, assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.capture.step import capture_function
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Graph
from handtorch.pipeline import compile_graph

pytestmark = pytest.mark.spread

Tensor = torch.Tensor
Fn = Callable[..., Tensor]
REDUCTIONS = ("mean", "sum", "none")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def classes(count: int, *shape: int, ignored: int | None = -100) -> Tensor:
    """Class numbers; where there are several, the first is to be ignored."""
    found = torch.randint(count, shape, generator=torch.Generator().manual_seed(1))
    if ignored is not None and found.numel() > 1:
        found.view(-1)[0] = ignored
    return found


def cross_entropy(x: Tensor, y: Tensor, w: Tensor, *, weighted: bool = False, **options: Any
                  ) -> Tensor:
    return F.cross_entropy(x, y, w.detach().abs() if weighted else None, **options)


def nll(x: Tensor, y: Tensor, w: Tensor, *, weighted: bool = False, **options: Any) -> Tensor:
    return F.nll_loss(x, y, w.detach().abs() if weighted else None, **options)


CLASS_CASES: dict[str, tuple[Fn, tuple[int, ...]]] = {
    **{f"ce {r}": (partial(cross_entropy, reduction=r), (6, 5)) for r in REDUCTIONS},
    **{f"ce weighted {r}": (partial(cross_entropy, weighted=True, reduction=r), (6, 5))
       for r in REDUCTIONS},
    **{f"ce images {r}": (partial(cross_entropy, weighted=True, reduction=r), (2, 3, 4, 5))
       for r in REDUCTIONS},
    "ce lines": (cross_entropy, (2, 3, 16)),
    "ce volumes": (cross_entropy, (2, 3, 2, 2, 2)),
    "ce one row": (cross_entropy, (7,)),
    "ce scaled": (lambda x, y, w: cross_entropy(x, y, w) * 3, (6, 5)),
    "ce smooth": (partial(cross_entropy, label_smoothing=0.1), (6, 5)),
    "ce smooth weighted": (partial(cross_entropy, weighted=True, label_smoothing=0.2), (6, 5)),
    "ce smooth images": (partial(cross_entropy, label_smoothing=0.1, reduction="sum"), (2, 3, 5)),
    "nll": (nll, (6, 5)),
    "nll weighted sum": (partial(nll, weighted=True, reduction="sum"), (6, 5)),
    "nll none": (partial(nll, reduction="none"), (2, 3, 4)),
}


def _given(shape: tuple[int, ...]) -> list[Tensor]:
    count = shape[1] if len(shape) > 1 else shape[0]
    target = classes(count, *(shape[:1] + shape[2:] if len(shape) > 1 else ()))
    return [numbers(*shape), target, numbers(count, seed=2)]


@pytest.mark.parametrize("name", CLASS_CASES)
def test_class_losses_on_ref(name: str) -> None:
    fn, shape = CLASS_CASES[name]
    assert_like_torch(fn, *_given(shape))


CLASS_ON_A_DEVICE = (
    "ce mean", "ce weighted mean", "ce weighted none", "ce images mean", "ce lines", "ce one row",
    "ce scaled", "ce smooth", "ce smooth weighted", "nll weighted sum", "nll none")


@pytest.mark.parametrize("part", range(2))
def test_class_losses_on_a_device(part: int, opencl_device: Any) -> None:
    chosen = {name: CLASS_CASES[name] for name in CLASS_ON_A_DEVICE[part::2]}
    assert_all_like_torch({name: (fn, _given(shape)) for name, (fn, shape) in chosen.items()},
                          devices=[opencl_device.label])


PAIR_CASES: dict[str, Fn] = {
    **{f"{name} {r}": partial(loss, reduction=r)
       for r in REDUCTIONS
       for name, loss in {"mse": F.mse_loss, "l1": F.l1_loss,
                          "smooth": partial(F.smooth_l1_loss, beta=0.5),
                          "huber": partial(F.huber_loss, delta=0.7)}.items()},
    **{f"logits {r}": (lambda x, y, r=r: F.binary_cross_entropy_with_logits(
        4 * x, y.detach().sigmoid(), reduction=r)) for r in REDUCTIONS},
    "logits weighted": lambda x, y: F.binary_cross_entropy_with_logits(
        x, y.detach().sigmoid(), weight=y.detach().abs(), pos_weight=y.detach()[0].abs()),
    **{f"bce {r}": (lambda x, y, r=r: F.binary_cross_entropy(
        x.sigmoid(), y.detach().sigmoid(), reduction=r)) for r in REDUCTIONS},
    "bce weighted": lambda x, y: F.binary_cross_entropy(
        x.sigmoid(), y.detach().sigmoid(), weight=y.detach()[0].abs()),
    "kl": lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
    "kl log": lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="sum",
                                    log_target=True),
    "ce of probabilities": lambda x, y: F.cross_entropy(x, y.softmax(1)),
    "poisson": lambda x, y: F.poisson_nll_loss(x, y.detach().abs()),
    "triplet": lambda x, y: F.triplet_margin_loss(x, y, x * 0.5 + 1),
    "embedding": lambda x, y: F.cosine_embedding_loss(x, y, y.detach()[:, 0].sign()),
}


@pytest.mark.parametrize("name", PAIR_CASES)
def test_pair_losses_on_ref(name: str) -> None:
    assert_like_torch(PAIR_CASES[name], numbers(4, 5), numbers(4, 5, seed=1))


@pytest.mark.parametrize("part", range(3))
def test_pair_losses_on_a_device(part: int, opencl_device: Any) -> None:
    """Several in one program, which is compiled once; each output has a gradient of its own."""
    fns = list(PAIR_CASES.values())[part::3]    # so that each part has all reductions
    assert_like_torch(lambda x, y: [fn(x, y) for fn in fns], numbers(4, 5), numbers(4, 5, seed=1),
                      devices=[opencl_device.label])


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.sampled_from(REDUCTIONS),
       st.booleans(), st.integers(-1, 2))
def test_cross_entropy_of_any_shape(shape: list[int], reduction: str, weighted: bool, ignore: int
                                    ) -> None:
    target = classes(shape[1], shape[0], *shape[2:], ignored=None)
    if (target == ignore).all() and reduction == "mean":
        return                                   # 0 / 0
    fn = partial(cross_entropy, weighted=weighted, reduction=reduction, ignore_index=ignore)
    assert_like_torch(fn, numbers(*shape), target, numbers(shape[1], seed=2))


def test_nothing_to_learn_from_is_nan(opencl_device: Any) -> None:
    """As in PyTorch: a mean over no rows; its gradient is still 0."""
    target = torch.full((3,), -100)
    assert_like_torch(cross_entropy, numbers(3, 4), target, numbers(4),
                      devices=["ref", opencl_device.label])


def test_many_rows(opencl_device: Any) -> None:
    """More targets than one item counts, with weights and without."""
    x, target, w = numbers(2, 3, 60, 50), classes(3, 2, 60, 50), numbers(3, seed=2)
    for weighted in (False, True):
        assert_like_torch(partial(cross_entropy, weighted=weighted), x, target, w,
                          devices=[opencl_device.label])


def _graph(fn: Fn) -> Graph:
    def step(x: Tensor, y: Tensor, w: Tensor) -> list[Tensor]:
        x = x.detach().requires_grad_()
        loss = fn(x, y, w)
        return [loss.detach(), *torch.autograd.grad(loss, [x])]
    captured = capture_function(step, [numbers(6, 5), classes(5, 6), numbers(5)])
    return compile_graph(captured.graph, GENERIC).graph


def test_only_the_plain_loss_of_rows_is_fused() -> None:
    assert [n.op for n in _graph(cross_entropy).nodes] == ["cross_entropy"]
    ops = [n.op for n in _graph(partial(cross_entropy, weighted=True)).nodes]
    assert "cross_entropy" not in ops and "nll_loss" in ops
