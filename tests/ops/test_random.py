"""Random numbers: the same bits everywhere, the right statistics, one mask in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import handtorch as ht
from handtorch.capture.step import capture_function
from handtorch.errors import BadInput, UnsupportedOp
from handtorch.graph.ops.random import seed_words
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor
from handtorch.runtime.ref.random import philox, uniform

pytestmark = pytest.mark.spread

X, Y = torch.randn(16, 12, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 5


def run(fn: Callable[..., Any], *inputs: torch.Tensor, device: str = "ref", seed: int = 0,
        steps: int = 1) -> list[Any]:
    """The outputs of the last of `steps` steps."""
    captured, executor = capture_function(fn, inputs), open_executor(device)
    states = {**captured.states, "rng": np.array(seed_words(seed), "u4")}
    resident = executor.load(compile_graph(captured.graph, executor.spec), states)
    outs = [resident.submit([x.numpy() for x in inputs]).result() for _ in range(steps)]
    resident.close()
    return list(outs[-1])


@pytest.mark.parametrize(("counter", "key", "known"), [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
])
def test_philox_gives_the_published_bits(counter: list[int], key: list[int], known: list[int]
                                         ) -> None:
    """The vectors that Random123, the authors' own library, tests itself with."""
    got = philox(np.array(counter, "u4"), np.array(key, "u4"))
    assert [hex(x) for x in got] == [hex(x) for x in known]


def some_of_each() -> tuple[torch.Tensor, ...]:
    return (torch.rand(3, 37), torch.rand(1), torch.randint(-7, 100, (50, 3)), torch.randn(5, 41),
            torch.rand(40_000))


def test_a_device_gives_the_same_bits_as_the_reference(opencl_device: Any) -> None:
    want, got = (run(some_of_each, device=d, seed=2**40 + 3, steps=2)
                 for d in ("ref", opencl_device.label))
    for i in (0, 1, 2, 4):
        np.testing.assert_array_equal(got[i], want[i])
    np.testing.assert_allclose(got[3], want[3], rtol=0, atol=4e-6)      # log and cos may differ


def test_numbers_differ_from_node_to_node_step_to_step_and_seed_to_seed() -> None:
    def two() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(64), torch.rand(64)
    first, second = run(two)
    later, other = run(two, steps=2)[0], run(two, seed=1)[0]
    for a, b in ((first, second), (first, later), (first, other), (first, run(two, seed=2**32)[0])):
        assert (a == b).sum() == 0
    np.testing.assert_array_equal(first, run(two)[0])
    np.testing.assert_array_equal(second, uniform(np.zeros(3, "u4"), 1, (64,)))


N = 200_000                      # three in a million fall beyond 4.7 deviations of a mean


