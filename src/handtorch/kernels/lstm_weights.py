"""LstmWeights: one LSTM network as plain arrays, whoever runs it.

A ReLU layer on each reading, stacked LSTM layers, a linear layer on the last state: the network of
the MobiRNN paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handtorch.kernels.case import Array

GATES = 4                                   # i, f, g, o


@dataclass(frozen=True)
class LstmWeights:
    """`kernels[l]` is [2 H, 4 H]: rows for the layer's input, then for its own last h; columns are
    the gates i, f, g, o. All biases are inside, also one that others add when they run."""

    w_in: Array                             # [signals, H]
    b_in: Array                             # [H]
    kernels: tuple[Array, ...]
    biases: tuple[Array, ...]               # [4 H]
    w_out: Array                            # [H, classes]
    b_out: Array                            # [classes]

    def __post_init__(self) -> None:
        h = self.hidden
        assert self.kernels and len(self.kernels) == len(self.biases), "one bias a layer"
        shapes = [(self.b_in, (h,)), (self.w_out, (h, self.classes)), (self.b_out, (self.classes,)),
                  *((k, (2 * h, GATES * h)) for k in self.kernels),
                  *((b, (GATES * h,)) for b in self.biases)]
        assert all(array.shape == shape for array, shape in shapes), "shapes do not fit"

    @property
    def signals(self) -> int:
        return int(self.w_in.shape[0])

    @property
    def hidden(self) -> int:
        return int(self.w_in.shape[1])

    @property
    def layers(self) -> int:
        return len(self.kernels)

    @property
    def classes(self) -> int:
        return int(self.w_out.shape[1])


def random_weights(hidden: int, layers: int, *, signals: int = 9, classes: int = 6, seed: int = 0
                   ) -> LstmWeights:
    """Weights spread as torch spreads them; the same for the same sizes and seed."""
    rng, bound = np.random.default_rng((seed, hidden, layers)), hidden ** -0.5

    def spread(*shape: int, by: float = bound) -> Array:
        return rng.uniform(-by, by, shape).astype("f4")
    across = signals ** -0.5
    return LstmWeights(
        spread(signals, hidden, by=across), spread(hidden, by=across),
        tuple(spread(2 * hidden, GATES * hidden) for _ in range(layers)),
        tuple(spread(GATES * hidden) for _ in range(layers)),
        spread(hidden, classes), spread(classes))
