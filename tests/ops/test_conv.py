"""Convolutions and their transposes in one and two dimensions, forward and gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import assert_all_like_torch, assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.capture.step import capture_function, capture_inference
from handtorch.errors import UnsupportedOp
from handtorch.graph.device_spec import GENERIC
from handtorch.pipeline import compile_graph

pytestmark = pytest.mark.spread


@dataclass(frozen=True)
class Layer:
    """A convolution of `x` by `w`; `options` are torch's."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    transposed: bool
    bias: bool
    options: dict[str, Any]

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        kind = f"conv{'_transpose' if self.transposed else ''}{len(self.x) - 2}d"
        return getattr(F, kind)(*tensors, **self.options)

    def tensors(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(sum(self.x))
        groups = self.options.get("groups", 1)
        channels = self.w[1] * groups if self.transposed else self.w[0]
        shapes = [self.x, self.w, *([(channels,)] if self.bias else [])]
        return [torch.randn(s, generator=generator) for s in shapes]


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    """Any of them whose result has at least one pixel."""
    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(axes))
    axes, transposed = draw(st.sampled_from((1, 2, 2))), draw(st.booleans())
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    inner, outer = draw(st.sampled_from((1, 2, 5))), draw(st.sampled_from((1, 3, 4, 18)))
    kernel, stride, dilation = each(1, 4), each(1, 3), each(1, 2)
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    size = tuple(draw(st.integers(max(1, d * (k - 1) + 1 - 2 * p), 12))
                 for d, k, p in zip(dilation, kernel, padding, strict=True))
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation,
                               "groups": groups}
    channels = (inner * groups, outer) if transposed else (outer * groups, inner)
    if transposed:
        options["output_padding"] = tuple(draw(st.integers(0, max(s, d) - 1))
                                          for s, d in zip(stride, dilation, strict=True))
        size = tuple(max(n, 2 * p + 1) for n, p in zip(size, padding, strict=True))
    x = (draw(st.integers(1, 3)), inner * groups, *size)
    return Layer(x, (*channels, *kernel), transposed, draw(st.booleans()), options)


@settings(max_examples=12, deadline=None)
@given(layers())
def test_any_layer_on_ref(layer: Layer) -> None:
    assert_like_torch(layer, *layer.tensors())


@settings(max_examples=4, deadline=None)
@given(layer=layers())
def test_any_layer_on_a_device(opencl_device: Any, layer: Layer) -> None:
    assert_like_torch(layer, *layer.tensors(), devices=[opencl_device.label])


FIXED = {
    "3x3": Layer((2, 16, 9, 9), (70, 16, 3, 3), False, True, {"padding": 1}),
    "1x1": Layer((3, 17, 5, 7), (33, 17, 1, 1), False, False, {}),
    "stem": Layer((1, 3, 23, 23), (16, 3, 7, 7), False, False, {"stride": 2, "padding": 3}),
    "same": Layer((2, 4, 6, 9), (5, 4, 3, 5), False, True, {"padding": "same"}),
    "groups": Layer((2, 8, 7, 9), (24, 4, 3, 3), False, True, {"groups": 2, "padding": 1}),
    "depthwise": Layer((2, 6, 7, 35), (6, 1, 3, 3), False, True, {"groups": 6, "padding": 1}),
    "depthwise by 2": Layer((2, 3, 9, 40), (6, 1, 5, 5), False, False,
                            {"groups": 3, "padding": 2, "stride": 2}),
    "few channels": Layer((1, 20, 6, 18), (2, 20, 3, 3), False, True, {"padding": 1}),
    "one pixel": Layer((1, 1, 1, 1), (1, 1, 1, 1), False, True, {}),
    "text": Layer((2, 12, 31), (18, 12, 7), False, True, {"padding": 3, "stride": 2}),
    "generator": Layer((2, 9, 4, 4), (9, 5, 4, 4), True, False, {"stride": 2, "padding": 1}),
    "to an image": Layer((2, 8, 5, 5), (8, 3, 4, 4), True, True, {"stride": 2, "padding": 1}),
    "output padding": Layer((2, 6, 5, 4), (6, 4, 3, 3), True, True,
                            {"stride": 1, "dilation": 3, "output_padding": 2, "groups": 2}),
}


@pytest.mark.parametrize("part", range(4))
def test_known_layers(opencl_device: Any, part: int) -> None:
    chosen = list(FIXED.items())[part::4]
    assert_all_like_torch({name: (layer, layer.tensors()) for name, layer in chosen},
                          devices=["ref", opencl_device.label])


