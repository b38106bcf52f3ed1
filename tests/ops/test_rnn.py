"""nn.LSTM, nn.GRU, nn.RNN and their cells, forward and gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from harness import assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from handtorch.capture.step import capture_inference, capture_train_step
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.opset import flops
from handtorch.pipeline import compile_graph
from handtorch.runtime.host import RefExecutor

pytestmark = pytest.mark.spread

KINDS = ("LSTM", "GRU", "RNN")


def check(kind: str, *, inputs: int = 3, hidden: int = 5, layers: int = 1, batch: int = 2,
          time: int = 3, states: bool = False, devices: tuple[str, ...] = ("ref",),
          results: str = "yhc", **options: Any) -> None:
    """A layer with these options like torch's: outputs, and gradients of all that goes in.

    `results` says which of y, hn, cn are used."""
    torch.manual_seed(hidden)
    module = getattr(torch.nn, kind)(inputs, hidden, layers, **options)
    names = [name for name, _ in module.named_parameters()]
    first, second = (batch, time) if options.get("batch_first") else (time, batch)
    slots = layers * (2 if options.get("bidirectional") else 1)
    start = [torch.randn(slots, batch, hidden) for _ in range(1 + (kind == "LSTM"))]
    start = start if states else []

    def fn(x: torch.Tensor, *rest: torch.Tensor) -> list[torch.Tensor]:
        hx = rest[:len(start)]
        weights = dict(zip(names, rest[len(start):], strict=True))
        given = (tuple(hx) if kind == "LSTM" else hx[0]) if hx else None
        y, last = functional_call(module, weights, (x, given))
        found = dict(zip("yhc", (y, *(last if kind == "LSTM" else [last])), strict=False))
        return [found[r] for r in results if r in found]

    assert_like_torch(fn, torch.randn(first, second, inputs), *start,
                      *(p.detach() for p in module.parameters()), devices=devices)


@st.composite
def layers(draw: st.DrawFn) -> dict[str, Any]:
    """Options of any layer; hidden sizes on both sides of each vector width."""
    kind = draw(st.sampled_from(KINDS))
    options: dict[str, Any] = {"nonlinearity": "relu"} if kind == "RNN" and draw(
        st.booleans()) else {}
    return {"kind": kind, "inputs": draw(st.integers(1, 9)),
            "hidden": draw(st.sampled_from([1, 2, 3, 7, 16, 17, 33])),
            "layers": draw(st.integers(1, 2)), "batch": draw(st.integers(1, 6)),
            "time": draw(st.integers(1, 5)), "states": draw(st.booleans()),
            "results": draw(st.sampled_from(["yhc", "y", "hc"])), "bias": draw(st.booleans()),
            "batch_first": draw(st.booleans()), "bidirectional": draw(st.booleans()), **options}


@settings(max_examples=10, deadline=None)
@given(layers())
def test_any_layer_on_ref(options: dict[str, Any]) -> None:
    check(**options)


@settings(max_examples=2, deadline=None)
@given(options=layers())
def test_any_layer_on_a_device(opencl_device: Any, options: dict[str, Any]) -> None:
    check(**options, devices=(opencl_device.label,))


@pytest.mark.parametrize("options", [
    {"kind": "LSTM", "hidden": 33, "batch": 7, "time": 6},
    {"kind": "GRU", "hidden": 17, "batch": 5, "time": 6, "batch_first": True, "states": True},
    {"kind": "RNN", "hidden": 1, "batch": 1, "time": 1, "bias": False},
    {"kind": "LSTM", "hidden": 319, "batch": 1, "time": 2, "states": True},   # a launch a step
    {"kind": "LSTM", "inputs": 200, "hidden": 33, "batch": 2, "layers": 2},   # a product, then none
], ids=lambda options: f"{options['kind']} {options['hidden']}")
def test_edges_on_a_device(opencl_device: Any, options: dict[str, Any]) -> None:
    check(**options, devices=(opencl_device.label,))


def test_a_sequence_of_one_step_and_one_unit() -> None:
    check("LSTM", inputs=1, hidden=1, batch=1, time=1, states=True)


def test_a_sequence_without_a_batch() -> None:
    gru = torch.nn.GRU(3, 4, bidirectional=True)
    names = [name for name, _ in gru.named_parameters()]
    assert_like_torch(lambda x, *w: functional_call(gru, dict(zip(names, w, strict=True)), (x,)),
                      torch.randn(5, 3), *(p.detach() for p in gru.parameters()))


def test_the_state_of_zeros_that_wants_a_gradient_gets_one() -> None:
    gru = torch.nn.GRU(3, 4)

    def captured(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(1, 2, 4, dtype=x.dtype).requires_grad_()
        named = dict(zip([n for n, _ in gru.named_parameters()], weights, strict=True))
        y, _ = functional_call(gru, named, (x, h))
        return torch.autograd.grad((y * y).sum(), [h])[0]

    assert_like_torch(captured, torch.randn(3, 2, 3), *(p.detach() for p in gru.parameters()),
                      gradients=False)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(kind: str) -> None:
    """One step at a time, by the user's own loop; from no state, then from the last."""
    cell = getattr(torch.nn, kind)(3, 5)
    names = [name for name, _ in cell.named_parameters()]

    def fn(x: torch.Tensor, *weights: torch.Tensor) -> Any:
        named = dict(zip(names, weights, strict=True))
        state = functional_call(cell, named, (x,))
        return functional_call(cell, named, (x * 0.5, state))

    assert_like_torch(fn, torch.randn(2, 3), *(p.detach() for p in cell.parameters()))


