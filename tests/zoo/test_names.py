"""State dicts are named as torchvision's and as the usual checkpoints', so that weights load."""

from __future__ import annotations

import pytest
import torch

from handtorch.zoo.registry import MODELS

NAMES = {
    "ResNet50": ("conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer1.0.bn3.bias",
                 "layer1.0.downsample.0.weight", "layer1.0.downsample.1.running_var",
                 "layer3.5.conv2.weight", "layer4.2.bn3.num_batches_tracked", "fc.bias"),
    "SqueezeNet1_0": ("features.0.weight", "features.3.squeeze.weight",
                      "features.7.expand1x1.bias", "features.12.expand3x3.weight",
                      "classifier.1.bias"),
    "SqueezeNet1_1": ("features.3.squeeze.weight", "features.6.expand1x1.bias",
                      "features.12.expand3x3.weight", "classifier.1.weight"),
    "VGG16": ("features.0.weight", "features.28.bias", "classifier.0.weight",
              "classifier.3.weight", "classifier.6.bias"),
    "VGG19": ("features.34.weight", "classifier.6.weight"),
    "AlexNet": ("features.0.weight", "features.3.weight", "features.6.weight", "features.8.weight",
                "features.10.weight", "classifier.1.weight", "classifier.4.weight",
                "classifier.6.bias"),
    "MobileNetV2": ("features.0.0.weight", "features.0.1.running_var",
                    "features.1.conv.0.0.weight", "features.1.conv.1.weight",
                    "features.1.conv.2.bias", "features.2.conv.0.0.weight",
                    "features.2.conv.3.running_mean", "features.18.0.weight",
                    "classifier.1.weight"),
    "InceptionV1": ("conv1.conv.weight", "conv2.bn.bias", "inception3a.branch1.conv.weight",
                    "inception3a.branch2.1.bn.running_mean", "inception5b.branch4.1.conv.weight",
                    "fc.weight"),
    "DenseNet40_12": ("features.conv0.weight", "features.denseblock1.denselayer1.norm1.weight",
                      "features.denseblock3.denselayer12.conv1.weight",
                      "features.transition2.conv.weight", "classifier.bias"),
    "DCGAN": ("generator.main.0.weight", "generator.main.1.running_mean",
              "discriminator.main.0.weight", "discriminator.main.3.bias"),
    "BERT": ("bert.embeddings.word_embeddings.weight", "bert.embeddings.LayerNorm.bias",
             "bert.encoder.layer.11.attention.self.query.weight",
             "bert.encoder.layer.0.attention.output.LayerNorm.weight",
             "bert.encoder.layer.0.intermediate.dense.weight",
             "bert.encoder.layer.0.output.dense.bias", "qa_outputs.bias"),
}
# torchvision's count of entries, running statistics and counters included.
ENTRIES = {"ResNet50": 320, "SqueezeNet1_1": 52, "VGG16": 32, "AlexNet": 16, "MobileNetV2": 314}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    with torch.device("meta"):
        state = MODELS[name].make(MODELS[name].forms[-1]).state_dict()
    assert set(NAMES[name]) <= state.keys()
    assert len(state) == ENTRIES.get(name, len(state))
