"""Indexing, gathering, scattering, embeddings: forward and gradient, indices that repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from harness import assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.capture.step import capture_function
from handtorch.errors import UnsupportedOp
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor

pytestmark = pytest.mark.spread

ROWS = torch.tensor([3, 0, 3, 1, 3])
GRID = torch.tensor([[2, 0, 1], [2, 2, 0]])


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def written(x: torch.Tensor, at: Any, new: Any) -> torch.Tensor:
    y = x.clone()
    y[at] = new
    return y


# x is [4, 6, 5], r and g are indices of 4 and 3 rows.
Fn = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]
FUNCTIONS: dict[str, Fn] = {
    "rows": lambda x, r, g: (x[r], x[g], x[:, r], x[..., r], x[r - 4]),
    "select": lambda x, r, g: (x.index_select(1, r), x.index_select(-1, r)),
    "several": lambda x, r, g: (x[r, r], x[g, r[:3]], x[:, g, g], x[g[:, :1], :, g]),
    "apart": lambda x, r, g: (x[r, :, r], x[:, r, None, r - 4]),
    "write": lambda x, r, g: (written(x, r[1:4], x[:3] * 2),
                              written(x, (slice(None), r), x.new_full((), 1.5)),
                              written(x, (r, slice(None), r), x[:1, :, 0])),
    "add": lambda x, r, g: (x.index_add(0, r, x[r] * 2), x.index_add(2, r, x * x),
                            x.index_put((g, g), x[0, 0], accumulate=True)),
    "mask": lambda x, r, g: (written(x, x > 0.5, x.new_full((), 7.0)),
                             written(x, x[:, :, 0] > 0, x.new_full((), -1.0)),
                             x.masked_fill(x < 0, 0.25)),
    "gather": lambda x, r, g: (x.gather(1, r.view(1, 5, 1).expand(3, 5, 2)),
                               x.gather(0, r.view(1, 1, 5).expand(2, 6, 5)),
                               x[:, :, 0].gather(1, r[:4, None]),
                               x.gather(-1, g[None].expand(4, 2, 3))),
    "scatter": lambda x, r, g: (
        x.scatter(1, r[1:4].view(1, 3, 1).expand(4, 3, 5), x[:, :3] * 2),
        x.scatter(1, r.view(1, 5, 1).expand(3, 5, 2), 0.75),
        x.scatter_add(1, r.view(1, 5, 1).expand(4, 5, 5), x[:, :5] * x[:, 1:]),
        torch.zeros_like(x).scatter_add(2, r.expand(4, 6, 5), x)),
    "one hot": lambda x, r, g: F.one_hot(r, 7).float() * x[0, :5, :1],
}
UNIQUE = torch.tensor([3, 0, 2, 1, 2])      # what is written twice in one place is undefined


def together(functions: Sequence[Fn]) -> Callable[..., list[torch.Tensor]]:
    def fn(*x: torch.Tensor) -> list[torch.Tensor]:
        made = [f(*x) for f in functions]
        return [t for m in made for t in ([m] if isinstance(m, torch.Tensor) else m)]
    return fn


@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_ref(name: str) -> None:
    assert_like_torch(together([FUNCTIONS[name]]), numbers(4, 6, 5), UNIQUE, GRID)


def test_on_a_device(opencl_device: Any) -> None:
    assert_like_torch(together([*FUNCTIONS.values()]), numbers(4, 6, 5), UNIQUE, GRID,
                      devices=[opencl_device.label])


@pytest.mark.parametrize("kind", [torch.int64, torch.bool])
def test_other_types(kind: torch.dtype, opencl_device: Any) -> None:
    x = numbers(4, 6, 5) > 0 if kind == torch.bool else (numbers(4, 6, 5) * 10).long()
    names = ["rows", "several", "gather"] + (["add"] if kind != torch.bool else [])
    assert_like_torch(together([FUNCTIONS[n] for n in names]), x, ROWS, GRID, gradients=False,
                      devices=["ref", opencl_device.label])


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, int, int | None]:
    rows = draw(st.integers(1, 70))
    return (rows, draw(st.integers(1, 40)), draw(st.integers(1, 90)),
            draw(st.one_of(st.none(), st.integers(0, rows - 1))))


def embed(table: torch.Tensor, index: torch.Tensor, padding: int | None) -> torch.Tensor:
    return F.embedding(index, table, padding_idx=padding)


@settings(max_examples=8, deadline=None)
@given(tables())
def test_embedding_on_ref(sizes: Any) -> None:
    rows, width, tokens, padding = sizes
    index = torch.randint(0, rows, (tokens,), generator=torch.Generator().manual_seed(tokens))
    assert_like_torch(lambda t, i: embed(t, i, padding), numbers(rows, width), index)


@settings(max_examples=4, deadline=None)
@given(sizes=tables())
def test_embedding_on_a_device(opencl_device: Any, sizes: Any) -> None:
    rows, width, tokens, padding = sizes
    index = torch.randint(0, rows, (tokens, 2), generator=torch.Generator().manual_seed(tokens))
    assert_like_torch(lambda t, i: embed(t, i, padding), numbers(rows, width), index,
                      devices=[opencl_device.label])


OUTSIDE: dict[str, Callable[..., torch.Tensor]] = {
    "index": lambda x, i: x[i],
    "two indices": lambda x, i: x[i, i],
    "embedding": lambda x, i: F.embedding(i, x),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "index_add": lambda x, i: x.index_add(0, i, x[:3]),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:3]),
}


@pytest.mark.parametrize("bad", [7, -8, 2**31 - 1])
def test_an_index_outside_cannot_pass_unnoticed(bad: int, opencl_device: Any) -> None:
    """All at once; every result has NaN, and what has nothing to do with it has none."""
    x, index = numbers(7, 5), torch.tensor([1, bad, 2])
    captured = capture_function(lambda *a: [f(*a) for f in OUTSIDE.values()], [x, ROWS[:3]])
    for name in ("ref", opencl_device.label):
        executor = open_executor(name)
        resident = executor.load(compile_graph(captured.graph, executor.spec), {})
        results = resident.submit([x.numpy(), index.numpy()]).result()
        for what, got in zip(OUTSIDE, results, strict=True):
            assert np.isnan(got).any() and not np.isnan(got).all(), f"{what} on {name}"
        resident.close()


def test_what_depends_on_data_is_refused() -> None:
    x = numbers(4, 5)
    with pytest.raises(UnsupportedOp, match="scale_grad_by_freq"):
        assert_like_torch(lambda t, i: F.embedding(i, t, scale_grad_by_freq=True), x, ROWS)
    with pytest.raises(UnsupportedOp, match="scatter_reduce"):
        assert_like_torch(lambda t, i: t.scatter_reduce(0, i[:, None], t[:4], "amax"), x, ROWS[1:],
                          gradients=False)


def test_sums_are_the_same_every_time(opencl_device: Any) -> None:
    """40 rows into 3, ten runs: not a bit differs."""
    x = numbers(40, 33)
    index = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(1))
    captured = capture_function(lambda t, i: torch.zeros(3, 33).index_add(0, i, t), [x, index])
    executor = open_executor(opencl_device.label)
    resident = executor.load(compile_graph(captured.graph, executor.spec), {})
    runs = [resident.submit([x.numpy(), index.numpy()]).result()[0].copy() for _ in range(10)]
    assert all((r == runs[0]).all() for r in runs)
    resident.close()
