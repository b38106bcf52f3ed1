"""Our recurrent layers against torch's: forward, gradients, a whole training step.

    python benchmarks/rnn.py [--device NAME] [--rounds N] [--cells lstm gru] [--parts PART ...]
                             [--json]

Two layers of 32 units over 128 readings of 9 signals. `forward`: one call with its answer as an
array, batch 1, 32 and 100. `gradient`: forward and backward for a given gradient of the outputs,
with the gradients of all weights (of ours read back as arrays). `step`: a whole training step of
the activity-recognition net (cross-entropy, Adam), its loss read each time, against torch as it
comes and through torch.compile. `stream`: one reading at a time, batch 1, each waited for, against
torch's layers called with their last states, and against our own run of a whole window for each
reading; single calls are timed, so that their 99th percentile is seen. torch is taken with its
default threads and with one; the better is what counts. Blocks alternate; a ratio is the median of
the rounds'."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import handtorch as ht
from handtorch.baseline.fair import (
    Plan,
    Timing,
    Work,
    interleave,
    moment,
    settle,
    share_of_others,
    timed,
)
from handtorch.runtime.opencl.discover import choose
from handtorch.zoo.har import SIGNALS, STEPS
from handtorch.zoo.registry import MODELS

HIDDEN, LAYERS = 32, 2
CELLS: dict[str, type[nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU}
WANTED = {("lstm", "forward", 1): 4.0, ("lstm", "forward", 32): 1.4, ("lstm", "forward", 100): 1.2,
          ("lstm", "gradient", 32): 3.0, ("lstm", "step", 32): 1.0,
          ("gru", "forward", 1): 3.0, ("gru", "forward", 32): 1.0, ("gru", "forward", 100): 1.0,
          ("gru", "gradient", 32): 1.0}
OURS = "ours"


@dataclass(frozen=True)
class Row:
    """Milliseconds a call, median of the rounds; `ratios` are torch's time over ours, with the
    least and most of any round; `best` is the smallest of them: against torch's best."""

    cell: str
    part: str
    batch: int
    ms: Mapping[str, float]
    ratios: Mapping[str, tuple[float, float, float]]
    wanted: float | None
    p99_ms: Mapping[str, float] | None = None

    @property
    def best(self) -> float:
        return min(middle for middle, _, _ in self.ratios.values())


class Outputs(nn.Module):
    """A recurrent net without the states it ends with."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.net = CELLS[cell](SIGNALS, HIDDEN, LAYERS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)[0]
        return out


def repeated(call: Callable[[], object], threads: int | None = None) -> Work:
    """The call so many times, by torch with so many threads."""
    def work(times: int) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        for _ in range(times):
            call()
    return work


def of_torch(call: Callable[[], object], name: str = "torch") -> dict[str, Work]:
    most = torch.get_num_threads()
    return {name: repeated(call, most), f"{name} x1": repeated(call, 1)}


def forward(cell: str, batch: int, device: str) -> dict[str, Work]:
    torch.manual_seed(0)
    model = Outputs(cell).eval()
    x = torch.randn(batch, STEPS, SIGNALS)
    infer, given = ht.inference(model, example=(x,), device=device), x.numpy()

    def theirs() -> None:
        with torch.inference_mode():
            model(x)
    np.testing.assert_allclose(infer(given), model(x).detach().numpy(), atol=1e-5)
    return {OURS: repeated(lambda: infer(given)), **of_torch(theirs)}


def gradient(cell: str, batch: int, device: str) -> dict[str, Work]:
    torch.manual_seed(0)
    model = Outputs(cell)
    x, dy = torch.randn(batch, STEPS, SIGNALS), torch.randn(batch, STEPS, HIDDEN)

    def grads(x: Tensor, dy: Tensor) -> dict[str, Tensor]:
        model.zero_grad()
        model(x).backward(dy)
        return {n.replace(".", "_"): p.grad for n, p in model.named_parameters()
                if p.grad is not None}
    step = ht.train_step(grads, models=[model], example=(x, dy), device=device)
    given = x.numpy(), dy.numpy()

    def ours() -> dict[str, Any]:
        made: Any = step(*given)
        return {name: g.numpy() for name, g in made.items()}
    for name, exact in grads(x, dy).items():
        np.testing.assert_allclose(ours()[name], exact.numpy(), rtol=1e-4, atol=1e-3)
    return {OURS: repeated(ours), **of_torch(lambda: grads(x, dy))}


def step(cell: str, batch: int, device: str) -> dict[str, Work]:
    """`cell` is the zoo's: it has the net with LSTMs only."""
    torch.manual_seed(0)
    entry = MODELS["HarLSTM"]
    model, data = entry.make(), entry.batch(batch)
    made = ht.train_step(model, entry.loss, entry.optimizers(model)[0], example=data, device=device)
    given = tuple(t.numpy() for t in data)
    sides = {OURS: repeated(lambda: float(made(*given)))}
    for name, compiled in (("torch", False), ("inductor", True)):
        sides |= of_torch(_training(compiled, data), name)
    return sides


