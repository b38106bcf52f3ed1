"""Twenty training steps of a zoo model through `ht.train_step` against torch's own.

The yardstick: a float64 torch run is the truth; two float32 torch runs (as it comes; channels last
with one thread) show what rounding alone does to each tensor. Ours may be three times as far off
as the worse of the two, whose error counts as half a unit in the last place at least.

    python tests/zoo/train_like_torch.py [MODEL ...] [--device NAME]   prints the table
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import handtorch as ht
from handtorch.errors import HandTorchError
from handtorch.zoo.entry import Batch, Entry
from handtorch.zoo.registry import MODELS

Weights = dict[str, NDArray[Any]]
STEPS, BATCHES = 20, 4
# With the batches from seed 0 two neighbours in InceptionV1's maxpool4 differ by 3.5e-7 in float64:
# which of them is the larger is a matter of rounding, and so is every gradient before it.
FIRST_SEED = {"InceptionV1": 10}
TIMES = 3.0
HALF_ULP = 2.0 ** -24


@dataclass(frozen=True)
class Outcome:
    """`ratio` is our error over torch's, in the tensor where it is worst; 3 is the limit."""

    name: str
    device: str
    ratio: float
    worst: str
    ours: float
    theirs: float
    launches: int
    peak_bytes: int
    floor_bytes: int
    first_s: float                 # from the call to the first loss
    step_ms: float                 # mean of the other steps

    def row(self) -> str:
        over = self.peak_bytes / max(self.floor_bytes, 1)
        return (f"{self.name:<15} {self.device:<8} {self.ratio:>6.2f} {self.ours:>9.2e} "
                f"{self.theirs:>9.2e} {self.launches:>6} {self.peak_bytes:>12,} {over:>6.3f} "
                f"{self.first_s:>7.1f} {self.step_ms:>8.1f}  {self.worst}")


HEAD = (f"{'model':<15} {'device':<8} {'ratio':>6} {'ours':>9} {'torch':>9} {'launch':>6} "
        f"{'peak bytes':>12} {'/floor':>6} {'first s':>7} {'step ms':>8}  worst tensor")


def start(entry: Entry) -> Any:
    """The same starting weights on every call."""
    torch.manual_seed(0)
    return entry.make(small=True)


def batches(entry: Entry) -> list[Batch]:
    first = FIRST_SEED.get(entry.name, 0)
    return [entry.batch(entry.small_batch, small=True, seed=first + i) for i in range(BATCHES)]


def by_torch(entry: Entry, dtype: torch.dtype, channels_last: bool = False) -> Weights:
    """Weights and statistics after STEPS steps of plain torch."""
    model = start(entry).to(dtype)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    step = entry.step(model, entry.optimizers(model))
    data = [tuple(_as(x, dtype, channels_last) for x in batch) for batch in batches(entry)]
    for i in range(STEPS):
        step(*data[i % BATCHES])
    return _floats(model)


def _as(x: torch.Tensor, dtype: torch.dtype, channels_last: bool) -> torch.Tensor:
    x = x.to(dtype) if x.is_floating_point() else x
    last = channels_last and x.dim() == 4
    return x.contiguous(memory_format=torch.channels_last) if last else x


def _floats(model: torch.nn.Module) -> Weights:
    return {name: t.detach().double().numpy() for name, t in model.state_dict().items()
            if t.is_floating_point()}


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _error(got: NDArray[Any], exact: NDArray[Any]) -> float:
    """Relative in the L2 norm. Elements below 1e-6 are what cancellation left of a zero (a bias
    in front of a batch-norm, the keys' bias in attention) and count as 1e-6."""
    scale = max(float(np.linalg.norm(exact)), 1e-6 * np.sqrt(exact.size))
    return float(np.linalg.norm(got - exact)) / scale


def rounding(entry: Entry) -> tuple[Weights, dict[str, float]]:
    """The float64 weights, and for each tensor the larger error of the two float32 runs."""
    with _threads(1):                       # float64 is the truth in any order of summation
        exact = by_torch(entry, torch.float64)
        last = by_torch(entry, torch.float32, channels_last=True)
    usual = by_torch(entry, torch.float32)
    return exact, {name: max(_error(usual[name], exact[name]), _error(last[name], exact[name]))
                   for name in exact}


def compiled(entry: Entry, model: Any, device: str, example: Batch) -> Any:
    """What a user would write: the short form where it does, else the function form."""
    optimizers = entry.optimizers(model)
    if entry.special_step is None:
        return ht.train_step(model, entry.loss, optimizers[0], example=example, device=device)
    return ht.train_step(entry.step(model, optimizers), models=[model], optimizers=optimizers,
                         example=example, device=device)


def compare(entry: Entry, device: str, truth: tuple[Weights, dict[str, float]] | None = None
            ) -> Outcome:
    """Train on `device` and measure; `truth` is what `rounding` gave, made here if absent."""
    exact, theirs = truth or rounding(entry)
    model, data = start(entry), batches(entry)
    began = time.monotonic()
    step = compiled(entry, model, device, data[0])
    _wait(step(*data[0]))
    first = time.monotonic() - began
    loss = None
    for i in range(1, STEPS):
        loss = step(*data[i % BATCHES])
    _wait(loss)
    each = (time.monotonic() - began - first) / (STEPS - 1)
    step.sync_to(model)
    got = _floats(model)
    ours = {name: _error(got[name], exact[name]) for name in exact}
    # NaN compares as neither more nor less: it must come out as the worst of all.
    worst = max(ours, key=lambda n: ours[n] / max(theirs[n], HALF_ULP)
                if not np.isnan(ours[n]) else np.inf)
    plan = step.program.plan
    outcome = Outcome(entry.name, device[:8], ours[worst] / max(theirs[worst], HALF_ULP), worst,
                      ours[worst], theirs[worst], len(step.program.steps), plan.peak_bytes,
                      plan.floor_bytes, first, 1e3 * each)
    step.close()
    return outcome


def _wait(loss: Any) -> None:
    for one in loss if isinstance(loss, tuple) else (loss,):
        float(one)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--device", default="ref", help="ref, or an OpenCL device")
    args = parser.parse_args()
    print(HEAD, flush=True)
    failed = 0
    for name in args.models or MODELS:
        try:
            outcome = compare(MODELS[name], args.device)
        except HandTorchError as e:
            print(f"{name:<15} {e}".replace("\n", "\n" + " " * 16), flush=True)
            failed += 1
        else:
            print(outcome.row(), flush=True)
            failed += not outcome.ratio <= TIMES
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
