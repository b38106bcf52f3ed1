"""Any torch function, forward and gradient, against float64 torch on `ref` and on a device.

The yardstick is float32 torch itself: our error, norm-wise, may be four times its error plus 1e-6
(another order of summation is no fault, a wrong formula is)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from handtorch.capture.step import capture_function
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor

Fn = Callable[..., Any]


def with_gradients(fn: Fn, inputs: Sequence[torch.Tensor], seeds: Sequence[torch.Tensor]
                   ) -> list[torch.Tensor]:
    """Outputs of `fn`, then the gradients of all float inputs for the given output gradients."""
    leaves = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    out = fn(*leaves)
    outs = [out] if isinstance(out, torch.Tensor) else list(out)
    floats = [o for o in outs if o.is_floating_point() and o.requires_grad]
    wanted = [x for x in leaves if x.is_floating_point()]
    if not floats or not wanted:
        return outs
    grads = torch.autograd.grad(floats, wanted, list(seeds[:len(floats)]), allow_unused=True)
    return [o.detach() for o in outs] + [g for g in grads if g is not None]


def seeds_for(fn: Fn, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    out = fn(*inputs)
    outs = [out] if isinstance(out, torch.Tensor) else list(out)
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(o.shape, generator=generator) for o in outs if o.is_floating_point()]


def assert_like_torch(fn: Fn, *inputs: torch.Tensor, devices: Sequence[str] = ("ref",),
                      gradients: bool = True) -> None:
    """`fn(*inputs)` and, unless told otherwise, its gradients: right on all `devices`.

    `devices` are names for `open_executor`: "ref", or an OpenCL device's label."""
    seeds = seeds_for(fn, inputs) if gradients else []

    def whole(*arguments: torch.Tensor) -> list[torch.Tensor]:
        if gradients:
            return with_gradients(fn, arguments[:len(inputs)], arguments[len(inputs):])
        out = fn(*arguments)
        return [out] if isinstance(out, torch.Tensor) else list(out)

    batch = [*inputs, *seeds]
    exact = [_array(t) for t in whole(*(t.double() if t.is_floating_point() else t
                                        for t in batch))]
    single = [_array(t) for t in whole(*batch)]
    captured = capture_function(whole, batch)
    for name in devices:
        executor = open_executor(name)
        resident = executor.load(compile_graph(captured.graph, executor.spec), captured.states)
        got = resident.submit([t.detach().numpy() for t in batch]).result()
        resident.close()
        assert len(got) == len(exact)
        for i, (g, e, s) in enumerate(zip(got, exact, single, strict=True)):
            _assert_close(g, e, s, f"{name}, output {i} of {len(exact)}")


def _array(t: torch.Tensor) -> Any:
    return t.detach().numpy()


def _assert_close(got: Any, exact: Any, single: Any, what: str) -> None:
    assert got.shape == exact.shape, f"{what}: {got.shape}, expected {exact.shape}"
    if exact.dtype.kind != "f":
        np.testing.assert_array_equal(got, exact, err_msg=what)
        return
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(got), finite, err_msg=f"{what}: not finite")
    # Numbers of order 1 go in; a result far below that is what cancellation left over.
    scale = max(float(np.linalg.norm(exact[finite])), 0.1 * np.sqrt(exact.size))
    ours = float(np.linalg.norm(got[finite] - exact[finite])) / scale
    theirs = float(np.linalg.norm(single[finite] - exact[finite])) / scale
    assert ours <= 4 * theirs + 1e-6, f"{what}: error {ours:.3g}, float32 torch {theirs:.3g}"
