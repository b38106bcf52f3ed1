"""Matrix products of every rank, attention, and the layers made of it: forward and gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from harness import assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from handtorch.capture.step import capture_function, capture_inference
from handtorch.errors import UnsupportedOp
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Graph
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor

pytestmark = pytest.mark.spread


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# x is [4, 6, 5], w is [5, 7].
Fn = Callable[[torch.Tensor, torch.Tensor], Any]
FUNCTIONS: dict[str, Fn] = {
    "bmm": lambda x, w: (torch.bmm(x, x.mT), torch.bmm(x.mT, x), torch.bmm(x.mT, x[:, :, :1])),
    "both turned": lambda x, w: torch.bmm(x.mT, x.reshape(4, 5, 6).mT),
    "baddbmm": lambda x, w: (torch.baddbmm(x[:, :, :1], x, x.mT, beta=0.5, alpha=3),
                             torch.baddbmm(x[:1, :1, :1], x, x.mT, beta=0)),
    "ranks": lambda x, w: (x @ w, x @ w[:, 0], w[:, 0] @ x.mT, x[None] @ x.mT[:, None],
                           x[0] @ w, x[:1] @ x[:1].mT),
    "vectors": lambda x, w: (x[0] @ w[:, 1], x[0, 0] @ w[:, 0], torch.outer(x[0, 0], w[0]),
                             torch.addmv(x[0, :, 0], x[0], w[:, 0], beta=2, alpha=0.5),
                             x[0, 0] @ w),
    "addmm": lambda x, w: (torch.addmm(w[0], x[0], w), torch.addmm(w[:1], x[0], w, alpha=2),
                           torch.addmm(x[0, :, :1], x[0], w, beta=3), F.linear(x, w.T, w[0]),
                           torch.addmm(w[0, 0], x[0], w)),
    "einsum": lambda x, w: (torch.einsum("bij,bkj->bik", x, x), torch.einsum("bij,jk->bki", x, w),
                            torch.einsum("bij,bij->b", x, x), torch.einsum("bij,bkl->jl", x, x)),
    "one matrix for all": lambda x, w: torch.bmm(x, w.expand(4, 5, 7)),
}


def together(functions: Sequence[Callable[..., Any]]) -> Callable[..., list[torch.Tensor]]:
    def fn(*x: torch.Tensor) -> list[torch.Tensor]:
        made = [f(*x) for f in functions]
        return [t for m in made for t in ([m] if isinstance(m, torch.Tensor) else m)]
    return fn


@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_ref(name: str) -> None:
    assert_like_torch(together([FUNCTIONS[name]]), numbers(4, 6, 5), numbers(5, 7))


def test_on_a_device(opencl_device: Any) -> None:
    assert_like_torch(together([*FUNCTIONS.values()]), numbers(4, 6, 5), numbers(5, 7),
                      devices=[opencl_device.label])


SIZES = st.tuples(st.integers(2, 5), *(st.integers(1, 70) for _ in range(3)))


@settings(max_examples=3, deadline=None)
@given(sizes=SIZES, turned=st.tuples(st.booleans(), st.booleans()))
def test_random_batches_on_a_device(opencl_device: Any, sizes: Any, turned: Any) -> None:
    batch, m, n, k = sizes
    a = numbers(batch, k, m) if turned[0] else numbers(batch, m, k)
    b = numbers(batch, n, k) if turned[1] else numbers(batch, k, n)
    assert_like_torch(lambda x, y: torch.bmm(x.mT if turned[0] else x, y.mT if turned[1] else y),
                      a, b, devices=["ref", opencl_device.label])


def graph_of(fn: Callable[..., Any], *inputs: torch.Tensor) -> Graph:
    return compile_graph(capture_function(fn, inputs).graph, GENERIC).graph


def test_transposed_batches_are_read_as_they_lie() -> None:
    def fn(x: torch.Tensor, g: torch.Tensor) -> Any:
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(torch.bmm(leaf, leaf.mT), leaf, g)[0]
    ops = [n.op for n in graph_of(fn, numbers(4, 6, 5), numbers(4, 6, 6)).nodes]
    assert sorted(ops) == ["bmm", "bmm", "pointwise"]


def test_one_matrix_for_the_whole_batch_is_not_copied() -> None:
    graph = graph_of(lambda x, w: torch.bmm(x, w.expand(4, 5, 7)), numbers(4, 6, 5), numbers(5, 7))
    assert [n.op for n in graph.nodes] == ["reshape", "bmm"]


def test_products_of_whole_numbers_are_refused() -> None:
    with pytest.raises(UnsupportedOp) as caught:
        capture_function(lambda x: x @ x, [torch.ones(3, 3, dtype=torch.int64)])
    assert str(caught.value).splitlines()[0] == (
        "aten.mm of %0 i32[3,3]: products are computed in float32")


# q is [2, 3, 5, 4].
MASK = torch.tensor([[1, 0, 0, 0, 1], [1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1],
                     [0, 0, 0, 1, 0]]).bool()                  # the third row sees nothing
ATTENTION: dict[str, Callable[..., torch.Tensor]] = {
    "plain": lambda q, m: F.scaled_dot_product_attention(q, q * 2, q + 1),
    "causal": lambda q, m: F.scaled_dot_product_attention(q, q[..., :3, :], q[..., :3, :] * 2,
                                                          is_causal=True, scale=0.3),
    "mask": lambda q, m: F.scaled_dot_product_attention(q, q * 2, q + 1, m),
    "mask that is added": lambda q, m: F.scaled_dot_product_attention(
        q, q * 2, q + 1, attn_mask=torch.where(m, 0.5, float("-inf"))),
    "groups": lambda q, m: F.scaled_dot_product_attention(
        query=q.repeat(1, 2, 1, 1), key=q * 2, value=q + 1, enable_gqa=True),
}


def test_attention_on_ref() -> None:
    assert_like_torch(together([*ATTENTION.values()]), numbers(2, 3, 5, 4), MASK)


def test_attention_on_a_device(opencl_device: Any) -> None:
    assert_like_torch(together([*ATTENTION.values()]), numbers(2, 3, 5, 4), MASK,
                      devices=[opencl_device.label])


def test_attention_without_a_mask_asks_nobody_whether_it_is_empty() -> None:
    graph = graph_of(ATTENTION["plain"], numbers(2, 3, 5, 4), MASK)
    heavy = [n.op for n in graph.nodes if n.op not in ("reshape", "pointwise")]
    assert heavy == ["bmm", "softmax", "bmm"]


class Layers(nn.Module):
    """Self-attention with weights given out, then a whole encoder layer, with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, weights = self.attend(x, x, x, key_padding_mask=padding)
        return self.layer(x + y, src_key_padding_mask=padding), weights


