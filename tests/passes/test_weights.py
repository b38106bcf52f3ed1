"""Weights of convolutions lie with their taps first; users see them as torch has them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

import handtorch as ht
from handtorch.capture.step import capture_function, capture_user_step
from handtorch.graph.check import check
from handtorch.graph.node import Graph, Node
from handtorch.graph.ops.conv import TAPS_FIRST
from handtorch.passes.layout import channels_last
from handtorch.passes.rewrite import without_dead
from handtorch.passes.weights import taps_first

X = torch.randn(2, 4, 6, 7, generator=torch.Generator().manual_seed(0))
Step = Callable[[Tensor], Any]
Optimizers = list[torch.optim.Optimizer]


def turned(graph: Graph) -> Graph:
    graph = channels_last(without_dead(graph))
    check(graph, "layout")
    graph = taps_first(graph)
    check(graph, "weights")
    return graph


def turns(graph: Graph) -> list[Node]:
    """Transposes of weights: all but those between torch's pictures and ours."""
    pictures = ((0, 2, 3, 1), (0, 3, 1, 2))
    return [n for n in graph.nodes if n.op == "transpose" and n.numbers("order") not in pictures]


class Net(nn.Module):
    """Two convolutions; what else a case needs is put in by it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Conv2d(4, 6, 3), nn.Conv2d(6, 6, 3, padding=1, **options)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(F.relu(self.first(x)))
        return out


def plain_step(net: Any, optimizers: Optimizers, after: Callable[[], object] = lambda: None,
               penalty: Callable[[], Any] = lambda: 0.0) -> Step:
    (optimizer,) = optimizers

    def step(x: Tensor) -> Tensor:
        loss = net(x).square().mean() + penalty()
        optimizer.zero_grad()
        loss.backward()
        after()
        optimizer.step()
        return loss
    return step


def clipped(net: Any, optimizers: Optimizers) -> Step:
    return plain_step(net, optimizers, lambda: clip_grad_norm_(net.parameters(), 0.01))


def penalised(net: Any, optimizers: Optimizers) -> Step:
    """Its gradient is a stretched number times the weight."""
    return plain_step(net, optimizers, penalty=lambda: net.first.weight.square().sum())


def read_otherwise(net: Any, optimizers: Optimizers) -> Step:
    return plain_step(net, optimizers, penalty=lambda: net.first.weight.flatten(1).cumsum(1)[0, 9])


def tied(net: Any, optimizers: Optimizers) -> Step:
    return plain_step(lambda x: F.conv2d(net(x), net.second.weight), optimizers)


def masked(net: Any, optimizers: Optimizers) -> Step:
    (optimizer,) = optimizers

    def step(x: Tensor) -> Tensor:
        loss = F.conv2d(x, net.first.weight * net.mask).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    return step


def following(net: Any, optimizers: Optimizers) -> Step:
    """A slow copy, which no convolution reads, and one that is overwritten."""
    (optimizer,) = optimizers

    def step(x: Tensor) -> Tensor:
        loss: Tensor = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            net.slow.mul_(0.9).add_(net.first.weight, alpha=0.1)
            net.copied.copy_(net.second.weight)
        return loss
    return step


def gradient_out(net: Any, optimizers: Optimizers) -> Step:
    inner = plain_step(net, optimizers)
    return lambda x: (inner(x), net.first.weight.grad * 2)


def normed(net: Any, optimizers: Optimizers) -> Step:
    """The convolution's weight is computed, by channel."""
    def weighed(x: Tensor) -> Tensor:
        v = net.first.weight
        return F.conv2d(x, v / v.square().sum((1, 2, 3), keepdim=True).sqrt())
    return plain_step(weighed, optimizers)


