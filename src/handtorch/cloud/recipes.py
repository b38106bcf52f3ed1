"""How a picture becomes a model's input, and how the model's scores become labels.

A net knows only the pixels it was trained on: the same weights with another channel order or
another mean give other labels and no error, so the recipe belongs to the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from handtorch.errors import BadInput

TOP = 5
CLASSES = 1000


@dataclass(frozen=True)
class Recipe:
    """`(pixel * scale - mean) / deviation` for each channel, in the order named.

    The picture's shorter side becomes `shorter_side`, and `crop` (height, width) is its middle."""

    name: str
    shorter_side: int
    crop: tuple[int, int]
    order: str                              # "RGB" or "BGR"
    scale: float
    mean: tuple[float, float, float]        # in that order
    deviation: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        assert self.order in ("RGB", "BGR") and max(self.crop) <= self.shorter_side


# Of the files a Caffe model was published with: 0..255, blue first.
CAFFE = Recipe("caffe", 256, (227, 227), "BGR", 1.0, (104.0, 117.0, 123.0))
# Of torchvision's table of weights.
TORCHVISION = Recipe("torchvision", 256, (224, 224), "RGB", 1 / 255, (0.485, 0.456, 0.406),
                     (0.229, 0.224, 0.225))
RECIPES = {recipe.name: recipe for recipe in (CAFFE, TORCHVISION)}


@dataclass(frozen=True)
class Recognizer:
    """A model that recognises: its name in the zoo and the recipe of its usual weights."""

    name: str
    zoo: str
    recipe: Recipe


# The zoo's AlexNet and MobileNetV2 have torchvision's layers, so torchvision's weights fit them.
RECOGNIZERS = {r.name: r for r in (
    Recognizer("alexnet", "AlexNet", TORCHVISION),
    Recognizer("nin", "NIN", replace(CAFFE, crop=(224, 224))),
    Recognizer("squeezenet", "SqueezeNet1_1", CAFFE),
    Recognizer("mobilenetv2", "MobileNetV2", TORCHVISION),
)}


def fitted(recipe: Recipe, height: int, width: int) -> Recipe:
    """The recipe for a model whose input is height x width; the shorter side grows if it must."""
    return replace(recipe, crop=(height, width),
                   shorter_side=max(recipe.shorter_side, height, width))


@dataclass(frozen=True)
class Label:
    """One of the classes a model can name; `probability` is softmax of its scores, None where only
    the best of them are known."""

    index: int
    name: str
    probability: float | None


def read_labels(path: Path) -> tuple[str, ...]:
    """One class to a line, in class order; a leading WordNet id (n01440764) is left off."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise BadInput(f"the labels {path} cannot be read", why=str(e),
                       fix="a text file with one class to a line") from e
    labels = tuple(_named(line) for line in lines if line.strip())
    if not labels:
        raise BadInput(f"the labels {path} are empty", fix="one class to a line")
    return labels


def _named(line: str) -> str:
    first, _, rest = line.strip().partition(" ")
    return rest.strip() if len(first) == 9 and first[0] == "n" and first[1:].isdigit() else \
        line.strip()


def top(scores: np.ndarray[Any, Any], labels: tuple[str, ...], count: int = TOP
        ) -> tuple[Label, ...]:
    """The likeliest classes of one row of scores; ties go to the lower class."""
    row = np.asarray(scores, np.float64).reshape(-1)
    if len(row) != len(labels):
        raise BadInput(f"{len(labels)} labels for a model of {len(row)} classes",
                       fix="the label file that belongs to these weights")
    if not np.isfinite(row).all():
        raise BadInput("the model's scores are not finite",
                       why=f"{int((~np.isfinite(row)).sum())} of {len(row)} are NaN or infinite",
                       fix="the recipe and the weights that belong together")
    shares = np.exp(row - row.max())
    shares /= shares.sum()
    order = np.argsort(-row, kind="stable")[:count]
    return tuple(Label(int(i), labels[i], float(shares[i])) for i in order)
