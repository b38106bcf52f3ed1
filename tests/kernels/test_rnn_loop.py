"""How a recurrent layer is cut into items, groups and launches."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.kernels.rnn_loop import (
    BACKWARD,
    FORWARD,
    GATES,
    Choice,
    Layer,
    choose,
    feeds_itself,
    loop_steps,
    pack_steps,
    tuning_for,
)
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.executor import OpenCLExecutor

CPU = replace(GENERIC, kind="cpu", float_width=16)


@pytest.mark.parametrize(("batch", "hidden", "want"), [
    (1, 32, Choice(1, 16, 1, False)),            # nothing to do side by side
    (2, 32, Choice(1, 16, 1, False)),            # one for each core
    (32, 32, Choice(4, 16, 1, False, vectors=2)),
    (32, 64, Choice(4, 16, 1, False, vectors=4)),
    (16, 320, Choice(4, 16, 1, True, vectors=4)),
    (4, 320, Choice(4, 16, 1, True, vectors=4)),
    (32, 5, Choice(4, 4, 1, False)),             # vectors no wider than the layer
    (32, 1, Choice(4, 1, 1, False)),
    (1, 316, Choice(1, 16, 1, False)),
    (1, 317, Choice(1, 16, 1, True)),            # a step's weights keep one core long enough
    (32, 200, Choice(4, 16, 1, True)),
])
def test_choice_on_a_cpu(batch: int, hidden: int, want: Choice) -> None:
    assert choose(Layer("lstm", batch, 10, hidden), CPU) == want


def test_every_core_gets_items_of_a_gradients_step() -> None:
    layer = Layer("lstm", 4, 10, 320)
    many = [choose(layer, replace(CPU, compute_units=units)).vectors for units in (2, 4, 8)]
    assert many == [4, 2, 1]


@pytest.mark.parametrize(("batch", "inputs", "hidden", "want"), [
    (1, 0, 32, Choice(1, 16, 1, False, vectors=2)),
    (32, 9, 32, Choice(1, 16, 1, False, vectors=2)),
    (32, 0, 31, Choice(1, 16, 1, False)),        # no whole number of pairs
    (32, 32, 32, Choice(2, 8, 1, False)),        # sequences share the weights that come from afar
    (32, 0, 64, Choice(2, 8, 1, False)),
    (2, 0, 64, Choice(1, 16, 1, False, vectors=2)),
    (32, 0, 256, Choice(1, 16, 1, False, vectors=2)),       # two would make a launch of each step
    (32, 0, 320, Choice(1, 16, 1, True)),
])
def test_choice_with_avx2(batch: int, inputs: int, hidden: int, want: Choice) -> None:
    avx2 = replace(CPU, float_width=8)
    assert choose(Layer("lstm", batch, 10, hidden, inputs=inputs), avx2) == want


def test_on_a_gpu_a_group_shares_a_sequence() -> None:
    assert choose(Layer("lstm", 4, 10, 128), GENERIC).group == 32        # 32 vectors of 4
    assert choose(Layer("lstm", 4, 10, 650), GENERIC).group == 64
    wide = Layer("lstm", 2, 10, 1200)               # of whose units a group takes 256
    assert choose(wide, replace(GENERIC, compute_units=8)).rows == 1
    small = replace(GENERIC, max_work_group=16)
    assert choose(Layer("lstm", 4, 10, 650), small).group == 16


def test_the_loop_multiplies_the_inputs_where_all_weights_stay_in_the_nearest_cache() -> None:
    def feeds(inputs: int, hidden: int, spec: DeviceSpec, cell: str = "lstm", batch: int = 1
              ) -> bool:
        return feeds_itself(Layer(cell, batch, 10, hidden, inputs=inputs), spec)
    assert feeds(9, 32, CPU) and feeds(32, 32, CPU) and feeds(32, 32, CPU, batch=100)
    assert not feeds(33, 32, CPU) and feeds(33, 32, CPU, "gru")
    assert not feeds(9, 32, GENERIC)


@pytest.mark.parametrize("kind", ["cpu", "gpu", "accelerator", "other"])
def test_every_kind_of_device_has_an_entry(kind: str) -> None:
    tuning = tuning_for(replace(GENERIC, kind=kind, float_width=1))
    assert 1 in tuning.rows, "a batch of one needs it"


def rows(layer: Layer, backward: bool) -> list[list[int]]:
    r = layer.rows(backward)
    return [[r["START"] + s * r["STEP"] + b * r["B_STEP"] for b in range(layer.batch)]
            for s in range(layer.time)]


def test_rows() -> None:
    assert rows(Layer("lstm", 2, 3, 4), False) == [[0, 1], [2, 3], [4, 5]]
    assert rows(Layer("lstm", 2, 3, 4, batch_first=True), False) == [[0, 3], [1, 4], [2, 5]]
    for first in (False, True):
        ahead, back = (Layer("lstm", 2, 3, 4, first, way) for way in (False, True))
        assert rows(back, False) == rows(ahead, False)[::-1] == rows(ahead, True)
        assert rows(back, True) == rows(ahead, False)


def test_a_stepped_layer_is_a_launch_for_each_step_and_one_more_for_given_states() -> None:
    fresh = count()

    def value(shape: Shape) -> Value:
        return Value(next(fresh), tuple(shape))

    layer, choice = Layer("tanh", 2, 3, 50), Choice(1, 16, 2, True)
    u = value((50, 50))
    packed, pack = pack_steps(layer, (u,), False, choice, node=7, scratch=value)
    assert packed.shape == (4, 50, GATES["tanh"], 16) and pack.node == 7
    reads, writes = [value((3, 2, 50)), packed], [value((3, 2, 50)), value((2, 50))]
    steps = loop_steps(FORWARD, layer, choice, reads, writes,
                       {"SAVE": 0, "STATES": 0, "BIAS": 0}, node=7, flops=300)
    assert [dict(zip(FORWARD.scalars, s.scalars, strict=True))["S0"] for s in steps] == [
        ("int", 0), ("int", 1), ("int", 2)]
    assert [[o.access for o in s.operands] for s in steps] == [
        ["r", "r", "w", "w"], ["r", "r", "rw", "rw"], ["r", "r", "rw", "rw"]]
    assert {s.global_size for s in steps} == {(2, 4)} and {s.flops for s in steps} == {100}
    more = loop_steps(BACKWARD, layer, choice, reads, writes,
                      {"STATES": 1, "DY": 1, "DH": 0, "DC": 0}, node=7, flops=0)
    assert len(more) == 4


def test_activations_are_right_everywhere(opencl_device: Any) -> None:
    """One step without recurrence; what is large is 0 or 1, what is small keeps all its digits,
    what is no number stays none."""
    x = np.concatenate([np.linspace(-20, 20, 4001), np.geomspace(1e-30, 1, 500),
                        [-1e30, -200, -90, 90, 200, 1e30, -np.inf, np.inf, np.nan]])
    x = np.concatenate([x, np.zeros(-len(x) % 16)]).astype("f4")
    on, fresh = OpenCLExecutor(opencl_device), count(10)
    for cell, exact in (("tanh", np.tanh), ("lstm", lambda v: 1 / (1 + np.exp(-v)))):
        layer, gates = Layer(cell, len(x) // 16, 1, 16), GATES[cell]
        gx = np.full((len(x) // 16, gates, 16), 100.0, "f4")         # gates that are wide open
        gx[:, -1] = x.reshape(-1, 16)                                # o: h = sigmoid(x) tanh(1)
        values = [Value(i, s) for i, s in enumerate((
            (1, layer.batch, gates * 16), (gates * 16, 16), (1, layer.batch, 16),
            *[(layer.batch, 16)] * (2 if cell == "lstm" else 1)))]
        packed, pack = pack_steps(layer, values[1:2], False, Choice(1, 16, 1, False), node=0,
                                  scratch=lambda s: Value(next(fresh), tuple(s)))
        cells = (Value(9, (2, layer.batch, 16)),) if cell == "lstm" else ()
        steps = loop_steps(FORWARD, layer, Choice(1, 16, 1, False), (values[0], packed),
                           (*values[2:], *cells), {"SAVE": 0, "STATES": 0, "BIAS": 0}, node=0,
                           flops=0)
        bare = BareSteps(on, (pack, *steps), {0: gx.reshape(1, layer.batch, -1)})
        with np.errstate(over="ignore"):
            want = exact(x.astype("f8")) * (1 if cell == "tanh" else np.tanh(1.0))
        # 4 units in the last place; x is cut off at 87, where sigmoid(-x) is 1.6e-38.
        bare.enqueue()
        np.testing.assert_allclose(bare.read(values[2]).reshape(-1), want, rtol=5e-7, atol=2e-38)
        bare.close()