def _residual(first: dict[str, Any], second: dict[str, Any]) -> Any:
    def block(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        kept = torch.relu(F.conv2d(torch.relu(x), v, b, **first))
        return F.conv2d(torch.relu(F.conv2d(kept, w, **second) + kept), v, **first)
    return block


RESIDUAL = {
    "wide": ((3, 70, 5, 6), (70, 70, 1, 1), (70, 70, 3, 3), {}, {"padding": 1}),
    "narrow": ((3, 5, 6, 5), (5, 5, 3, 3), (5, 5, 3, 3), {"padding": 1}, {"padding": 1}),
    "depthwise": ((2, 16, 5, 19), (16, 1, 3, 3), (16, 16, 1, 1), {"padding": 1, "groups": 16}, {}),
}


def test_sums_and_masks_after_convolutions(opencl_device: Any) -> None:
    """As in residual blocks: the sum, ReLU and, on the way back, its mask are part of the
    convolutions, and none of them is a launch of its own."""
    cases = {}
    for name, (x, v, w, first, second) in RESIDUAL.items():
        generator = torch.Generator().manual_seed(3)
        tensors = [torch.randn(s, generator=generator) for s in (x, v, w, (v[0],))]
        cases[name] = (_residual(first, second), tensors)
    assert_all_like_torch(cases, devices=["ref", opencl_device.label])
    fn, tensors = cases["wide"]
    captured = capture_function(
        lambda *t: torch.autograd.grad(fn(*(u.detach().requires_grad_() for u in t[:1]),
                                          *(ws := [u.detach().requires_grad_() for u in t[1:]])
                                          ).sum(), ws), tensors)
    does = {n.words("epilogue") for n in compile_graph(captured.graph, GENERIC).graph.nodes
            if n.op.startswith("conv")}
    assert {("add", "relu"), ("bias", "relu"), ("relu_grad",), ("add", "relu_grad")} <= does


def test_no_image_batch_and_no_gradient_of_the_image(opencl_device: Any) -> None:
    """A single image has no batch axis; the first layer's input asks for no gradient."""
    layer = torch.nn.Conv2d(3, 5, 3)

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x.detach(), w)
    assert_like_torch(loss, torch.randn(3, 8, 8), layer.weight, devices=["ref",
                                                                        opencl_device.label])
    captured = capture_function(
        lambda x, w: torch.autograd.grad(loss(x, w := w.detach().requires_grad_()).sum(), w),
        [torch.randn(1, 3, 8, 8), layer.weight])
    assert "conv_grad_input" not in [n.op for n in captured.graph.nodes]


def test_a_weight_gradient_in_chunks_is_the_same_twice(opencl_device: Any) -> None:
    """Several partial sums, added in a fixed order: no bit changes from run to run."""
    from handtorch.runtime.choose import open_executor
    layer = Layer((4, 3, 64, 64), (8, 3, 3, 3), False, False, {"padding": 1})
    tensors = layer.tensors()

    def gradient(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        w = w.detach().requires_grad_()
        return torch.autograd.grad(layer(x, w).square().sum(), w)[0]
    captured = capture_function(gradient, tensors)
    executor = open_executor(opencl_device.label)
    program = compile_graph(captured.graph, executor.spec)
    (part,) = (s.operands[2].value for s in program.steps
               if s.kernel in ("conv_weight", "conv_weight_packed"))
    assert part.shape[0] > 1
    resident = executor.load(program, {})
    runs = [resident.submit([t.numpy() for t in tensors]).result()[0] for _ in range(3)]
    resident.close()
    assert all((r == runs[0]).all() for r in runs)


def test_layers_of_one_kind_share_kernels() -> None:
    """Sizes are arguments: other heights, channels and strides need no other kernel, but for maps
    so small that many taps look beside them."""
    layers = [torch.nn.Conv2d(64, 64, k, 1 + i % 2, k // 2, bias=False)
              for i, k in enumerate((3, 1, 3, 2))]
    captured = capture_inference(torch.nn.Sequential(*layers), [torch.randn(16, 64, 128, 128)])
    program = compile_graph(captured.graph, GENERIC)
    steps = [s for s in program.steps if s.kernel != "move"]
    assert len(program.steps) - len(steps) == 2                 # the picture turned, in and out
    assert len({(s.kernel, s.defines) for s in steps}) == 2


def test_three_dimensions_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedOp) as e:
        capture_function(F.conv3d, [torch.randn(1, 2, 3, 3, 3), torch.randn(2, 2, 1, 1, 1)])
    assert str(e.value).splitlines()[0] == ("a convolution of %0 f32[1,2,3,3,3]: 3 dimensions; "
                                           "1 and 2 are known")


def test_an_empty_batch_is_refused() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x[:0], w)
    with pytest.raises(UnsupportedOp) as e:
        capture_function(fn, [torch.randn(1, 2, 3, 3), torch.randn(2, 2, 1, 1)])
    first = str(e.value).splitlines()[0]
    assert first.endswith("f32[0,2,3,3]: it has no elements")
