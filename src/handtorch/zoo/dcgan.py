"""DCGAN (Radford et al. 2015): a generator and a discriminator trained against each other.

The 64x64 form is PyTorch's own example (widths 64 to 512); the 32x32 form for CIFAR-10 has one
stage less in each net. The discriminator gives logits: its sigmoid is in the loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.optim import Optimizer

NOISE = 100


class Generator(nn.Module):
    """Noise (batch, NOISE, 1, 1) -> pictures between -1 and 1."""

    def __init__(self, stages: int, width: int) -> None:
        super().__init__()
        wide = width * 2 ** stages
        layers: list[nn.Module] = [nn.ConvTranspose2d(NOISE, wide, 4, bias=False)]
        for _ in range(stages):
            layers += [nn.BatchNorm2d(wide), nn.ReLU(True),
                       nn.ConvTranspose2d(wide, wide // 2, 4, 2, 1, bias=False)]
            wide //= 2
        layers += [nn.BatchNorm2d(wide), nn.ReLU(True),
                   nn.ConvTranspose2d(wide, 3, 4, 2, 1, bias=False), nn.Tanh()]
        self.main = nn.Sequential(*layers)

    def forward(self, noise: Tensor) -> Tensor:
        out: Tensor = self.main(noise)
        return out


class Discriminator(nn.Module):
    """Pictures -> one logit each: real or made."""

    def __init__(self, stages: int, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False),
                                   nn.LeakyReLU(0.2, inplace=True)]
        for _ in range(stages):
            layers += [nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
                       nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, inplace=True)]
            width *= 2
        layers.append(nn.Conv2d(width, 1, 4, bias=False))
        self.main = nn.Sequential(*layers)

    def forward(self, pictures: Tensor) -> Tensor:
        return torch.flatten(self.main(pictures))


class DCGAN(nn.Module):
    """Both nets, with the paper's starting weights; calling it generates."""

    def __init__(self, form: str = "cifar", width: int = 64) -> None:
        super().__init__()
        stages = 2 if form == "cifar" else 3
        self.generator = Generator(stages, width)
        self.discriminator = Discriminator(stages, width)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
                nn.init.normal_(module.weight, 0.0, 0.02)
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.weight, 1.0, 0.02)

    def forward(self, noise: Tensor) -> Tensor:
        out: Tensor = self.generator(noise)
        return out


def dcgan_optimizers(model: DCGAN) -> list[Optimizer]:
    return [torch.optim.Adam(part.parameters(), lr=2e-4, betas=(0.5, 0.999))
            for part in (model.discriminator, model.generator)]


def dcgan_step(model: DCGAN, optimizers: list[Optimizer]) -> Callable[..., tuple[Tensor, Tensor]]:
    """The usual step: the discriminator learns from real and made pictures, then the generator
    from what the changed discriminator says. It gives both losses."""
    generator, discriminator = model.generator, model.discriminator
    learn_discriminator, learn_generator = optimizers

    def step(real: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        learn_discriminator.zero_grad()
        made = generator(noise)
        seen, fooled = discriminator(real), discriminator(made.detach())
        judge = bce(seen, torch.ones_like(seen)) + bce(fooled, torch.zeros_like(fooled))
        judge.backward()
        learn_discriminator.step()

        learn_generator.zero_grad()
        fooled = discriminator(made)
        maker = bce(fooled, torch.ones_like(fooled))
        maker.backward()
        learn_generator.step()
        return judge, maker

    return step