class Line(nn.Module):
    """One dimension: torch's weights have three axes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Conv1d(4, 6, 3), nn.ConvTranspose1d(6, 4, 2, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(F.relu(self.first(x.flatten(2))))
        return out


def with_buffers() -> Net:
    net = Net()
    net.register_buffer("slow", torch.zeros_like(net.first.weight))
    net.register_buffer("copied", torch.zeros_like(net.second.weight))
    net.register_buffer("mask", (torch.rand_like(net.first.weight) < 0.5).float())
    return net


def frozen() -> Net:
    net = Net()
    net.first.requires_grad_(False)
    return net


def upwards() -> Net:
    net = Net()
    net.second = nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2, output_padding=1)
    return net


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 0.01, amsgrad=True, weight_decay=0.1)


def rmsprop(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(parameters, 0.01, eps=0.01, momentum=0.5, centered=True)


def adagrad(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(parameters, 0.1)


@dataclass(frozen=True)
class Case:
    """`held` is the number of states that lie with taps first, `turns` what is turned in a step."""

    held: int
    turns: int = 0
    net: Callable[[], nn.Module] = Net
    step: Callable[[Any, Optimizers], Step] = plain_step
    optimizer: Callable[[Any], torch.optim.Optimizer] = sgd


CASES = {
    "sgd": Case(4), "adam": Case(8, optimizer=adam), "rmsprop": Case(8, optimizer=rmsprop),
    "adagrad": Case(4, optimizer=adagrad), "clipped": Case(4, step=clipped),
    "frozen": Case(3, net=frozen), "penalised": Case(4, step=penalised),
    "read otherwise": Case(4, 2, step=read_otherwise), "tied": Case(4, step=tied),
    "masked": Case(3, net=with_buffers, step=masked),
    "following": Case(6, net=with_buffers, step=following),
    "gradient out": Case(4, 1, step=gradient_out),
    "normed": Case(2, step=normed), "transposed": Case(4, net=upwards),
    "groups": Case(4, net=lambda: Net(groups=3)), "depthwise": Case(4, net=lambda: Net(groups=6)),
    "one dimension": Case(4, net=Line),
}


def made(case: Case) -> tuple[nn.Module, Optimizers, Step]:
    net = case.net()
    optimizers = [case.optimizer([p for p in net.parameters() if p.requires_grad])]
    return net, optimizers, case.step(net, optimizers)


@pytest.mark.parametrize("name", CASES)
def test_weights_are_held_as_convolutions_read_them(name: str) -> None:
    case = CASES[name]
    net, optimizers, step = made(case)
    graph = turned(capture_user_step(step, [net], optimizers, (X,)).graph)
    assert len([s.name for s in graph.states if s.order]) == case.held
    assert len(turns(graph)) == case.turns


@pytest.mark.parametrize("name", CASES)
def test_three_steps_are_torchs(name: str) -> None:
    net, optimizers, step = made(CASES[name])
    ours, ours_by = deepcopy((net, optimizers))
    compiled = ht.train_step(step, models=[net], optimizers=optimizers, example=(X,), device="ref")
    for i in range(3):
        got = compiled(X * (i + 1))
        wanted = step(X * (i + 1))
        for a, b in zip(got, wanted, strict=True) if isinstance(got, tuple) else [(got, wanted)]:
            torch.testing.assert_close(torch.from_numpy(a.numpy()), b.detach(), rtol=1e-4,
                                       atol=1e-5)
    compiled.sync_to(ours, ours_by)
    torch.testing.assert_close(dict(ours.state_dict()), dict(net.state_dict()), rtol=1e-4,
                               atol=1e-5)
    wanted_state, got_state = optimizers[0].state_dict()["state"], ours_by[0].state_dict()["state"]
    assert wanted_state
    torch.testing.assert_close(got_state, wanted_state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("net", [Net, Line], ids=["two dimensions", "one dimension"])
def test_a_state_is_written_and_read_as_torch_has_it(net: Callable[[], nn.Module]) -> None:
    model = net()
    step = ht.train_step(model, lambda y, _: y.mean(), sgd(model.parameters()),
                         example=(X, torch.zeros(1)), device="ref")
    program, resident = step.program, step.resident
    (state,) = (s for s in program.graph.states if s.name == "first.weight")
    weight = model.first.weight.detach()
    assert state.order and state.before.shape == tuple(weight.shape[i] for i in state.order)
    torch.testing.assert_close(torch.from_numpy(resident.read_state(state.name)), weight)
    new = torch.randn_like(weight).mT.contiguous().mT        # its bytes need not lie in order
    resident.write_state(state.name, new.numpy())
    got = resident.read_state(state.name)
    assert got.flags.c_contiguous
    torch.testing.assert_close(torch.from_numpy(got), new, rtol=0, atol=0)
    assert f"order={state.order}" in program.text()


def test_inference_turns_no_weight() -> None:
    net = Net().eval()
    run = ht.inference(net, example=(X,), device="ref")
    assert not turns(run.program.graph)
    assert [s.name for s in run.program.graph.states if s.order] == ["first.weight",
                                                                     "second.weight"]
    torch.testing.assert_close(torch.from_numpy(run(X)), net(X).detach(), rtol=1e-4, atol=1e-5)


def test_a_weight_that_is_an_input_is_turned_once() -> None:
    def fn(x: Tensor, w: Tensor) -> Tensor:
        w = w.detach().requires_grad_()
        loss = F.conv2d(F.conv2d(x, w, padding=1), w).square().mean()
        return torch.autograd.grad(loss, w)[0]
    graph = turned(capture_function(fn, (X, torch.randn(4, 4, 3, 3))).graph)
    assert [n.numbers("order") for n in turns(graph)] == [TAPS_FIRST, (3, 2, 0, 1)]


def test_the_users_own_permutations_stay() -> None:
    """They could be taken for twins; then the other operand would be turned, and the sum."""
    def fn(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return (F.conv2d(x, w).permute(3, 2, 0, 1).permute(3, 2, 0, 1) + y).flatten(1).cumsum(1)
    graph = turned(capture_function(fn, (X, torch.randn(6, 2, 5, 4), torch.randn(6, 4, 3, 3))
                                    ).graph)
    assert len(turns(graph)) == 3


def test_a_graph_without_convolutions_stays() -> None:
    graph = without_dead(capture_function(lambda x: x.relu().sum((2, 3)), (X,)).graph)
    assert taps_first(graph) is graph
    nothing = capture_function(lambda x: x, (X,)).graph
    assert taps_first(nothing) is nothing