PADDING = torch.tensor([[False] * 5, [False, False, False, True, True]])


@pytest.mark.parametrize("place", ["ref", "device"])
def test_encoder_layers(place: str, opencl_device: Any) -> None:
    """Outputs and the gradients of inputs and of every weight."""
    model = Layers()
    names = [n for n, _ in model.named_parameters()]

    def fn(x: torch.Tensor, padding: torch.Tensor, *weights: torch.Tensor) -> Any:
        return functional_call(model, dict(zip(names, weights, strict=True)), (x, padding))
    assert_like_torch(fn, numbers(2, 5, 8), PADDING, *(p.detach() for p in model.parameters()),
                      devices=["ref" if place == "ref" else opencl_device.label])


def test_inference_takes_no_fast_path() -> None:
    """In eval mode torch would run the layer as one opaque operation."""
    model = Layers().eval()
    x = numbers(2, 5, 8)
    captured = capture_inference(model, [x, PADDING])
    executor = open_executor("ref")
    resident = executor.load(compile_graph(captured.graph, executor.spec), captured.states)
    got = resident.submit([x.numpy(), PADDING.numpy()]).result()
    assert torch.backends.mha.get_fastpath_enabled()          # put back
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        want = model(x, PADDING)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("depth", [257, 300])       # a prime; five rows of 60 pixels
def test_long_products_go_block_by_block(opencl_device: Any, depth: int) -> None:
    """A^T B, as of a weight gradient, by the kernel that does those of convolutions."""
    a, b = numbers(depth, 70), numbers(depth, 301, seed=1)
    assert_like_torch(lambda x, y: x.t() @ y, a, b, devices=["ref", opencl_device.label],
                      gradients=False)
    captured = capture_function(lambda x, y: x.t() @ y, [a, b])
    program = compile_graph(captured.graph, replace(GENERIC, kind="cpu", float_width=16))
    assert [s.kernel for s in program.steps][:1] == ["conv_weight_packed"]
