"""Constants of settings and shares of frameworks, found from the rows that calibrate alone.

A setting (a device with its threads, or its GPU) has a rate, a bandwidth and a cost of each launch:
three unknowns for two or three rows, held near what is known without them. The shares of kernels
are a framework's, the same in all its settings; they leave 1 only as far as rows of many settings
ask for it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from handtorch.place.predict import Rates, Software, Work
from handtorch.place.published.layers import WORD, Layer
from handtorch.place.published.nets import layers_of
from handtorch.place.published.row import Row

Array = NDArray[np.float64]
KINDS = ("conv1x1", "conv3x3", "conv", "depthwise", "grouped", "linear", "pointwise")
# Known without any row. Bytes of memory for each operation that kernels reach: ten clpeak logs of
# phones and boards have 0.11 for each operation of the peak (geometric mean), of which kernels
# reach about half (plan/cost.py). A launch: 7 us on a phone's CPU (clpeak, PoCL on a Nexus 5);
# 50 us of scheduling for an operation on its GPU (MNN's static cost model, 2019 to 2023).
BYTES_PER_FLOP = 0.22
CPU_LAUNCH_S, GPU_LAUNCH_S = 7e-6, 50e-6
# How far from that a setting may be, in logarithms, and how well a row is to be met.
_BYTES_SPREAD, _LAUNCH_SPREAD, _SHARE_SPREAD, _ROW_SPREAD = 0.7, 1.0, 0.5, 0.1
_START = (1e10, BYTES_PER_FLOP * 1e10)
_ROUNDS, _INNER, _FIRST = 25, 6, 30
_STEP = 1e-4                                # of a numerical derivative


@dataclass(frozen=True)
class Facts:
    """What is known of a framework from its sources: its launches, and whether it has Winograd."""

    launch_s: float
    winograd: bool


FRAMEWORKS = {
    "ncnn-cpu": Facts(CPU_LAUNCH_S, True), "ncnn-vulkan": Facts(GPU_LAUNCH_S, True),
    "tflite-cpu": Facts(CPU_LAUNCH_S, False), "tflite-gpu": Facts(GPU_LAUNCH_S, True),
    "tensorflow-mobile": Facts(CPU_LAUNCH_S, False), "tensorflow-c5": Facts(CPU_LAUNCH_S, False),
    "tensorflow-p2": Facts(GPU_LAUNCH_S, False), "tensorflow-old": Facts(CPU_LAUNCH_S, False),
}


def work_of(layer: Layer) -> Work:
    return Work(layer.kind, layer.flops, WORD * layer.weights, layer.moved_bytes
                - WORD * layer.weights)


@dataclass(frozen=True)
class Fitted:
    """A framework's shares, and the constants of each of its settings."""

    software: Software
    rates: Mapping[str, Rates] = field(default_factory=dict)


def fit(framework: str, rows: Sequence[Row]) -> Fitted:
    """From the rows of this framework that calibrate; others are not looked at."""
    used = [r for r in rows if r.framework == framework and r.tag == "calibration"]
    problem = _Problem(used, FRAMEWORKS[framework])
    constants, shares = problem.solved()
    software = Software(dict(zip(KINDS, np.exp(shares).tolist(), strict=True)),
                        winograd=FRAMEWORKS[framework].winograd)
    return Fitted(software, {name: Rates(*np.exp(at).tolist())
                             for name, at in zip(problem.settings, constants, strict=True)})


