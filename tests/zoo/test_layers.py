"""Models as lists of layers."""

from __future__ import annotations

import json

import pytest

from handtorch.errors import BadInput
from handtorch.zoo.layers import layer_list
from handtorch.zoo.registry import MODELS
from handtorch.zoo.started import started


def listed(name: str) -> dict[str, object]:
    begun = started(name, small=True)
    return layer_list(MODELS[name], begun.model, begun.optimizers)


def test_a_perceptron_is_its_layers_loss_and_update() -> None:
    told = json.loads(json.dumps(listed("Model2")))
    assert [layer["op"] for layer in told["layers"]] == ["input", "Linear", "ReLU", "Linear",
                                                         "ReLU", "Linear"]
    first = told["layers"][1]
    assert (first["weight"], first["bias"]) == ("0.weight", "0.bias")
    assert first["inputs"] == [told["layers"][0]["name"]]
    assert told["output"] == told["layers"][-1]["name"]
    assert (told["loss"], told["optimizer"]["kind"]) == ("cross_entropy", "SGD")
    assert (told["optimizer"]["lr"], told["optimizer"]["momentum"]) == (0.01, 0.9)


@pytest.mark.parametrize("name, ops", [
    ("SqueezeNet1_1", {"Conv2d", "cat", "MaxPool2d", "AdaptiveAvgPool2d", "Flatten", "Identity"}),
    ("ResNet50", {"BatchNorm2d", "add", "Linear"}), ("MobileNetV2", {"ReLU6", "add"}),
    ("DenseNet40_12", {"cat", "AvgPool2d"}),
])
def test_nets_for_pictures_can_be_listed(name: str, ops: set[str]) -> None:
    told = listed(name)
    assert ops <= {layer["op"] for layer in told["layers"]}     # type: ignore[attr-defined]
    known: set[str] = set()
    for layer in told["layers"]:                                # type: ignore[attr-defined]
        assert set(layer["inputs"]) <= known                    # each comes after what it reads
        known.add(layer["name"])
    assert told["output"] in known


@pytest.mark.parametrize("name, why", [
    ("HarLSTM", "it has a layer LSTM"),
    ("DQN", "its step is more than a model, a loss and an update"),
    ("DCGAN", "its step is more than a model, a loss and an update"),
    ("Seq2Seq", "its step is more|it has a layer|it calls"),
])
def test_what_is_more_than_layers_is_refused(name: str, why: str) -> None:
    with pytest.raises(BadInput, match=f"{name} as a list of layers: .*({why})"):
        listed(name)