def _training(compiled: bool, data: tuple[Tensor, ...]) -> Callable[[], float]:
    entry = MODELS["HarLSTM"]
    model = entry.make()
    optimizer: Any = entry.optimizers(model)[0]

    def whole(*batch: Tensor) -> Tensor:
        *inputs, target = batch
        optimizer.zero_grad()
        loss: Tensor = entry.loss(model(*inputs), target)
        loss.backward()
        optimizer.step()
        return loss
    ran: Callable[..., Tensor] = torch.compile(whole) if compiled else whole
    return lambda: float(ran(*data))


class _Continued:
    """torch's layers, one reading a call."""

    def __init__(self, net: nn.RNNBase, reading: Tensor) -> None:
        self._net, self._reading, self._states = net, reading, None

    def __call__(self) -> None:
        with torch.inference_mode():
            _, self._states = self._net(self._reading, self._states)


def stream(cell: str, batch: int, device: str) -> dict[str, Work]:
    torch.manual_seed(0)
    model = Outputs(cell).eval()
    x = torch.randn(batch, STEPS, SIGNALS)
    made = ht.stream(model, example=(x,), device=device)
    infer = ht.inference(model, example=(x,), device=device)
    reading, window = x[:, :1].contiguous(), x.numpy()
    given = reading.numpy()
    np.testing.assert_array_equal(made(window), infer(window))
    return {OURS: repeated(lambda: made(given)), "window": repeated(lambda: infer(window)),
            **of_torch(_Continued(model.net, reading))}


def each_call(sides: Mapping[str, Work], calls: int = 300) -> dict[str, float]:
    """The 99th percentile of single calls in ms, each side in a block of its own."""
    found = {}
    for name, work in sides.items():
        settle()
        work(calls)
        found[name] = sorted(timed(work, 1) for _ in range(calls))[calls * 99 // 100] * 1e3
    return found


PARTS: dict[str, tuple[Callable[[str, int, str], dict[str, Work]], tuple[int, ...]]] = {
    "forward": (forward, (1, 32, 100)), "gradient": (gradient, (32,)), "step": (step, (32,)),
    "stream": (stream, (1,))}


def row(cell: str, part: str, batch: int, times: Mapping[str, Timing],
        p99_ms: Mapping[str, float] | None) -> Row:
    ratios = {}
    for name, timing in times.items():
        if name != OURS:
            each = [theirs / ours for ours, theirs in zip(times[OURS].seconds, timing.seconds,
                                                         strict=True)]
            ratios[name] = median(each), min(each), max(each)
    return Row(cell, part, batch, {n: t.median_s * 1e3 for n, t in times.items()}, ratios,
               WANTED.get((cell, part, batch)), p99_ms)


def rows(device: str, rounds: int, cells: list[str], parts: list[str]) -> Iterator[Row]:
    most = torch.get_num_threads()
    for cell in cells:
        for part in parts:
            make, batches = PARTS[part]
            for batch in batches if part != "step" or cell == "lstm" else ():
                torch.set_num_threads(most)
                sides = make(cell, batch, device)
                times = interleave(sides, Plan(rounds=rounds))
                yield row(cell, part, batch, times, each_call(sides) if part == "stream" else None)


def line(r: Row) -> str:
    times = ", ".join(f"{name} {ms:.3f}" for name, ms in r.ms.items())
    ratios = ", ".join(f"{name} {m:.2f} ({low:.2f} to {high:.2f})"
                       for name, (m, low, high) in r.ratios.items())
    verdict = "" if r.wanted is None else (
        f"; wanted {r.wanted:g}: {'met' if r.best >= r.wanted else 'MISSED'}")
    tail = "" if r.p99_ms is None else "\n    99 % of calls within, ms: " + ", ".join(
        f"{name} {ms:.3f}" for name, ms in r.p99_ms.items())
    return f"{r.cell} {r.part} b{r.batch}: ms {times}\n    ours against {ratios}{verdict}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", help="as for handtorch; the best there is if not named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json", action="store_true", help="print one JSON record only")
    args = parser.parse_args()
    found, since = choose(args.device), moment()
    if not args.json:
        print(found.label)
    made = []
    for r in rows(args.device, args.rounds, args.cells, args.parts):
        made.append(r)
        if not args.json:
            print(line(r), flush=True)
    others = share_of_others(since)
    if args.json:
        print(json.dumps({"device": found.label, "others": others,
                          "rows": [asdict(r) for r in made]}))
    elif others is not None:
        print(f"other programs used {others:.0%} of the machine")


if __name__ == "__main__":
    main()
