"""The strategies of the study `rnn`: one LSTM network, run in seven ways with the same answer.

    a1  NumPy, cell by cell, one thread     b1  d's kernels on the CPU, all its cores
    a2  torch, one thread                   b2  torch, all threads
    c   fine units of work on the device    d   coarse units, along anti-diagonals
    e   ours: `inference`

a, c, d and b1 are the MobiRNN paper's single-threaded CPU, desktop-GPU habit, MobiRNN itself, and
MobiRNN with the GPU's driver switched off; the others are what there is today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Protocol

import numpy as np

from handtorch.api.inference import Inference
from handtorch.api.make import inference
from handtorch.baseline.fair import Work, timed
from handtorch.baseline.numpy_lstm import OneThread
from handtorch.baseline.torch_lstm import TorchScores
from handtorch.kernels.case import Array
from handtorch.kernels.lstm_units import PAPER_UNITS, Recipe, Units, coarse, fine
from handtorch.kernels.lstm_weights import LstmWeights
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.zoo.har import har_model

A1, A2, B1, B2, C, D, E = "a1", "a2", "b1", "b2", "c", "d", "e"
C_GROUPS, D_PAPER = "c in groups", "d 12 x 10"
TITLES = {
    A1: "NumPy, one thread", A2: "torch, one thread", B1: "coarse units, CPU, all cores",
    B2: "torch, all threads", C: "fine units", C_GROUPS: "fine units in groups of 32",
    D_PAPER: "coarse units, 12 x 10", D: "coarse units, best shape", E: "ours",
}
ON_HOST = (A1, A2, B2)
DESKTOP_GROUP = 32                          # a warp
# Shapes of coarse units: the paper's, few, as many as there are columns of any size here.
SHAPES = (PAPER_UNITS, Units(4, 16), Units(64, 16))


class Runs(Protocol):
    """A network ready to run."""

    def scores(self, windows: Array) -> Array:
        """Scores [batch, classes] of windows [batch, time, signals]."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Strategy:
    """One way, made for windows of one size. `launches_per_cell` counts every launch of a window,
    those before the first and after the last cell too; None where nothing is launched."""

    key: str
    runs: Runs
    launches_per_cell: float | None = None
    note: str = ""

    def work(self, windows: Array) -> Work:
        """One window a run, as the paper's test cases come: each alone, one after the other."""
        ones = [windows[i:i + 1] for i in range(len(windows))]
        if isinstance(self.runs, OneThread):
            return partial(_counted, self.runs, windows)

        def work(count: int) -> None:
            for i in range(count):
                self.runs.scores(ones[i % len(ones)])
        return work


def _counted(runs: OneThread, windows: Array, count: int) -> None:
    """One question to the child for a whole block, so that the pipe costs nothing."""
    whole, rest = divmod(count, len(windows))
    if whole:
        runs.scores(windows, whole)
    if rest:
        runs.scores(windows[:rest])


class OnDevice:
    """A recipe on a device: windows in, launches, scores out."""

    def __init__(self, on: OpenCLContext, recipe: Recipe) -> None:
        self.recipe = recipe
        self._steps = BareSteps(on, recipe.steps, recipe.given)

    def scores(self, windows: Array) -> Array:
        self._steps.write(self.recipe.x, windows.swapaxes(0, 1))
        self._steps.enqueue()
        return self._steps.read(self.recipe.scores)

    def close(self) -> None:
        self._steps.close()


class Ours:
    """The zoo's torch module through `inference`."""

    def __init__(self, infer: Inference) -> None:
        self.infer = infer

    def scores(self, windows: Array) -> Array:
        return np.asarray(self.infer(windows))

    def close(self) -> None:
        self.infer.close()


@dataclass(frozen=True)
class Sides:
    """What strategies are made from: the network, the device, a CPU device, windows like these.

    `cpu` is the device itself where that is a CPU."""

    weights: LstmWeights
    on: OpenCLContext
    cpu: OpenCLContext
    windows: Array                          # [batch, time, signals]

    @property
    def size(self) -> tuple[int, int]:
        batch, time, _ = self.windows.shape
        return time, batch

    def make(self, key: str) -> Strategy:
        """One strategy, ready; the caller closes it."""
        time, batch = self.size
        match key:
            case "a1":
                return Strategy(key, OneThread(self.weights))
            case "a2" | "b2":
                return Strategy(key, TorchScores(har_model(self.weights), int(key == A2)))
            case "c" | "c in groups":
                group = 1 if key == C else DESKTOP_GROUP
                return self._launched(key, self.on, fine(self.weights, time=time, batch=batch,
                                                         group=group))
            case "d 12 x 10":
                return self._coarse(key, self.on, PAPER_UNITS)
            case "d" | "b1":
                on = self.on if key == D else self.cpu
                return self._best(key, on)
            case _:
                assert key == E, key
                return self._ours()

    def _launched(self, key: str, on: OpenCLContext, recipe: Recipe, note: str = "") -> Strategy:
        return Strategy(key, OnDevice(on, recipe), recipe.launches_per_cell, note)

    def _coarse(self, key: str, on: OpenCLContext, units: Units) -> Strategy:
        time, batch = self.size
        recipe = coarse(self.weights, time=time, batch=batch, units=units)
        return self._launched(key, on, recipe, str(units))

    def _best(self, key: str, on: OpenCLContext) -> Strategy:
        """The shape of units that is quickest here, by measurement."""
        tried = [self._coarse(key, on, units) for units in SHAPES]
        best = min(tried, key=lambda s: quick_s(s.runs, self.windows))
        for strategy in tried:
            if strategy is not best:
                strategy.runs.close()
        return best

    def _ours(self) -> Strategy:
        time, _ = self.size
        infer = inference(har_model(self.weights), example=(self.windows,),
                          device=self.on.found.label)
        launches = len(infer.program.steps) / (self.weights.layers * time)
        return Strategy(E, Ours(infer), launches)


def quick_s(runs: Runs, windows: Array, times: int = 5) -> float:
    """About how long one call takes, enough to choose by."""
    def work(count: int) -> None:
        for _ in range(count):
            runs.scores(windows)
    work(2)
    return median(timed(work, 1) for _ in range(times))


def over(strategy: Strategy, windows: Array, batch: int) -> Array:
    """Scores of many windows by a strategy made for `batch` of them at once; the last batch is
    filled up with its last window."""
    parts = []
    for at in range(0, len(windows), batch):
        some = windows[at:at + batch]
        filled = np.concatenate([some, np.repeat(some[-1:], batch - len(some), axis=0)])
        parts.append(strategy.runs.scores(filled)[:len(some)])
    return np.concatenate(parts)


@contextmanager
def ready(sides: Sides, keys: Sequence[str]) -> Iterator[dict[str, Strategy]]:
    """The strategies, made; afterwards all are closed, also those of a list that was cut short."""
    made: dict[str, Strategy] = {}
    try:
        for key in keys:
            made[key] = sides.make(key)
        yield made
    finally:
        for strategy in made.values():
            strategy.runs.close()
