"""Model4 of the paper learns handwritten digits with the resident step, and in PyTorch beside it.

MNIST where `HANDTORCH_SHARED` names a folder that holds it; else scikit-learn's 8x8 digits,
enlarged to MNIST's 28x28."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from handtorch import knobs
from handtorch.api.make import train_step
from handtorch.baseline.training import accuracy, train
from handtorch.errors import StorageError
from handtorch.kernels.case import Array
from handtorch.zoo.digits import load_digits
from handtorch.zoo.registry import MODELS

SIDE, ENLARGED, MARGIN = 28, 3, 2
MODEL = "Model4"
BATCH = 32
ALLOWED_GAP = 0.01
_IN_SHARED = "data/mnist/mnist.npz"


@dataclass(frozen=True)
class Pictures:
    """Rows of 784 numbers from 0 to 1 and their labels; `note` says why it is not MNIST."""

    name: str
    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    epochs: int
    wanted: float                           # the share to be recognised at least
    note: str = ""

    def batches(self, epoch: int) -> Iterator[tuple[Array, Array]]:
        """Whole batches in an order that depends on `epoch` only."""
        order = np.random.default_rng(epoch).permutation(len(self.train_x))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[at:at + BATCH]
            yield self.train_x[rows], self.train_y[rows]


def load_pictures(quick: bool) -> Pictures:
    """MNIST if it is at hand and there is time for it, else digits; `note` says which and why."""
    if quick:
        return small_digits("the quick form", epochs=10)
    folder = knobs.value("HANDTORCH_SHARED")
    if not folder:
        return small_digits("HANDTORCH_SHARED names no folder with MNIST")
    file = Path(folder).expanduser() / _IN_SHARED
    return mnist(file) if file.exists() else small_digits(f"there is no {file}")


def mnist(file: Path) -> Pictures:
    try:
        with np.load(file, allow_pickle=False) as found:
            x = [found[name].reshape(-1, SIDE * SIDE).astype("f4") / 255
                 for name in ("x_train", "x_test")]
            y = [found[name].astype("i8") for name in ("y_train", "y_test")]
    except (OSError, ValueError, KeyError, BadZipFile) as e:
        raise StorageError(f"MNIST in {file}", why=str(e),
                           fix="an .npz with x_train, y_train, x_test, y_test") from e
    return Pictures("MNIST", x[0], y[0], x[1], y[1], epochs=5, wanted=0.97)


def small_digits(note: str, epochs: int = 20) -> Pictures:
    """Each pixel of the 8x8 digits becomes 3x3, within a margin of 2: a picture of 28x28."""
    digits = load_digits()

    def enlarged(rows: Array) -> Array:
        squares = rows.reshape(-1, 8, 8)
        large = squares.repeat(ENLARGED, axis=1).repeat(ENLARGED, axis=2)
        edges = ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN))
        return np.pad(large, edges).reshape(len(rows), SIDE * SIDE)
    return Pictures("digits", enlarged(digits.train_x), digits.train_y, enlarged(digits.test_x),
                    digits.test_y, epochs=epochs, wanted=0.94, note=note)


def started(name: str, seed: int = 0) -> Any:
    """The zoo's model with weights that depend on `seed` only, spread as torch spreads them."""
    model, rng = MODELS[name].make(), np.random.default_rng(seed)
    bound = 1.0
    for parameter in model.parameters():
        array = parameter.detach().numpy()
        bound = array.shape[1] ** -0.5 if array.ndim == 2 else bound     # a bias after its weight
        array[...] = rng.uniform(-bound, bound, array.shape)
    return model


@dataclass(frozen=True)
class Learned:
    """What share of unseen pictures is recognised after each epoch."""

    pictures: Pictures
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def reached(self) -> bool:
        """Enough was learned, and what PyTorch learned."""
        ours, theirs = self.ours[-1], self.theirs[-1]
        return ours >= self.pictures.wanted and ours >= theirs - ALLOWED_GAP

    @property
    def text(self) -> str:
        """One sentence for people."""
        p = self.pictures
        note = f" ({p.note})" if p.note else ""
        return (f"{MODEL} on {p.name}{note}: after {len(self.ours)} epochs the resident step "
                f"recognises {self.ours[-1]:.1%} of unseen pictures, PyTorch "
                f"{self.theirs[-1]:.1%} from the same start; wanted is {p.wanted:.0%} and no "
                f"less than PyTorch's by more than {ALLOWED_GAP:.0%}.")


def learn(pictures: Pictures, device: str) -> Learned:
    """Both train from the same start on the same batches; both are tested in PyTorch."""
    entry, model = MODELS[MODEL], started(MODEL)
    assert entry.loss is not None
    twin = deepcopy(model)
    (optimizer,), (other,) = entry.optimizers(model), entry.optimizers(twin)
    step = train_step(model, entry.loss, optimizer, example=next(pictures.batches(0)),
                      device=device)
    ours, theirs = list[float](), list[float]()
    for epoch in range(pictures.epochs):
        for batch in pictures.batches(epoch):
            step(*batch)
        step.sync_to(model)
        train(twin, entry.loss, other, pictures.batches(epoch))
        ours.append(accuracy(model, pictures.test_x, pictures.test_y))
        theirs.append(accuracy(twin, pictures.test_x, pictures.test_y))
    step.close()
    return Learned(pictures, tuple(ours), tuple(theirs))
