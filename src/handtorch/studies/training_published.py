"""What the training paper prints: Table II as it stands, and the numbers of its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from handtorch.record import Published

NAME = "training"
THROUGHPUT, SAMPLES = "throughput", "samples/s"
DEVICE_USE, CORE_USE = "use of the device", "use of the cores, mean"
PEAK, INTERMEDIATE = "peak memory", "memory: intermediates"
PARAMETERS, FLOPS = "parameters", "operations forward of a sample"
GAIN = "throughput, gain by batch"
BATCH = "batch"
_PAPER = "Liu, Liu, Du and Li, training on a Jetson TX2, 2019"
TX2 = "TX2"


@dataclass(frozen=True)
class Line:
    """A row of Table II as printed; None where it says N/A."""

    layers: int
    dominant: str
    flops: float | None
    parameters: float | None
    dataset: str
    trained: bool


TABLE_II = {
    "DenseNet40_12": Line(40, "CONV", 30e6, 1e6, "Cifar-10", True),
    "ResNet50": Line(50, "CONV", 4e9, 98e6, "Cifar-10", True),
    "SqueezeNet1_0": Line(40, "CONV", 837e6, 5e6, "Cifar-10", True),
    "VGG16": Line(16, "CONV", 4e9, 134e6, "Cifar-10", True),
    "Xception": Line(39, "CONV", None, 23e6, "Cifar-10", True),
    "InceptionV1": Line(22, "CONV", 30e6, 5e6, "Cifar-10", True),
    "CharCNN": Line(2, "LSTM+CONV", 23e6, 1e6, "Shakespeare", True),
    "DCGAN": Line(40, "CONV", 30e6, 1e6, "Cifar-10", True),
    "DQN": Line(4, "CONV", None, None, "Atari 2600 games", True),
    "AlexNet": Line(8, "CONV", 727e6, 60e6, "Cifar-10", True),
    "VGG19": Line(19, "CONV", 20e9, 548e6, "Cifar-10", False),
    "BERT": Line(12, "Embedding", None, 110e6, "SQuAD", False),
    "ResNet101": Line(101, "CONV", 8e9, 155e6, "Cifar-10", False),
    "ResNet152": Line(152, "CONV", 11e9, 220e6, "Cifar-10", False),
    "DenseNet100_12": Line(100, "CONV", 31e6, 7e6, "Cifar-10", False),
    "Seq2Seq": Line(2, "LSTM", 28e9, 348e6, "IWSLT15", False),
}
# (name, model, batch, value, unit, where)
TEXT: tuple[tuple[str, str, float | None, float, str, str], ...] = (
    (THROUGHPUT, "ResNet50", 4, 9, SAMPLES, "observation 10"),
    (THROUGHPUT, "ResNet50", 64, 55, SAMPLES, "observation 10"),
    (THROUGHPUT, "DQN", 4, 889, SAMPLES, "observation 11"),
    (THROUGHPUT, "DQN", 64, 13618, SAMPLES, "observation 11"),
    (GAIN, "DQN", None, 15.3, "x", "observation 11: batch 4 to 64"),
    (GAIN, "ResNet50", None, 6.1, "x", "observation 11: batch 4 to 64"),
    (GAIN, "DenseNet40_12", None, 1.7, "x", "observation 11: batch 4 to 64"),
    (DEVICE_USE, "DenseNet40_12", 4, 81.6, "%", "observation 3, Fig. 4: of the GPU"),
    (DEVICE_USE, "DenseNet40_12", 64, 96.4, "%", "observation 3, Fig. 4: of the GPU"),
    (DEVICE_USE, "SqueezeNet1_0", 4, 71.4, "%", "observation 3, Fig. 4: of the GPU"),
    (DEVICE_USE, "SqueezeNet1_0", 64, 84.5, "%", "observation 3, Fig. 4: of the GPU"),
    (DEVICE_USE, "ResNet50", 4, 85.6, "%", "observation 3, Fig. 4: of the GPU"),
    (DEVICE_USE, "ResNet50", 64, 95.6, "%", "observation 3, Fig. 4: of the GPU"),
    (DEVICE_USE, "LSTM", None, 25, "%", "observation 5: of the GPU, about"),
    (PEAK, "VGG16", 64, 6.3e3, "MB", "section III, peak memory"),
    (PEAK, "ResNet50", 64, 5.8e3, "MB", "section III, peak memory"),
    (PEAK, "SqueezeNet1_0", 64, 5.7e3, "MB", "section III, peak memory"),
    (INTERMEDIATE, "DenseNet40_12", 4, 2.2e3, "MB", "observation 9"),
    (INTERMEDIATE, "DenseNet40_12", 64, 5.9e3, "MB", "observation 9"),
)


def published() -> Iterator[Published]:
    for name, model, batch, value, unit, where in TEXT:
        yield Published(study=NAME, name=name, subject=f"{model}, {TX2}",
                        x_name="" if batch is None else BATCH, x_value=batch, value=value,
                        unit=unit, source=f"{_PAPER}, {where}")
    for model, line in TABLE_II.items():
        for name, number in ((PARAMETERS, line.parameters), (FLOPS, line.flops)):
            if number is not None:
                yield Published(study=NAME, name=name, subject=f"{model}, {TX2}",
                                value=number / 1e6, unit="million",
                                source=f"{_PAPER}, Table II as printed")


def disagrees(model: str, parameters: int) -> str:
    """What is odd about the printed number of parameters, by a count of our own; "" if nothing."""
    printed = TABLE_II[model].parameters
    if printed is None or 0.5 < printed / parameters < 2:
        return ""
    megabytes = 4 * parameters / 2**20
    if 0.85 < printed / 1e6 / megabytes < 1.15:
        return "printed as megabytes"
    return "differs"
