"""`step.epoch`: the plain loop's losses, bit for bit, from rows gathered where the device reads."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput, DeviceError
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

SIZE, ROWS = 8, 37                              # four whole batches, and five rows over
_numbers = np.random.default_rng(5)
X = _numbers.normal(size=(ROWS, 12)).astype("f4")
Y = _numbers.integers(0, 5, ROWS)               # int64, as PyTorch's labels are
EVERYWHERE = pytest.mark.parametrize("device", ["ref", "opencl"])
SHUFFLED = pytest.mark.parametrize("seed", [None, 0, 7])


def place(device: str, opencl_device: Any) -> str:
    return device if device == "ref" else str(opencl_device.label)


def made(device: str, x: Any = X[:SIZE], y: Any = Y[:SIZE]
         ) -> tuple[Any, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    return ht.train_step(model, nn.CrossEntropyLoss(), optimizer, example=(x, y),
                         device=device), optimizer


def batches(seed: int | None, x: Any = X, y: Any = Y) -> Iterator[tuple[Any, Any]]:
    """What a user writes by hand."""
    order = np.arange(ROWS) if seed is None else np.random.default_rng(seed).permutation(ROWS)
    for at in range(0, ROWS - SIZE + 1, SIZE):
        rows = order[at:at + SIZE]
        yield x[rows], y[rows]


@functools.cache
def by_hand(device: str, *seeds: int | None) -> list[float]:
    step, _ = made(device)
    return [float(loss) for loss in [step(*b) for seed in seeds for b in batches(seed)]]


@EVERYWHERE
@SHUFFLED
def test_the_losses_are_those_of_the_plain_loop(opencl_device: Any, device: str, seed: int | None
                                                ) -> None:
    at = place(device, opencl_device)
    step, _ = made(at)
    losses = [*step.epoch(X, Y, seed=seed), *step.epoch(X, Y, seed=seed)]
    assert [float(x) for x in losses] == by_hand(at, seed, seed)
    assert step.resident.counters.steps == len(losses) == 8


LAID = {
    "tensors": (torch.from_numpy(X), torch.from_numpy(Y)),
    "asks for gradients": (torch.from_numpy(X).requires_grad_(), Y),
    "int32 labels": (X, Y.astype("i4")),
    "columns": (np.asfortranarray(X), np.repeat(Y, 2)[::2]),
    "other bytes": (X.astype(">f4"), Y.astype(">i8")),
    "unaligned": (np.frombuffer(b"-" + X.tobytes(), "u1")[1:].view("f4").reshape(X.shape), Y),
    "lists": (X, Y.tolist()),
}


@pytest.mark.parametrize("arrays", LAID.values(), ids=LAID)
@pytest.mark.parametrize("seed", [None, 7])
def test_however_the_arrays_lie(opencl_device: Any, arrays: tuple[Any, Any], seed: int | None
                                ) -> None:
    step, _ = made(opencl_device.label)
    assert [float(x) for x in step.epoch(*arrays, seed=seed)] == by_hand(opencl_device.label, seed)


@EVERYWHERE
def test_nothing_but_batch_and_loss_crosses(opencl_device: Any, device: str) -> None:
    step, _ = made(place(device, opencl_device))
    counters = step.resident.counters
    for seed in (None, 1):
        before = counters.bytes_in, counters.bytes_out, counters.launches, counters.blocking_calls
        for _ in step.epoch(X, Y, seed=seed):
            pass
        after = counters.bytes_in, counters.bytes_out, counters.launches, counters.blocking_calls
        assert [b - a for a, b in zip(before, after, strict=True)] == [
            4 * SIZE * (12 * 4 + 4), 4 * 4, 4 * len(step.program.steps), 0]


def test_rows_are_gathered_where_the_device_reads(opencl_device: Any,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures and labels that are int32 already; int64 labels must be converted on the way."""
    step, _ = made(opencl_device.label)
    resident, submit, seen = step.resident, step.resident.submit, []

    def watched(batch: Any, **settings: Any) -> Any:
        seen.append([np.shares_memory(a, b) for a, b in zip(batch, resident.stage(), strict=True)])
        return submit(batch, **settings)

    monkeypatch.setattr(resident, "submit", watched)
    list(step.epoch(X, Y.astype("i4"), seed=0))
    list(step.epoch(X, Y, seed=0))
    assert seen == [[True, True]] * 4 + [[True, False]] * 4