class Tagger(torch.nn.Module):
    def __init__(self, kind: str = "LSTM", **options: Any) -> None:
        super().__init__()
        self.rnn = getattr(torch.nn, kind)(3, 6, 2, batch_first=True, **options)
        self.head = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)
        out: torch.Tensor = self.head(y[:, -1])
        return out


@pytest.mark.parametrize("kind", KINDS)
def test_training_steps_equal_torch(kind: str) -> None:
    torch.manual_seed(0)
    model, x, y = Tagger(kind), torch.randn(5, 7, 3), torch.tensor([0, 1, 2, 3, 1])
    loss_fn = torch.nn.functional.cross_entropy
    opt = torch.optim.SGD(model.parameters(), 0.5)
    captured = capture_train_step(model, loss_fn, opt, (x, y))
    resident = RefExecutor().load(compile_graph(captured.graph, GENERIC), captured.states)
    for _ in range(5):
        (ours, *_) = resident.submit([x.numpy(), y.numpy()]).result()
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        assert float(ours) == pytest.approx(loss.item(), rel=1e-5)
    for name, p in model.named_parameters():
        got = torch.from_numpy(resident.read_state(name))
        assert torch.allclose(got, p.detach(), atol=1e-5), name


@pytest.mark.parametrize(("kind", "products"), [("cpu", 1), ("gpu", 3)])
def test_a_layer_is_a_packing_and_one_launch(kind: str, products: int) -> None:
    """In inference nothing is saved for a gradient, and zero states are not read. On a CPU the
    product with the inputs is part of the launch; elsewhere it is one before it."""
    captured = capture_inference(Tagger(bias=False), [torch.randn(2, 7, 3)])
    program = compile_graph(captured.graph, replace(GENERIC, kind=kind, float_width=8))
    nodes = [n for n in program.graph.nodes if n.op == "lstm_layer"]
    assert [len(n.inputs) for n in nodes] == [3, 3]
    assert [len(n.outputs) for n in nodes] == [3, 3]
    assert [s.kernel for s in program.once if s.kernel.startswith("rnn")] == ["rnn_pack"] * 2
    assert [s.kernel for s in program.steps if s.kernel.startswith("rnn")] == ["rnn_forward"] * 2
    assert sum(s.kernel.startswith("gemm") for s in program.steps) == products
    loops = [s for s in program.steps if s.kernel == "rnn_forward"]
    assert sum(s.flops for s in program.steps if s.node == loops[0].node) == flops(nodes[0])


def test_dropout_stands_between_the_layers_while_training() -> None:
    model, batch = Tagger(dropout=0.5), (torch.randn(5, 7, 3), torch.tensor([0, 1, 2, 3, 1]))
    opt = torch.optim.SGD(model.parameters(), 0.5)
    for training, drawn in ((True, 1), (False, 0)):
        model.train(training)
        captured = capture_train_step(model, torch.nn.functional.cross_entropy, opt, batch)
        assert sum(n.op == "rand" for n in captured.graph.nodes) == drawn


def test_frozen_layers_save_nothing_for_a_gradient() -> None:
    model, batch = Tagger(), (torch.randn(5, 7, 3), torch.tensor([0, 1, 2, 3, 1]))
    model.rnn.requires_grad_(False)
    opt = torch.optim.SGD(model.head.parameters(), 0.5)
    captured = capture_train_step(model, torch.nn.functional.cross_entropy, opt, batch)
    assert [n.flag("save") for n in captured.graph.nodes if n.op.startswith("lstm")] == [False] * 2


def test_the_model_is_left_as_it_was() -> None:
    model = Tagger()
    before = list(model.rnn._flat_weights)
    capture_inference(model, [torch.randn(2, 7, 3)])
    assert all(a is b for a, b in zip(model.rnn._flat_weights, before, strict=True))
    assert "_flat_weights" not in vars(torch.nn.RNNBase) and "lstm" not in vars(torch._VF)
    assert model(torch.randn(1, 2, 3)).shape == (1, 4)