class _Problem:
    """Logarithms throughout: of rate, bandwidth and launch for each setting, of each share."""

    def __init__(self, rows: Sequence[Row], facts: Facts) -> None:
        self.settings = sorted({r.setting for r in rows})
        self._facts = facts
        networks = sorted({r.network for r in rows})
        counted = [_counted(layers_of(n), facts.winograd) for n in networks]
        self._flops = np.array([c[0] for c in counted])                 # network, kind
        self._bytes = np.array([c[1] for c in counted])
        self._launches = np.array([c[2] for c in counted])
        self._told = np.full((len(self.settings), len(networks)), np.nan)
        for row in rows:
            at = self.settings.index(row.setting), networks.index(row.network)
            self._told[at] = np.log(row.value / 1e3)

    def solved(self) -> tuple[Array, Array]:
        start = np.log([*_START, self._facts.launch_s])
        constants = np.tile(start, (len(self.settings), 1))
        shares = np.zeros(len(KINDS))
        constants = self._settled(constants, shares, _FIRST)
        for _ in range(_ROUNDS):
            shares = self._shared(constants, shares)
            constants = self._settled(constants, shares, _INNER)
        return constants, shares

    def _missed(self, constants: Array, shares: Array) -> Array:
        """By setting: each row's miss in spreads, and how far the constants are from the known."""
        rate, bandwidth, launch = np.exp(constants.T)[:, :, None]
        seconds = ((self._flops / np.exp(shares)).sum(axis=1) / rate + self._bytes / bandwidth
                   + self._launches * launch)
        rows = np.nan_to_num((np.log(seconds) - self._told) / _ROW_SPREAD)
        ratio = constants[:, 1] - constants[:, 0] - np.log(BYTES_PER_FLOP)
        launches = constants[:, 2] - np.log(self._facts.launch_s)
        return np.column_stack([rows, ratio / _BYTES_SPREAD, launches / _LAUNCH_SPREAD])

    def _slopes(self, constants: Array, shares: Array) -> tuple[Array, Array]:
        missed = self._missed(constants, shares)
        return missed, np.stack([(self._missed(constants + step, shares) - missed) / _STEP
                                 for step in _STEP * np.eye(3)], axis=2)

    def _settled(self, constants: Array, shares: Array, rounds: int) -> Array:
        """Levenberg's method for all settings at once; a step that does not help is not taken."""
        damped = np.full(len(constants), 0.1)
        for _ in range(rounds):
            missed, slopes = self._slopes(constants, shares)
            curve = _product(slopes, slopes) + damped[:, None, None] * np.eye(3)
            step = -np.linalg.solve(curve, _product(slopes, missed[:, :, None]))[:, :, 0]
            tried = constants + np.clip(step, -1, 1)
            better = ((self._missed(tried, shares) ** 2).sum(axis=1)
                      < (missed ** 2).sum(axis=1))
            constants = np.where(better[:, None], tried, constants)
            damped = np.where(better, damped * 0.3, damped * 5)
        return constants

    def _shared(self, constants: Array, shares: Array) -> Array:
        """One step of the shares, with the constants following. What settings say is averaged, not
        summed: they ran the same networks, so that their rows miss together. 1x1 stays at 1, since
        a share of all kinds is a rate."""
        missed, slopes = self._slopes(constants, shares)
        moved = np.stack([(self._missed(constants, shares + step) - missed) / _STEP
                          for step in _STEP * np.eye(len(KINDS))[1:]], axis=2)
        curve = _product(slopes, slopes) + 1e-6 * np.eye(3)
        left = moved - slopes @ np.linalg.solve(curve, _product(slopes, moved))
        held = np.eye(len(KINDS) - 1) / _SHARE_SPREAD ** 2
        about = _product(left, left).mean(axis=0) + held
        pull = _product(left, missed[:, :, None]).mean(axis=0)[:, 0] + held @ shares[1:]
        step: Array = np.clip(np.linalg.solve(about, -pull), -0.3, 0.3)
        moved_to: Array = shares + np.concatenate([[0.0], step])
        return moved_to


def _product(a: Array, b: Array) -> Array:
    out: Array = np.einsum("sij,sik->sjk", a, b)
    return out


def _counted(layers: Sequence[Layer], winograd: bool) -> tuple[list[float], float, int]:
    """A network as the sums that count: operations by kind, bytes, launches."""
    software = Software(winograd=winograd)
    works = [work_of(layer) for layer in layers]
    flops = [sum(w.flops for w in works if w.kind == kind) for kind in KINDS]
    return flops, sum(software.moved_bytes(w) for w in works), len(works)