@pytest.mark.parametrize(("order", "batches_held"), [("C", 0.5), ("F", 1.5)])
def test_a_batch_takes_no_memory_of_its_own(opencl_device: Any, order: Any, batches_held: float
                                            ) -> None:
    """Half a batch is for the labels. Of columns one batch is made, never the whole anew."""
    x, y = np.zeros((5 * 4096, 12), "f4", order=order), np.zeros(5 * 4096, "i8")
    step, _ = made(opencl_device.label, x[:4096], y[:4096])
    epoch = step.epoch(x, y, seed=0)
    next(epoch)
    tracemalloc.start()
    try:
        next(epoch)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < batches_held * x[:4096].nbytes


def test_rows_in_order_are_handed_over_as_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the copy into the ring is the only one."""
    step, _ = made("null")
    submit, seen = step.resident.submit, []

    def watched(batch: Any, **settings: Any) -> Any:
        seen.append([np.shares_memory(a, b) for a, b in zip(batch, (X, Y), strict=True)])
        return submit(batch, **settings)

    monkeypatch.setattr(step.resident, "submit", watched)
    list(step.epoch(X, Y))
    assert seen == [[True, True]] * 4


def echo(device: str, rows: int = SIZE) -> Any:
    """A step that gives back what it was given, as whole numbers."""
    model = nn.Linear(1, 1)

    def fn(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"rows": x * 1, "nothing": model(x).sum() * 0}

    return ht.train_step(fn, models=[model], optimizers=[], example=(torch.zeros(rows, 1),),
                         device=device)


@EVERYWHERE
def test_each_row_at_most_once_and_in_the_order_of_the_seed(opencl_device: Any, device: str
                                                            ) -> None:
    """Forty batches through a ring of three; what is given keeps the form the step has."""
    step = echo(place(device, opencl_device), rows=3)
    x = np.arange(121, dtype="f4")[:, None]
    orders = []
    for seed in (None, 0, 1, 1):
        given = list(step.epoch(x, seed=seed))
        assert [list(g) for g in given] == [["rows", "nothing"]] * 40
        orders.append(np.concatenate([g["rows"].numpy() for g in given]).ravel().tolist())
        assert len(set(orders[-1])) == 120
    assert orders[0] == list(range(120))
    assert orders[1] == np.random.default_rng(0).permutation(121)[:120].tolist()
    assert orders[1] != orders[2] == orders[3]


def test_as_many_rows_as_a_batch_are_one_step() -> None:
    step = echo("ref")
    assert len(list(step.epoch(np.zeros((SIZE, 1), "f4"), seed=0))) == 1
    assert len(list(step.epoch(np.zeros((2 * SIZE - 1, 1), "f4"), seed=0))) == 1


@EVERYWHERE
@SHUFFLED
def test_who_stops_early_has_done_the_steps_that_were_asked_for(
        opencl_device: Any, device: str, seed: int | None) -> None:
    at = place(device, opencl_device)
    (step, _), (plain, _) = made(at), made(at)
    losses = []
    for loss in step.epoch(X, Y, seed=seed):
        losses.append(loss)
        if len(losses) == 2:
            break
    losses += [step(X[:SIZE], Y[:SIZE]), *step.epoch(X, Y, seed=seed)]
    expected = [plain(*b) for b in
                (*[*batches(seed)][:2], (X[:SIZE], Y[:SIZE]), *batches(seed))]
    assert [float(a) for a in losses] == [float(b) for b in expected]
    assert step.resident.counters.steps == 7


@EVERYWHERE
@SHUFFLED
def test_other_steps_may_come_in_between(opencl_device: Any, device: str, seed: int | None
                                         ) -> None:
    """Plain ones, staged ones, and a second epoch; all are read at the end, out of the ring."""
    at = place(device, opencl_device)
    (step, _), (plain, _) = made(at), made(at)
    losses, expected = [], []
    for one, two in zip(step.epoch(X, Y, seed=seed), step.epoch(X, Y, seed=9), strict=True):
        losses += [one, two, step(X[:SIZE], Y[:SIZE])]
        x, y = step.stage()
        x[:], y[:] = X[-SIZE:], Y[-SIZE:]
        losses.append(step(x, y))
    for one, two in zip(batches(seed), batches(9), strict=True):
        expected += [plain(*one), plain(*two), plain(X[:SIZE], Y[:SIZE]),
                     plain(X[-SIZE:], Y[-SIZE:])]
    assert [float(a) for a in losses] == [float(b) for b in expected]


def test_a_learning_rate_changed_in_between_counts(opencl_device: Any) -> None:
    runs = []
    for whole in (True, False):
        step, optimizer = made(opencl_device.label)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        losses = []
        for loss in step.epoch(X, Y, seed=2) if whole else (step(*b) for b in batches(2)):
            losses.append(loss)
            schedule.step()
        runs.append([float(loss) for loss in losses])
    assert runs[0] == runs[1]
    assert runs[0][2:] != by_hand(opencl_device.label, 2)[2:]


def test_a_step_refused_in_between_tells_the_line_and_loses_nothing(opencl_device: Any) -> None:
    step, optimizer = made(opencl_device.label)
    epoch = step.epoch(X, Y, seed=0)
    losses = [next(epoch)]
    optimizer.param_groups[0]["lr"] = float("nan")
    with pytest.raises(BadInput) as e:
        next(epoch)
    assert said(e) == ("SGD.param_groups[0]['lr'] is now nan: a learning rate is a finite number\n"
                       "  from test_epoch.py  next(epoch)\n"
                       "  try: look at what changes it, a scheduler or your own code")
    optimizer.param_groups[0]["lr"] = 0.1
    losses += epoch
    assert [float(a) for a in losses] == by_hand(opencl_device.label, 0)


@EVERYWHERE
def test_labels_spoilt_in_between_are_refused(opencl_device: Any, device: str) -> None:
    """What was right at the call is looked at again when its turn comes."""
    step, _ = made(place(device, opencl_device))
    for labels in (Y.copy(), Y.astype("i4")):
        epoch = step.epoch(X, labels, seed=0)
        next(epoch)
        labels[:] = 5
        with pytest.raises(BadInput) as e:
            next(epoch)
        assert said(e).startswith("input y holds 5: the classes in test_epoch.py are 0 to 4")


def test_a_closed_step_runs_no_epoch(opencl_device: Any) -> None:
    step, _ = made(opencl_device.label)
    epoch = step.epoch(X, Y, seed=0)
    next(epoch)
    step.close()
    with pytest.raises(DeviceError) as e:
        next(epoch)
    assert said(e) == ("this program was closed\n  from test_epoch.py  next(epoch)\n"
                       "  try: make the step again")


MADE_FOR = "the step was made for float32[8, 12]\n{}  try: "
SHAPE = "batches like the example (drop_last=True in a DataLoader), or another step for this shape"
REFUSED: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "count": ((X,), None,
              "the step takes 2 inputs: 1 were given\n{}  try: step.epoch(x, y, seed=0)"),
    "seed by place": ((X, Y, 0), None, "the step takes 2 inputs: 3 were given\n{}"
                                       "  try: step.epoch(x, y, seed=0)"),
    "row shape": ((X[:, :11], Y), 0, f"input x is float32[8, 11]: {MADE_FOR}{SHAPE}"),
    "rows of numbers": ((X[:, 0], Y), 0, f"input x is float32[8]: {MADE_FOR}{SHAPE}"),
    "one number": ((np.float32(1), Y), 0, f"input x is float32[]: {MADE_FOR}{SHAPE}"),
    "lengths": ((X, Y[:30]), 0, "input x has 37 rows, input y has 30 rows: a batch is the same "
                                "rows of each\n{}  try: arrays of the same length"),
    "few": ((X[:7], Y[:7]), 0, "an epoch over 7 rows: a batch of this step has 8\n{}"
                               "  try: more rows, or a step made with an example of at most 7"),
    "none": ((X[:0], Y[:0]), None, "an epoch over 0 rows: a batch of this step has 8\n{}"
                                   "  try: arrays that are not empty"),
    "double": ((X.astype("f8"), Y), 0,
               f"input x is float64[8, 12]: {MADE_FOR}x.float(), or astype('float32')"),
    "bfloat16": ((torch.from_numpy(X).bfloat16(), Y), 0,
                 "input x: Got unsupported ScalarType BFloat16\n{}"
                 "  try: a CPU tensor or an array, float32[8, 12]"),
    "another device": ((torch.empty(ROWS, 12, device="meta"), Y), 0,
                       "input x: can't convert meta device type tensor to numpy. Use Tensor.cpu() "
                       "to copy the tensor to host memory first.\n{}"
                       "  try: a CPU tensor or an array, float32[8, 12]"),
    "labels": ((X, Y.astype("f4")), 0, "input y is float32[8]: the step was made for int32 or "
                                       "int64[8]\n{}  try: x.long(), or astype('int64')"),
    "no array": ((None, Y), 0, f"input x is a NoneType: {MADE_FOR}give a tensor or an array"),
    "a late class": ((X, np.where(np.arange(ROWS) == ROWS - 2, 5, Y)), 0,
                     "input y holds 5: the classes in test_epoch.py are 0 to 4, and -100 is "
                     "left out\n{}  try: look at the labels or indices of this batch, or at the "
                     "size of the layer"),
    "a vast class": ((X, Y + 2**40 * (np.arange(ROWS) == 0)), 0,
                     f"input y holds {2**40 + Y[0]}: the classes in test_epoch.py are 0 to 4, "
                     "and -100 is left out\n{}  try: look at the labels or indices of this batch, "
                     "or at the size of the layer"),
    "seed": ((X, Y), -1, "seed -1: a seed is a whole number from 0 to 2^64 - 1\n{}"),
    "a seed like one": ((X, Y), True, "seed True: a seed is a whole number from 0 to 2^64 - 1\n{}"),
}


@pytest.mark.parametrize(("arrays", "seed", "message"), REFUSED.values(), ids=REFUSED)
def test_arrays_that_do_not_fit_are_refused_by_the_call(arrays: tuple[Any, ...], seed: Any,
                                                        message: str) -> None:
    """Before anything runs: the step goes on as if nothing had been said."""
    step, _ = made("ref")
    first = float(step(X[:SIZE], Y[:SIZE]))
    with pytest.raises(BadInput) as e:
        step.epoch(*arrays, seed=seed)
    from_line = "  from test_epoch.py  step.epoch(*arrays, seed=seed)\n"
    assert said(e) == message.format(from_line).rstrip("\n")
    assert step.resident.counters.steps == 1
    plain, _ = made("ref")
    assert [first, float(step(X[:SIZE], Y[:SIZE]))] == [
        float(plain(X[:SIZE], Y[:SIZE])) for _ in range(2)]


NUMBER = torch.tensor(0.5)
UNCUT: dict[str, tuple[tuple[torch.Tensor, ...], str, str]] = {
    "nothing": ((), "none", ""),
    "number": ((torch.ones(4, 2), NUMBER), "x0 [4, 2], x1 []", "x0, x1"),
    "time first": ((torch.ones(3, 4, 2), torch.ones(4)), "x0 [3, 4, 2], x1 [4]", "x0, x1"),
    "numbers": ((NUMBER, NUMBER), "x0 [], x1 []", "x0, x1"),
}


@pytest.mark.parametrize(("example", "names", "call"), UNCUT.values(), ids=UNCUT)
def test_a_step_without_one_batch_axis_has_no_epoch(example: tuple[torch.Tensor, ...], names: str,
                                                    call: str) -> None:
    model = nn.Linear(2, 1)

    def fn(*batch: torch.Tensor) -> Any:
        return model(torch.ones(1, 2)).sum() + sum(part.sum() for part in batch)

    step = ht.train_step(fn, models=[model], optimizers=[], example=example, device="null")
    with pytest.raises(BadInput) as e:
        step.epoch(*example)
    assert said(e) == (
        f"an epoch of a step whose inputs are {names}: batches are cut along the first axis, "
        "which must be there and of one length in all inputs\n"
        "  from test_epoch.py  step.epoch(*example)\n"
        f"  try: make the batches yourself: step({call})")


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_an_epoch_from_a_batch_on(seed: int | None, start: int) -> None:
    step, _ = made("ref")
    for batch in list(batches(seed))[:start]:
        step(*batch)
    rest = [float(x) for x in step.epoch(X, Y, seed=seed, start=start)]
    assert rest == by_hand("ref", seed)[start:]


@pytest.mark.parametrize("start", [-1, 5, 1.0, True, None])
def test_a_start_outside_the_epoch_is_refused(start: Any) -> None:
    step, _ = made("null")
    with pytest.raises(BadInput) as e:
        step.epoch(X, Y, start=start)
    assert said(e) == (f"an epoch from batch {start!r} on: it has 4 of them\n"
                       "  from test_epoch.py  step.epoch(X, Y, start=start)\n"
                       "  try: how many batches of this epoch are done already, 0 for none")
