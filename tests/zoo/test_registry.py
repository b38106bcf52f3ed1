"""Every model of the zoo: its size and work as published, its shapes, and that it learns."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from handtorch.errors import BadInput
from handtorch.zoo.entry import Entry, Published
from handtorch.zoo.registry import MODELS

PUBLISHED = [pytest.param(e, p, id=f"{e.name}-{p.form}")
             for e in MODELS.values() for p in e.published]
# What a 32x32 picture has shrunk to before the last pooling.
LAST_SIDE = {"DenseNet40_12": 8, "DenseNet100_12": 8, "ResNet50": 4, "ResNet101": 4,
             "ResNet152": 4, "SqueezeNet1_0": 4, "SqueezeNet1_1": 4, "VGG16": 1, "VGG19": 1,
             "Xception": 4, "InceptionV1": 4, "AlexNet": 2, "NIN": 8, "MobileNetV2": 4}


def test_the_suites_of_the_papers_are_complete() -> None:
    assert set(MODELS) == LAST_SIDE.keys() | {
        "CharCNN", "DCGAN", "DQN", "BERT", "Seq2Seq", "HarLSTM", "Model1", "Model2", "Model3",
        "Model4"}


@pytest.mark.parametrize("entry,published", PUBLISHED)
def test_parameters_and_multiply_adds_are_the_published_ones(entry: Entry, published: Published
                                                             ) -> None:
    """Parameters exactly, or within the rounding of the source; multiply-adds within 2 %."""
    with torch.device("meta"):                          # nothing is computed or kept
        model = entry.make(published.form).eval()
    count = sum(p.numel() for p in model.parameters())
    assert abs(count - published.parameters) <= published.within * published.parameters
    inputs = [x.to("meta") for x in entry.inputs(entry.batch(1, published.form))]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    assert published.multiply_adds is not None
    assert counter.get_total_flops() / 2 == pytest.approx(published.multiply_adds, rel=0.02)


@pytest.mark.parametrize("name", LAST_SIDE)
def test_a_small_picture_is_not_shrunk_away(name: str) -> None:
    with torch.device("meta"):
        model = MODELS[name].make("cifar").eval()
    sides: list[int] = []
    pool = [m for m in model.modules() if isinstance(m, nn.AdaptiveAvgPool2d)][-1]
    pool.register_forward_pre_hook(lambda _m, args: sides.extend(args[0].shape[2:]))
    assert model(torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 10)
    assert sides == [LAST_SIDE[name]] * 2


@pytest.mark.parametrize("entry", MODELS.values(), ids=MODELS)
def test_the_small_form_is_the_same_net_and_learns(entry: Entry) -> None:
    """The same batch again and again: after four steps of the user's own code the loss is less."""
    torch.manual_seed(0)
    model = entry.make(small=True)
    with torch.device("meta"):
        full = entry.make()
    kinds = [type(m) for m in model.modules()]
    if entry.name not in ("Xception", "BERT"):          # these two are less deep
        assert kinds == [type(m) for m in full.modules()]
    assert set(kinds) == {type(m) for m in full.modules()}
    assert all(m.p == 0 for m in model.modules() if isinstance(m, nn.Dropout))
    step = entry.step(model, entry.optimizers(model))
    batch = entry.batch(entry.small_batch, small=True)
    losses = [step(*batch) for _ in range(4)]
    if entry.name != "DCGAN":                           # two nets against each other: test_dcgan
        assert losses[-1] < losses[0]


def test_batches_depend_on_the_seed_only() -> None:
    entry = MODELS["BERT"]
    before = torch.random.get_rng_state()
    first, again, other = (entry.batch(3, small=True, seed=s) for s in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(BadInput) as e:
        MODELS["DenseNet40_12"].make("imagenet")
    assert str(e.value) == ("DenseNet40_12 in form 'imagenet': it has cifar\n"
                            "  try: form='cifar'")
