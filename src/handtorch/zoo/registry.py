"""Every model of the zoo by name: the suites of the four papers and two more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from handtorch.zoo import charcnn, dcgan, dqn, har, seq2seq
from handtorch.zoo.alexnet import AlexNet
from handtorch.zoo.bert import BertForQuestionAnswering, BertSize, span_loss
from handtorch.zoo.densenet import DEPTHS, DenseNet
from handtorch.zoo.entry import Batch, Entry, Published
from handtorch.zoo.inception import InceptionV1
from handtorch.zoo.mobilenet import MobileNetV2
from handtorch.zoo.nin import NIN
from handtorch.zoo.perceptron import WIDTHS, perceptron
from handtorch.zoo.resnet import BLOCKS, ResNet
from handtorch.zoo.squeezenet import SqueezeNet
from handtorch.zoo.vgg import STAGES, VGG
from handtorch.zoo.xception import Xception

VISION, TEXT = "computer vision", "natural language processing"
CLASSES = {"cifar": 10, "imagenet": 1000}
TORCHVISION = "torchvision's table of weights"
BY_HAND = "counted by hand from the widths"


def _pictures(imagenet: int, tiny: int) -> Callable[[int, str, bool], Batch]:
    def data(size: int, form: str, small: bool) -> Batch:
        side = imagenet if form == "imagenet" else tiny if small else 32
        return torch.randn(size, 3, side, side), torch.randint(CLASSES[form], (size,))
    return data


def _seen(name: str, paper: str, build: Callable[[str, bool], nn.Module], *published: Published,
          forms: tuple[str, ...] = ("cifar", "imagenet"), side: int = 224, tiny: int = 32,
          lr: float = 0.01, small_batch: int = 4) -> Entry:
    """A net that classifies pictures."""
    def optimizers(model: nn.Module) -> list[Optimizer]:
        return [torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)]
    return Entry(name, VISION, paper, forms, build, _pictures(side, tiny), published,
                 optimizers=optimizers, small_batch=small_batch)


def _torchvision(parameters: int, giga: float) -> Published:
    return Published("imagenet", parameters, TORCHVISION, multiply_adds=giga * 1e9,
                     multiply_adds_source=f"{TORCHVISION}, GFLOPS (it counts multiply-adds)")


def _resnet(name: str, published: Published) -> Entry:
    def build(form: str, small: bool) -> nn.Module:
        return ResNet(BLOCKS[name], form, CLASSES[form], 8 if small else 64)
    return _seen(name, "He et al. 2015, arXiv:1512.03385", build, published, small_batch=8)


def _vgg(name: str, published: Published) -> Entry:
    def build(form: str, small: bool) -> nn.Module:
        return VGG(STAGES[name], form, CLASSES[form], *((0.0, 8) if small else (0.5, 1)))
    return _seen(name, "Simonyan and Zisserman 2014, arXiv:1409.1556", build, published)


def _densenet(name: str, published: Published) -> Entry:
    def build(form: str, small: bool) -> nn.Module:
        growth, first = (3, 4) if small else (12, 16)
        return DenseNet(DEPTHS[name], growth, CLASSES[form], first=first)
    return _seen(name, "Huang et al. 2017, arXiv:1608.06993", build, published, forms=("cifar",),
                 tiny=16)


def _squeezenet(version: str, published: Published) -> Entry:
    def build(form: str, small: bool) -> nn.Module:
        return SqueezeNet(version, form, CLASSES[form], *((0.0, 8) if small else (0.5, 1)))
    return _seen(f"SqueezeNet{version.replace('.', '_')}",
                 "Iandola et al. 2016, arXiv:1602.07360", build, published, lr=0.002)


def _by_divisor(model: Callable[..., nn.Module], divide: int) -> Callable[[str, bool], nn.Module]:
    def build(form: str, small: bool) -> nn.Module:
        narrow = {"dropout": 0.0, "divide": divide} if small else {}
        return model(form, CLASSES[form], **narrow)
    return build


def _xception(form: str, small: bool) -> nn.Module:
    return Xception(form, CLASSES[form], **({"middle": 2, "divide": 8} if small else {}))


def _perceptron(name: str, parameters: int) -> Entry:
    widths = WIDTHS[name]

    def data(size: int, form: str, small: bool) -> Batch:
        return torch.randn(size, widths[0]), torch.randint(widths[-1], (size,))
    products = parameters - sum(widths[1:])
    counted = Published("vector", parameters, BY_HAND, 0.0, products, "weights without biases")
    return Entry(name, "perceptron", "Training on phone GPUs through OpenCL (2022), figure 4",
                 ("vector",), lambda form, small: perceptron(widths), data, (counted,),
                 small_batch=32)


def _adam(lr: float, eps: float = 1e-8) -> Callable[[Any], list[Optimizer]]:
    return lambda model: [torch.optim.Adam(model.parameters(), lr=lr, eps=eps)]


def _char_cnn(form: str, small: bool) -> nn.Module:
    return charcnn.CharCNN(embedded=8, maps=16, hidden=20) if small else charcnn.CharCNN()


def _text(size: int, form: str, small: bool) -> Batch:
    text = torch.randint(charcnn.CHARACTERS, (size, charcnn.LENGTH + 1))
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def _sentences(size: int, form: str, small: bool) -> Batch:
    length, source, words = (7, 23, 19) if small else (seq2seq.LENGTH, 17191, 7709)
    said = torch.randint(words, (size, length + 1))
    return (torch.randint(source, (size, length)), said[:, :-1].contiguous(),
            said[:, 1:].contiguous())


def _translator(form: str, small: bool) -> nn.Module:
    return seq2seq.Seq2Seq(23, 19, 16, 2, 0.0) if small else seq2seq.Seq2Seq()


SMALL_BERT = BertSize(words=97, width=24, layers=2, heads=3, inner=48, positions=32, dropout=0.0)


def _bert(form: str, small: bool) -> nn.Module:
    return BertForQuestionAnswering(SMALL_BERT if small else None)


def _questions(size: int, form: str, small: bool) -> Batch:
    """Sentences of different lengths, padded; word 0 is the padding."""
    words, length = (97, 16) if small else (30522, 128 if form == "squad128" else 384)
    ends = torch.randint(length // 2, length + 1, (size, 1))
    mask = torch.arange(length) < ends
    text = torch.randint(1, words, (size, length)) * mask
    segments = (torch.arange(length) >= length // 4) * mask
    return text, segments.long(), mask, torch.randint(length // 2, (size, 2))


def _moves(size: int, form: str, small: bool) -> Batch:
    side = 44 if small else 84
    frames = [torch.rand(size, 4, side, side) for _ in range(2)]
    return (frames[0], torch.randint(dqn.ACTIONS, (size,)), torch.randn(size).sign(), frames[1],
            (torch.rand(size) < 0.1).float())


def _faces(size: int, form: str, small: bool) -> Batch:
    side = 32 if form == "cifar" else 64
    return torch.rand(size, 3, side, side) * 2 - 1, torch.randn(size, dcgan.NOISE, 1, 1)


def _readings(size: int, form: str, small: bool) -> Batch:
    return torch.randn(size, har.STEPS, har.SIGNALS), torch.randint(har.ACTIVITIES, (size,))


PICTURES = (
    _densenet("DenseNet40_12", Published(
        "cifar", 1_020_000, "Liu et al. 2017 (Network Slimming), table 1: 1.02M; the paper: 1.0M",
        0.005, 2.665e8, "Network Slimming, table 1: 5.33e8 FLOPs, two to a multiply-add")),
    _densenet("DenseNet100_12", Published(
        "cifar", 7_000_000, "the paper, table 2: 7.0M", 0.008, 1_769_516_448, BY_HAND)),
    _resnet("ResNet50", _torchvision(25_557_032, 4.089)),
    _resnet("ResNet101", _torchvision(44_549_160, 7.801)),
    _resnet("ResNet152", _torchvision(60_192_808, 11.514)),
    _squeezenet("1.0", _torchvision(1_248_424, 0.819)),
    _squeezenet("1.1", _torchvision(1_235_496, 0.349)),
    _vgg("VGG16", _torchvision(138_357_544, 15.47)),
    _vgg("VGG19", _torchvision(143_667_240, 19.632)),
    _seen("Xception", "Chollet 2017, arXiv:1610.02357", _xception, Published(
        "imagenet", 22_855_952, "the paper, table 3", multiply_adds=8.38e9,
        multiply_adds_source="Zoph et al. 2018 (NASNet), table 2: 8.38 B"), side=299),
    _seen("InceptionV1", "Szegedy et al. 2014, arXiv:1409.4842", _by_divisor(InceptionV1, 8),
          _torchvision(6_624_904, 1.498), small_batch=8),
    _seen("AlexNet", "Krizhevsky 2014, arXiv:1404.5997", _by_divisor(AlexNet, 8),
          _torchvision(61_100_840, 0.714)),
    _seen("NIN", "Lin et al. 2013, arXiv:1312.4400", _by_divisor(NIN, 8),
          Published("cifar", 966_986, BY_HAND, 0.0, 222_486_528, BY_HAND),
          Published("imagenet", 7_600_000, "cloud-or-device paper: a file of 29 MB (MiB), 4 bytes "
                    "to a parameter", 0.02, 969_460_864, BY_HAND)),
    _seen("MobileNetV2", "Sandler et al. 2018, arXiv:1801.04381", _by_divisor(MobileNetV2, 8),
          _torchvision(3_504_872, 0.301)),
)
OTHERS = (
    Entry("CharCNN", TEXT, "training-characterisation paper, table II (our choice of layers)",
          ("shakespeare",), _char_cnn, _text,
          (Published("shakespeare", 1_000_000, "training-characterisation paper, table II: 1M",
                     0.1, 23e6, "the same table: 23M"),), optimizers=_adam(2e-3)),
    Entry("DCGAN", "image generation", "Radford et al. 2015, arXiv:1511.06434", ("cifar", "lsun"),
          lambda form, small: dcgan.DCGAN(form, 8 if small else 64), _faces,
          (Published("lsun", 3_576_704 + 2_765_568, "PyTorch's DCGAN example: 3,576,704 and "
                     "2,765,568", 0.0, 104_628_224, f"{BY_HAND}, the generator"),),
          None, dcgan.dcgan_optimizers, dcgan.dcgan_step, (1, None)),
    Entry("DQN", "robotics control", "Mnih et al. 2015, Nature 518:529", ("atari",),
          lambda form, small: dqn.DQN(side=44, divide=4) if small else dqn.DQN(), _moves,
          (Published("atari", 2 * 1_693_362, f"{BY_HAND} in the paper's Methods, both nets",
                     multiply_adds=9_352_192, multiply_adds_source=BY_HAND),),
          None, dqn.dqn_optimizers, dqn.dqn_step, (0, 1), small_batch=8),
    Entry("BERT", TEXT, "Devlin et al. 2018, arXiv:1810.04805", ("squad", "squad128"), _bert,
          _questions,
          (Published("squad128", 108_893_186, "the usual checkpoint's 109,482,240, less the pooler "
                     "(590,592), plus the head (1,538)", multiply_adds=11.25e9,
                     multiply_adds_source="Jiao et al. 2020 (TinyBERT), table 1: 22.5 B FLOPs at "
                                          "128 words, two to a multiply-add"),), span_loss,
          lambda model: [torch.optim.AdamW(model.parameters(), lr=5e-5, eps=1e-6)]),
    Entry("Seq2Seq", TEXT, "Sutskever et al. 2014, arXiv:1409.3215; Luong et al. 2015",
          ("iwslt15",), _translator, _sentences,
          (Published("iwslt15", 25_625_088, BY_HAND, 0.0, 516_034_560, BY_HAND),),
          optimizers=_adam(1e-3, eps=1e-6)),
    Entry("HarLSTM", "activity recognition", "MobiRNN 2017, arXiv:1706.00878", ("har",),
          lambda form, small: har.HarLSTM(), _readings,
          (Published("har", 17_414, f"{BY_HAND}; torch's second bias counted (the paper: 17 "
                     "thousand)", 0.0, 2_134_208, BY_HAND),), optimizers=_adam(2.5e-3)),
    _perceptron("Model1", 272),
    _perceptron("Model2", 816),
    _perceptron("Model3", 65_792),
    _perceptron("Model4", 235_920),
)
MODELS: dict[str, Entry] = {entry.name: entry for entry in (*PICTURES, *OTHERS)}
