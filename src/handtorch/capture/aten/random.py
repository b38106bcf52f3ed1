"""Random numbers: everything is made of uniform, normal and whole numbers of the device's own.

torch's generator and its seed play no part; `train_step(..., seed=n)` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from handtorch.capture.builder import Builder, aten
from handtorch.capture.lines import user_line
from handtorch.errors import UnsupportedOp
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = ()
DECOMPOSE: dict[Any, Callable[..., Any]] = {}
_ATEN = torch.ops.aten


def _taken_apart(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a decomposition; one for in-place ops writes into its first argument."""
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, generator: Any = None, **kwargs: Any) -> Any:
            if generator is not None:
                raise _own_generator(str(user_line() or ""))
            return fn(*args, **kwargs)
        DECOMPOSE.update(dict.fromkeys(overloads, checked))
        return fn
    return register


def _own_generator(where: str) -> UnsupportedOp:
    return UnsupportedOp("random numbers from a generator", where=where,
                         why="the device has its own, counted by step",
                         fix="leave `generator` out; train_step(..., seed=n) sets the seed")


@_taken_apart(_ATEN.bernoulli_.float, _ATEN.bernoulli_.Tensor)
def _bernoulli_(x: torch.Tensor, p: Any = 0.5) -> torch.Tensor:
    return x.copy_((torch.rand_like(x, dtype=torch.float32) < p).to(x.dtype))


@_taken_apart(_ATEN.bernoulli.p)
def _bernoulli_p(x: torch.Tensor, p: float) -> torch.Tensor:
    return (torch.rand_like(x, dtype=torch.float32) < p).to(x.dtype)


@_taken_apart(_ATEN.bernoulli.default)
def _bernoulli(p: torch.Tensor) -> torch.Tensor:
    return (torch.rand_like(p) < p).to(p.dtype)


@_taken_apart(_ATEN.native_dropout.default)
def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, Any]:
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    mask = torch.rand_like(x) >= p
    return mask * x * (1 / (1 - p)), mask


@_taken_apart(_ATEN.uniform_.default)
def _uniform_(x: torch.Tensor, low: float = 0, high: float = 1) -> torch.Tensor:
    return x.copy_(torch.rand_like(x) * (high - low) + low)


@_taken_apart(_ATEN.normal_.default)
def _normal_(x: torch.Tensor, mean: float = 0, std: float = 1) -> torch.Tensor:
    return x.copy_(torch.randn_like(x) * std + mean)


@_taken_apart(_ATEN.normal.float_float)
def _normal_numbers(mean: float, std: float, size: Sequence[int], **_: Any) -> torch.Tensor:
    return torch.randn(size) * std + mean


@_taken_apart(_ATEN.normal.Tensor_float, _ATEN.normal.Tensor_Tensor)
def _normal_around(mean: torch.Tensor, std: Any = 1) -> Any:
    return torch.randn_like(mean + std * torch.zeros_like(mean)) * std + mean


@_taken_apart(_ATEN.normal.float_Tensor)
def _normal_wide(mean: float, std: torch.Tensor) -> torch.Tensor:
    return torch.randn_like(std) * std + mean


@_taken_apart(_ATEN.exponential_.default)
def _exponential_(x: torch.Tensor, rate: float = 1) -> torch.Tensor:
    above_zero = torch.rand_like(x).clamp(min=2.0**-25)      # torch's is never 0 either
    return x.copy_(torch.log1p(-above_zero) * (-1 / rate))


@_taken_apart(*(getattr(getattr(_ATEN, op), name) for op, names in {
    "rand": ("generator",), "randn": ("generator",), "randperm": ("generator",),
    "randint": ("generator", "low_generator"), "rand_like": ("generator",),
    "randn_like": ("generator",)}.items() for name in names))
def _with_generator(*_: Any, **__: Any) -> Any:
    return NotImplemented                           # without a generator: another overload


def _floats(b: Builder, op: str, shape: Sequence[int], dtype: Any) -> Value:
    if dtype not in (None, torch.float32):
        b.dtype(dtype)                              # refuses float64 and the like by name
        raise b.refuse(f"{op} of {dtype}", "random numbers are float32")
    return b.random(op, shape=tuple(shape))


@aten("rand.default", "randn.default")
def _sized(b: Builder, size: Sequence[int], *, op: str, dtype: Any = None, **_: Any) -> Value:
    return _floats(b, op, size, dtype)


@aten("rand_like.default", "randn_like.default")
def _like(b: Builder, x: Value, *, op: str, dtype: Any = None, **_: Any) -> Value:
    return _floats(b, op.removesuffix("_like"), x.shape, dtype)


def _whole(b: Builder, low: int, high: int, shape: Sequence[int], dtype: Any) -> Value:
    if not -2**31 <= low < high <= 2**31 - 1:
        raise b.refuse(f"randint from {low} to {high}", "the device's integers have 32 bits")
    made = b.random("randint", shape=tuple(shape), low=low, high=high)
    return made if dtype is None else b.cast(made, b.dtype(dtype))


@aten("randint.default")
def _randint(b: Builder, high: int, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Value:
    return _whole(b, 0, high, size, dtype)


@aten("randint.low")
def _randint_low(b: Builder, low: int, high: int, size: Sequence[int], *, dtype: Any = None,
                 **_: Any) -> Value:
    return _whole(b, low, high, size, dtype)


@aten("randint_like.default")
def _randint_like(b: Builder, x: Value, high: int, *, dtype: Any = None, **_: Any) -> Value:
    return b.cast(_whole(b, 0, high, x.shape, dtype), x.dtype if dtype is None else b.dtype(dtype))


@aten("randint_like.low_dtype")
def _randint_like_low(b: Builder, x: Value, low: int, high: int, *, dtype: Any = None, **_: Any
                      ) -> Value:
    made = _whole(b, low, high, x.shape, dtype)
    return b.cast(made, x.dtype if dtype is None else b.dtype(dtype))