@pytest.mark.parametrize(("fn", "mean", "variance"), [
    (lambda: torch.rand(N), 0.5, 1 / 12),
    (lambda: torch.randn(N), 0, 1),
    (lambda: torch.empty(N).uniform_(2, 4), 3, 4 / 12),
    (lambda: torch.empty(N).normal_(1, 3), 1, 9),
    (lambda: torch.normal(1.0, 2.0, (N,)), 1, 4),
    (lambda: torch.empty(N).exponential_(2), 0.5, 0.25),
    (lambda: torch.empty(N).bernoulli_(0.3), 0.3, 0.21),
    (lambda: torch.bernoulli(torch.full((N,), 0.9)), 0.9, 0.09),
    (lambda: F.dropout(torch.ones(N), 0.4), 1, 0.4 / 0.6),
    (lambda: F.dropout1d(torch.ones(N // 4, 4, 1), 0.4), 1, 0.4 / 0.6),
    (lambda: torch.randint(10, (N,)).float(), 4.5, 99 / 12),
    (lambda: torch.randint_like(torch.ones(N), 2, 5), 3, 8 / 12),
], ids=["rand", "randn", "uniform_", "normal_", "normal", "exponential_", "bernoulli_",
        "bernoulli", "dropout", "dropout1d", "randint", "randint_like"])
def test_mean_and_variance(fn: Callable[[], torch.Tensor], mean: float, variance: float) -> None:
    (x,) = run(fn, seed=5)
    x = x.astype("f8").reshape(-1)
    deviation = np.sqrt(variance / N)
    assert abs(x.mean() - mean) < 5 * deviation
    kurtosis = ((x - mean) ** 4).mean() / variance**2
    assert abs(x.var() - variance) < 5 * variance * np.sqrt(max(kurtosis - 1, 1e-3) / N)
    lag = ((x[1:] - mean) * (x[:-1] - mean)).mean() / variance
    assert abs(lag) < 5 / np.sqrt(N)


def test_normal_numbers_are_normal() -> None:
    """Shares of numbers below some limits, and that both of a pair are independent."""
    (x,) = run(lambda: torch.randn(N), seed=9)
    for limit, share in ((-2, 0.02275), (-1, 0.15866), (0, 0.5), (1.5, 0.93319), (3, 0.99865)):
        assert abs((x < limit).mean() - share) < 5 * np.sqrt(share * (1 - share) / N)
    assert np.isfinite(x).all()
    assert abs(np.corrcoef(x[::2] ** 2, x[1::2] ** 2)[0, 1]) < 5 / np.sqrt(N / 2)


def test_dropout_of_whole_channels() -> None:
    (y,) = run(lambda x: F.dropout2d(x, 0.5), torch.ones(40, 50, 3, 3))
    assert set(np.unique(y)) == {0.0, 2.0}
    assert (y == y[..., :1, :1]).all()
    assert 0.4 < (y > 0).mean() < 0.6


class Masked(nn.Module):
    """Dropout with a mask given from outside."""

    mask: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.mask


def net(p: float | None) -> nn.Sequential:
    torch.manual_seed(0)
    drop: Callable[[], nn.Module] = Masked if p is None else lambda: nn.Dropout(p)
    return nn.Sequential(nn.Linear(12, 11), nn.ReLU(), drop(), nn.Linear(11, 9), drop(),
                         nn.Linear(9, 5))


def test_dropout_trains_as_torch_does_with_the_same_masks(opencl_device: Any) -> None:
    """The masks are computed by the reference and put into torch's own step: this shows too that
    forward and backward see the same one."""
    seed, p, loss_fn = 2**33 + 7, 0.3, nn.CrossEntropyLoss()
    theirs = net(None)
    optimizer = torch.optim.SGD(theirs.parameters(), 0.3)
    want = []
    for number in range(5):
        state = np.array([seed & 0xFFFFFFFF, seed >> 32, number], "u4")
        for stream, (layer, width) in enumerate(((2, 11), (4, 9))):
            kept = uniform(state, stream, (16, width)) < 1 - p
            theirs[layer].mask = torch.from_numpy(kept.astype("f4")) / (1 - p)
        optimizer.zero_grad()
        loss = loss_fn(theirs(X), Y)
        loss.backward()
        optimizer.step()
        want.append(loss.item())
    for device in ("ref", opencl_device.label):
        ours = net(p)
        step = ht.train_step(ours, loss_fn, torch.optim.SGD(ours.parameters(), 0.3),
                             example=(X, Y), device=device, seed=seed)
        np.testing.assert_allclose([float(step(X, Y)) for _ in range(5)], want, rtol=1e-5)
        step.sync_to(ours)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_the_seed_decides_everything(opencl_device: Any) -> None:
    def losses(step: Any) -> list[float]:
        return [float(step(X, Y)) for _ in range(4)]

    def made(seed: int) -> Any:
        model = net(0.5)
        return ht.train_step(model, nn.CrossEntropyLoss(),
                             torch.optim.SGD(model.parameters(), 0.0), example=(X, Y),
                             device=opencl_device.label, seed=seed)
    step = made(3)
    first = losses(step)
    assert first == losses(made(3)) != losses(made(4))
    assert losses(step) != first
    step.reseed(3)                                # the learning rate is 0: only masks change
    assert losses(step) == first
    assert step.program.bytes_crossing() == X.nbytes + Y.nbytes // 2 + 4


def test_without_random_numbers_there_is_no_state_for_them() -> None:
    model = nn.Sequential(nn.Linear(12, 5), nn.Dropout(0.5))
    infer = ht.inference(model, example=(X,), device="null")
    assert not any(s.role == "rng" for s in infer.program.graph.states)
    model = net(0.0)
    step = ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(X, Y), device="ref")
    assert not any(s.role == "rng" for s in step.program.graph.states)
    step.reseed(1)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    model = net(0.5)
    with pytest.raises(BadInput) as e:
        ht.train_step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1),
                      example=(X, Y), device="null", seed=seed)
    assert str(e.value).splitlines()[0] == (
        f"seed {seed!r}: a seed is a whole number from 0 to 2^64 - 1")


OWN = torch.Generator()


@pytest.mark.parametrize(("fn", "said"), [
    (lambda: torch.rand(3, generator=OWN), "random numbers from a generator: "),
    (lambda: torch.empty(3).bernoulli_(0.5, generator=OWN), "random numbers from a generator: "),
    (lambda: torch.randint(5, (3,), generator=OWN), "random numbers from a generator: "),
    (lambda: torch.rand(3, dtype=torch.float64), "a tensor of float64: "),
    (lambda: torch.randint(2**40, (3,)), "randint from 0 to 1099511627776: "),
    (lambda: torch.randperm(4), "aten.randperm: "),
])
def test_what_the_device_has_not_is_refused(fn: Callable[[], Any], said: str) -> None:
    with pytest.raises(UnsupportedOp) as e:
        run(fn)
    assert str(e.value).startswith(said)
    assert "from test_random.py:" in str(e.value)
