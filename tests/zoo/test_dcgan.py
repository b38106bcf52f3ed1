"""DCGAN's step: who learns from whom."""

from __future__ import annotations

import torch

from handtorch.zoo.dcgan import dcgan_step
from handtorch.zoo.registry import MODELS


def test_the_discriminator_learns_while_the_generator_stands_still() -> None:
    entry = MODELS["DCGAN"]
    torch.manual_seed(0)
    model = entry.make(small=True)
    judge, maker = entry.optimizers(model)
    maker.param_groups[0]["lr"] = 0.0
    before = model.generator.main[0].weight.clone()
    batch = entry.batch(4, small=True)
    losses = [dcgan_step(model, [judge, maker])(*batch)[0] for _ in range(4)]
    assert losses[-1] < losses[0]
    assert torch.equal(model.generator.main[0].weight, before)


def test_the_generator_learns_while_the_discriminator_stands_still() -> None:
    entry = MODELS["DCGAN"]
    torch.manual_seed(0)
    model = entry.make(small=True)
    judge, maker = entry.optimizers(model)
    judge.param_groups[0]["lr"] = 0.0
    batch = entry.batch(4, small=True)
    losses = [dcgan_step(model, [judge, maker])(*batch)[1] for _ in range(4)]
    assert losses[-1] < losses[0]


def test_pictures_have_the_size_of_the_form() -> None:
    for form, side in (("cifar", 32), ("lsun", 64)):
        model = MODELS["DCGAN"].make(form, small=True)
        made = model(torch.randn(2, 100, 1, 1))
        assert made.shape == (2, 3, side, side) and made.abs().max() <= 1
        assert model.discriminator(made).shape == (2,)
