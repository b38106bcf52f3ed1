"""The MobiRNN paper's ways to run an LSTM network (`lstm_units`), and their checks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from handtorch.kernels.case import Array, Case
from handtorch.kernels.lstm_units import KERNELS, PAPER_UNITS, Recipe, Units, coarse, fine
from handtorch.kernels.lstm_weights import LstmWeights, random_weights

__all__ = ["KERNELS", "cases", "exact_scores"]


def exact_scores(weights: LstmWeights, x: Array) -> Array:
    """Scores [batch, classes] of x [time, batch, signals], in float64."""
    def sigmoid(a: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-a)))
    below = np.maximum(x.astype("f8") @ weights.w_in + weights.b_in, 0)
    for kernel, bias in zip(weights.kernels, weights.biases, strict=True):
        h = c = np.zeros(below.shape[1:])
        out = np.empty_like(below)
        for t, rows in enumerate(below):
            i, f, g, o = np.split(np.concatenate((rows, h), 1) @ kernel.astype("f8") + bias, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            out[t] = h = sigmoid(o) * np.tanh(c)
        below = out
    return np.asarray(below[-1] @ weights.w_out + weights.b_out)


def _case(name: str, weights: LstmWeights, recipe: Recipe) -> Case:
    x = np.random.default_rng(7).normal(0, 1, recipe.x.shape).astype("f4")
    return Case(name, recipe.steps, {**recipe.given, recipe.x.id: x},
                {recipe.scores.id: exact_scores(weights, x)})


def cases() -> Iterator[Case]:
    """One layer and several, one window and several, columns that fit their blocks and do not."""
    one, two, three = random_weights(4, 1), random_weights(5, 2), random_weights(3, 3)
    yield _case("lstm fine, each by itself", one, fine(one, time=2))
    yield _case("lstm fine, in groups", two, fine(two, time=2, batch=2, group=4))
    for weights, batch, units in ((one, 1, Units(2, 16)), (two, 2, PAPER_UNITS),
                                  (three, 1, Units(5, 1))):
        yield _case(f"lstm coarse {units}", weights, coarse(weights, time=2, batch=batch,
                                                            units=units))
