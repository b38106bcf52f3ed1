from __future__ import annotations

import pytest

from handtorch.place.published.layers import Net, kept_bytes, parameters, training


def test_a_convolution_by_hand() -> None:
    (layer,) = Net(8).conv(16, 3, 2).layers
    assert (layer.positions, layer.channels, layer.depth) == (16, 16, 27)
    assert layer.flops == 2 * 16 * 16 * 27 and layer.weights == 16 * 27
    assert layer.moved_bytes == 4 * (3 * 64 + 16 * 27 + 256)


@pytest.mark.parametrize("kernel, stride, groups, kind", [
    (1, 1, 1, "conv1x1"), (1, 2, 1, "conv1x1"), (3, 1, 1, "conv3x3"), (3, 2, 1, "conv"),
    (5, 1, 1, "conv"), (3, 1, 2, "grouped"), (3, 1, 4, "depthwise")])
def test_kinds(kernel: int, stride: int, groups: int, kind: str) -> None:
    assert Net(8, 4).conv(4, kernel, stride, groups=groups).layers[0].kind == kind


@pytest.mark.parametrize("up, side", [(True, 4), (False, 3)])
def test_pooling_may_hang_over_the_edge(up: bool, side: int) -> None:
    assert Net(8).pool(3, 2, up=up).side == side


def test_a_gate_leaves_the_shape() -> None:
    net = Net(8, 16).gate(4)
    assert (net.side, net.channels) == (8, 16) and len(net.layers) == 4
    assert parameters(net.layers) == 16 * 4 + 4 + 4 * 16 + 16


def test_nothing_left_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves nothing"):
        Net(2).conv(4, 3, 1, 0)


def test_a_training_step_counts_backward_twice_and_each_update() -> None:
    layers = Net(8, normed=False).conv(4, 3).layers
    step = list(training(layers, 2))
    heavy = [o for o in step if o.kind == "conv3x3"]
    assert len(heavy) == 3 and all(o.flops == 2 * layers[0].flops for o in heavy)
    assert len(step) == 3 + 2 + 2            # an activation there and back; weights and bias
    assert len(list(training(Net(8).conv(4, 3).layers, 2))) == 3 + 4 + 3


def test_what_is_kept_grows_with_the_batch_and_with_norms() -> None:
    plain, normed = Net(8, normed=False).conv(4, 3).layers, Net(8).conv(4, 3).layers
    assert kept_bytes(plain, 3) == 4 * 3 * 256 and kept_bytes(normed, 3) == 2 * 4 * 3 * 256
