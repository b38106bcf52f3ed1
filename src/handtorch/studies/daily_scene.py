"""What the study `daily` learns from: a model that went to school in torch, and images to come.

CIFAR-10 and DenseNet40 as in the paper where the pictures are at hand; else, and in the quick form,
scikit-learn's 8x8 digits and a small net."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from handtorch import knobs
from handtorch.baseline.pretrain import (
    Schooling,
    pretrain,
    set_weights,
    weights_of,
)
from handtorch.kernels.case import Array
from handtorch.store.tensors import read_tensors, write_tensors
from handtorch.zoo.data.feed import CIFAR_MEAN, CIFAR_SPREAD
from handtorch.zoo.data.find import found, open_cifar10
from handtorch.zoo.digits import digits_model, load_digits
from handtorch.zoo.started import started

DAYS, PER_DAY = 17, 64
_RESERVED = 2000                        # pictures of CIFAR-10 that only come day by day
_VERSION = 1


@dataclass(frozen=True)
class Scene:
    """`old` were seen at school, `new` come day by day, `held` are never learnt from; each images
    and labels. `checked` of training and of held-out images are looked at each day."""

    name: str
    note: str
    make: Callable[[], Any]
    school: Schooling
    old: tuple[Array, Array]
    new: tuple[Array, Array]
    held: tuple[Array, Array]
    batches: tuple[int, ...]
    rate: float
    checked: tuple[int, int]
    eval_batch: int


def scene_of(quick: bool) -> Scene:
    if quick:
        return digits("the quick form")
    if found("cifar10") is None:
        return digits("HANDTORCH_SHARED names no folder with CIFAR-10")
    return pictures()


def digits(note: str) -> Scene:
    data = load_digits()
    days = DAYS * PER_DAY
    order = np.random.default_rng(1).permutation(len(data.train_x))
    x, y = data.train_x[order], data.train_y[order]
    # 1,437 to learn from: 17 days of 64 leave 349 for the school.
    return Scene("digits", note, digits_model, Schooling(0.60, 10.0, 0.02, 32, 2),
                 (x[days:], y[days:]), (x[:days], y[:days]), (data.test_x, data.test_y),
                 (4, 16, 64), 0.01, (256, 352), 32)


def pictures() -> Scene:
    data = open_cifar10("", 0)

    def scaled(part: tuple[Array, ...]) -> tuple[Array, Array]:
        x = part[0].astype("f4") / np.float32(255)
        return (x - CIFAR_MEAN) / CIFAR_SPREAD, part[1].astype("i8")
    x, y = scaled(data.train)
    return Scene("DenseNet40 on CIFAR-10", "", lambda: started("DenseNet40_12").model,
                 Schooling(0.6065, 420.0, 0.05),
                 (x[_RESERVED:], y[_RESERVED:]), (x[:_RESERVED], y[:_RESERVED]),
                 scaled(data.held_out), (4, 16, 64), 0.002, (128, 192), 64)


def schooled(scene: Scene, progress: Callable[[str], None]) -> tuple[Any, str, str]:
    """The model after school, what that took, and a digest of its weights; kept in the cache, so
    that every run starts from the same."""
    model = scene.make()
    key = hashlib.sha256(json.dumps(
        [_VERSION, scene.name, asdict(scene.school), _digest(*scene.old)]).encode()).hexdigest()
    path = knobs.cache_folder() / "pretrained" / f"{key[:24]}.safetensors"
    if path.exists():
        weights, notes = read_tensors(path, sealed=True)
        set_weights(model, weights)
    else:
        notes = {"how": pretrain(model, *scene.old, scene.school, progress)}
        write_tensors(path, weights_of(model), notes)
    return model, notes["how"], _digest(*(a for _, a in sorted(weights_of(model).items())))


def _digest(*arrays: Array) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
