"""Pictures are turned once where they come in; whatever reads them gets what torch would give."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from handtorch.capture.step import capture_function
from handtorch.graph.check import check
from handtorch.graph.node import Graph
from handtorch.graph.ops.conv import TAPS_FIRST
from handtorch.passes.layout import channels_last
from handtorch.passes.rewrite import without_dead
from handtorch.passes.views import fold_views
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor

W1, W2 = torch.randn(6, 3, 3, 3) / 3, torch.randn(5, 6, 3, 3) / 3
X = torch.randn(2, 3, 7, 9)
Net = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def turned(graph: Graph) -> Graph:
    return fold_views(channels_last(without_dead(graph)))


def transposes(net: Net) -> int:
    graph = turned(capture_function(net, (X, W1, W2)).graph)
    check(graph, "views")
    weights = (TAPS_FIRST, (3, 2, 0, 1))
    return sum(n.op == "transpose" and n.numbers("order") not in weights for n in graph.nodes)


def first(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, w, padding=1)


def chain(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = F.max_pool2d(F.relu(first(x, w)), 2)
    y = torch.cat([y, y * 2], 1)[:, 3:9]
    return F.avg_pool2d(first(y, v), 2).mean((2, 3))


def along_rows(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return first(x, w).sum(2)


def kept_axes(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = first(x, w)
    return first(y - y.amax((1,), keepdim=True), v).sum((0, 2, 3))


def flattened(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return first(x, w).flatten(1) @ torch.ones(6 * 7 * 9, 2)


def stretched(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """What has fewer axes meets a picture from the right."""
    y = first(x, w) + torch.arange(9.0) + torch.arange(63.0).view(7, 9) + 1
    return first(y * torch.arange(6.0).view(6, 1, 1), v)


def grouped(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Groups of channels do not lie together with channels last."""
    return first(F.group_norm(first(x, w), 2), v)


def boxes(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return first(F.pad(first(x, w)[:, :, 1:, ::2], (1, 2, 0, 1), value=0.5), v)


def gradient(y: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    """That of a mean is one number, stretched."""
    return torch.autograd.grad(y.mean(), of)[0]


def gradient_of_a_join(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    w = w.detach().requires_grad_()
    return gradient(torch.cat([first(x, w), first(x, w * 2).relu()], 1), w)


def gradient_of_a_part(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    w = w.detach().requires_grad_()
    return gradient(first(x, w)[:, :, 1:] * 3, w)


NETS = {"gradient of a join": (gradient_of_a_join, 1),
        "gradient of a part": (gradient_of_a_part, 1),
        "chain": (chain, 1), "along rows": (along_rows, 2), "kept axes": (kept_axes, 1),
        "flattened": (flattened, 2), "stretched": (stretched, 2), "grouped": (grouped, 4),
        "boxes": (boxes, 2)}


@pytest.mark.parametrize("name", NETS)
def test_results_are_torchs(name: str) -> None:
    net, _ = NETS[name]
    captured, executor = capture_function(net, (X, W1, W2)), open_executor("ref")
    resident = executor.load(compile_graph(captured.graph, executor.spec), captured.states)
    (got,) = resident.submit([t.numpy() for t in (X, W1, W2)]).result()
    torch.testing.assert_close(torch.from_numpy(got), net(X, W1, W2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETS)
def test_pictures_are_turned_no_more_than_they_must(name: str) -> None:
    net, most = NETS[name]
    assert transposes(net) <= most


def test_a_graph_without_pictures_stays() -> None:
    graph = capture_function(lambda x: x.relu().sum((2, 3)), (X,)).graph
    assert channels_last(graph) is graph
