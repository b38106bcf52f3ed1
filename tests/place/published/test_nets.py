"""Counts against those that others printed; multiply-adds in millions, parameters in millions."""

from __future__ import annotations

import pytest

from handtorch.place.published.layers import parameters
from handtorch.place.published.nets import NETS, layers_of
from handtorch.place.published.row import paper_rows
from handtorch.place.published.tables import NCNN, NN_METER

# torchvision's tables of its weights, at the sizes given there; norms have two numbers a channel
# there, so that parameters agree within 1 %. MobileNet, ShuffleNet: the papers.
PRINTED = {
    "alexnet-one-column": (714.2, 61.10), "vgg11": (7609, 132.86), "vgg16": (15470, 138.36),
    "vgg19": (19632, 143.67), "resnet18": (1814, 11.69), "resnet34": (3664, 21.80),
    "resnet50": (4089, 25.56), "resnet101": (7801, 44.55), "resnet152": (11514, 60.19),
    "squeezenet1.0": (819, 1.248), "mobilenetv2": (300.8, 3.505), "mnasnet-b1": (314.4, 4.383),
    "mobilenetv3-large": (216.6, 5.483), "mobilenetv3-small": (56.5, 2.543),
    "shufflenetv2": (144.9, 2.279), "efficientnet-b0": (385.8, 5.289),
    "regnety-400m": (402, 4.344), "inceptionv3": (5713, 23.83), "mobilenet1.0-224": (569, 4.24),
    "mobilenet0.5-160": (76, 1.34), "mobilenet0.25-128": (14, 0.47), "shufflenet-g3": (137, 1.87),
}


@pytest.mark.parametrize("name", PRINTED)
def test_as_printed(name: str) -> None:
    layers, (multiply_adds, millions) = list(layers_of(name)), PRINTED[name]
    counted = sum(layer.flops for layer in layers if layer.weights) / 2e6
    assert counted == pytest.approx(multiply_adds, rel=0.01, abs=0.5)
    assert parameters(layers) / 1e6 == pytest.approx(millions, rel=0.012)


@pytest.mark.parametrize("name", sorted(NETS))
def test_every_network_ends_in_its_classes(name: str) -> None:
    classes = 18 if name == "dqn" else 10 if name.endswith("-32") or name == "densenet40" else 1000
    assert layers_of(name)[-1].outputs == classes


def test_rows_name_networks_that_are_here() -> None:
    named = {n for r in paper_rows() if r.network for n in r.network.split(" + ")}
    assert named | set(NCNN.values()) | set(NN_METER.values()) <= NETS


def test_two_networks_one_after_the_other() -> None:
    assert layers_of("nin + dqn") == layers_of("nin") + layers_of("dqn")
