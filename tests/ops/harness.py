"""Any torch function, forward and gradient, against float64 torch on `ref` and on a device.

The yardstick is float32 torch itself: our error, norm-wise, may be four times its error plus 1e-6
(another order of summation is no fault, a wrong formula is)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    outs = _listed(fn(*leaves))
    floats = [o for o in outs if o.is_floating_point() and o.requires_grad]
    wanted = [x for x in leaves if x.is_floating_point()]
    if not floats or not wanted:
        return outs
    grads = torch.autograd.grad(floats, wanted, list(seeds[:len(floats)]), allow_unused=True)
    return [o.detach() for o in outs] + [g for g in grads if g is not None]


def seeds_for(fn: Fn, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    outs = _listed(fn(*inputs))
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(o.shape, generator=generator) for o in outs if o.is_floating_point()]


def assert_like_torch(fn: Fn, *inputs: torch.Tensor, devices: Sequence[str] = ("ref",),
                      gradients: bool = True) -> None:
    """`fn(*inputs)` and, unless told otherwise, its gradients: right on all `devices`.

    `devices` are names for `open_executor`: "ref", or an OpenCL device's label."""
    assert_all_like_torch({"": (fn, inputs)}, devices=devices, gradients=gradients)


def assert_all_like_torch(cases: Mapping[str, tuple[Fn, Sequence[torch.Tensor]]], *,
                          devices: Sequence[str], gradients: bool = True) -> None:
    """Each of the functions with its inputs, as by `assert_like_torch`; all in one program, since
    most of the time is a compiler's, and most of that is its start."""
    seeds = {name: seeds_for(fn, inputs) if gradients else [] for name, (fn, inputs)
             in cases.items()}
    names: list[str] = []

    def whole(*arguments: torch.Tensor) -> list[torch.Tensor]:
        outs, at = [], 0
        names.clear()
        for name, (fn, inputs) in cases.items():
            given = arguments[at:at + len(inputs)]
            at += len(inputs) + len(seeds[name])
            found = (with_gradients(fn, given, arguments[at - len(seeds[name]):at]) if gradients
                     else _listed(fn(*given)))
            outs += found
            names.extend(f"{name} output {i} of {len(found)}" for i in range(len(found)))
        return outs

    batch = [t for name, (_, inputs) in cases.items() for t in (*inputs, *seeds[name])]
    exact = [_array(t) for t in whole(*(t.double() if t.is_floating_point() else t
                                        for t in batch))]
    single = [_array(t) for t in whole(*batch)]
    captured = capture_function(whole, batch)
    for device in devices:
        executor = open_executor(device)
        resident = executor.load(compile_graph(captured.graph, executor.spec), captured.states)
        got = resident.submit([t.detach().numpy() for t in batch]).result()
        resident.close()
        assert len(got) == len(exact)
        for name, g, e, s in zip(names, got, exact, single, strict=True):
            _assert_close(g, e, s, f"{device}: {name}")


def _listed(out: Any) -> list[torch.Tensor]:
    return [out] if isinstance(out, torch.Tensor) else list(out)


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
