"""Which cases and sides a task of `handtorch bench` has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from handtorch.bench.case import Case, Task
from handtorch.bench.sides import SIDES, SideKind
from handtorch.errors import BadInput

Bench = Literal["train", "infer", "kernels", "memory", "rnn"]
BENCHES: tuple[Bench, ...] = ("train", "infer", "kernels", "memory", "rnn")
BATCH: dict[str, int] = {"train": 16, "memory": 16, "infer": 1}
QUICK_MODELS = ("SqueezeNet1_1", "Model4")
RNN = "HarLSTM"
SQUARES, QUICK_SQUARES = (128, 256, 512, 1024), (64, 128)
MODEL_4, MODEL_4_BATCH = (784, 256, 128, 16), 32
_ONE_THREAD = "torch-1"             # only where so little is computed that threads are in the way


@dataclass(frozen=True)
class Wanted:
    """`models` are names of the zoo, each with a form after a colon if not the usual one."""

    bench: Bench
    models: tuple[str, ...] = ()
    batch: int | None = None
    quick: bool = False


def cases_of(wanted: Wanted) -> list[Case]:
    """In the order in which they are compared; refuses what there is not."""
    if wanted.batch is not None and wanted.batch < 1:
        raise BadInput(f"--batch {wanted.batch}", why="a batch has one row or more")
    if wanted.bench == "kernels":
        if wanted.models or wanted.batch is not None:
            raise BadInput("a model or a batch for `bench kernels`",
                           why="it multiplies matrices", fix="`handtorch bench kernels`")
        return _products(wanted.quick)
    if wanted.bench == "rnn":
        models = wanted.models or (RNN,)
        kinds: list[tuple[Task, int]] = [("infer", 1), ("infer", 32), ("train", 32)]
        return [_case(task, model, wanted.batch or batch, False)
                for model in models for task, batch in kinds]
    task: Task = "infer" if wanted.bench == "infer" else "train"
    # The quick form of a model is narrow; a model that was asked for is not.
    narrow = wanted.quick and not wanted.models
    batch = wanted.batch or (4 if narrow else BATCH[wanted.bench])
    return [_case(task, model, batch, narrow) for model in wanted.models or QUICK_MODELS]


def _case(task: Task, named: str, batch: int, narrow: bool) -> Case:
    model, _, form = named.partition(":")
    return Case(task, model, batch, form, narrow)


def _products(quick: bool) -> list[Case]:
    """Squares; and of each layer of a perceptron y = x wT, dx = dy w and dw = dyT x, but for the
    first layer's dx, which nobody needs."""
    found = [("nn", (n, n, n)) for n in (QUICK_SQUARES if quick else SQUARES)]
    for k, n in () if quick else pairwise(MODEL_4):
        found.append(("nt", (MODEL_4_BATCH, n, k)))
        if k != MODEL_4[0]:
            found.append(("nn", (MODEL_4_BATCH, k, n)))
        found.append(("tn", (n, k, MODEL_4_BATCH)))
    return [Case("product", "", 1, form, sizes=sizes) for form, sizes in found]


def sides_of(wanted: Wanted, case: Case, asked: Sequence[str]) -> list[SideKind]:
    """Those that were asked for, of those that can do such a case at all; else all of them."""
    can = SIDES[case.task]
    if asked:
        return [kind for name, kind in can.items() if name in asked]
    return [kind for name, kind in can.items() if name != _ONE_THREAD or wanted.bench == "rnn"]


def check_sides(asked: Sequence[str]) -> None:
    known = list(dict.fromkeys(name for kinds in SIDES.values() for name in kinds))
    if unknown := [name for name in asked if name not in known]:
        raise BadInput(f"no side {unknown[0]!r}", why=f"there is {', '.join(known)}",
                       fix="--sides handtorch,torch")
