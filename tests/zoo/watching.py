"""Counts what a step asks of pyopencl, at its own entry points; each call goes on to the driver.
What crosses in shared memory asks nothing of it, and is counted where the staging ring copies.

What should cross is computed from torch's tensors, not from the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from handtorch.graph.node import Value
from handtorch.runtime.opencl.loader import load
from handtorch.runtime.opencl.resident import RING
from handtorch.runtime.opencl.shared import SharedSlot
from handtorch.zoo.entry import Batch, Entry
from tests.zoo.train_like_torch import BATCHES, batches, start

STEPS = 12
WAITS = {"CommandQueue": "finish", "Event": "wait", "NannyEvent": "wait", "UserEvent": "wait"}
NO_BYTES = ("_enqueue_barrier", "_enqueue_barrier_with_wait_list", "_enqueue_marker",
            "_enqueue_marker_with_wait_list", "_enqueue_wait_for_events")


@dataclass
class Seen:
    """What was asked of pyopencl. `others` is all that a step has no need of: copies, fills, new
    buffers, arguments; they count as blocking unless they were told not to be."""

    launches: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    maps: int = 0
    unmaps: int = 0
    shared_in: int = 0
    blocking: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


@contextmanager
def watching() -> Iterator[Seen]:
    """Until the end every call is counted, then made."""
    cl, seen = load(), Seen()
    with pytest.MonkeyPatch.context() as patch:
        def watch(owner: Any, name: str, note: Callable[..., None]) -> None:
            real = getattr(owner, name)

            def noted(*args: Any, **options: Any) -> Any:
                note(*args, **options)
                return real(*args, **options)
            for place in {owner, cl} if owner is cl._cl else {owner}:
                if getattr(place, name, None) is real:      # pyopencl shows most of its core's
                    patch.setattr(place, name, noted)

        for name in [n for n in dir(cl._cl) if n.startswith(("enqueue_", "_enqueue_"))]:
            if name not in NO_BYTES:
                watch(cl._cl, name, _enqueued(cl, seen, name))
        for owner, name in WAITS.items():
            if name in vars(getattr(cl, owner)):
                watch(getattr(cl, owner), name, _into(seen.blocking, f"{owner}.{name}"))
        watch(cl._cl, "wait_for_events", _into(seen.blocking, "wait_for_events"))
        watch(cl._cl, "Buffer", _into(seen.others, "Buffer"))
        watch(cl.Kernel, "set_arg", _into(seen.others, "Kernel.set_arg"))
        watch(cl.MemoryMap, "release", lambda *_: setattr(seen, "unmaps", seen.unmaps + 1))
        watch(SharedSlot, "put", _put(seen))
        yield seen


def _into(names: list[str], name: str) -> Callable[..., None]:
    return lambda *_, **__: names.append(name)


def _put(seen: Seen) -> Callable[..., None]:
    def put(_: Any, value: Value, __: int, ___: Any) -> None:
        seen.shared_in += value.nbytes
    return put


def _enqueued(cl: Any, seen: Seen, name: str) -> Callable[..., None]:
    def launch(*_: Any, **__: Any) -> None:
        seen.launches += 1

    def map_buffer(queue: Any, buffer: Any, flags: int, offset: int, shape: tuple[int, ...],
                   dtype: Any, *, is_blocking: bool = True) -> None:
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        to_device = flags & (cl.map_flags.WRITE | cl.map_flags.WRITE_INVALIDATE_REGION)
        seen.maps += 1
        seen.bytes_in += nbytes if to_device else 0
        seen.bytes_out += nbytes if flags & cl.map_flags.READ else 0
        if is_blocking:
            seen.blocking.append(name)

    def other(*_: Any, is_blocking: bool = True, **__: Any) -> None:
        seen.others.append(name)
        if is_blocking:
            seen.blocking.append(name)

    known = {"enqueue_nd_range_kernel": launch, "enqueue_map_buffer": map_buffer}
    return known.get(name, other)


def crossing(entry: Entry, batch: Batch) -> tuple[int, int]:
    """The bytes of a batch and of the losses torch makes of it; indices travel as 32 bits."""
    model = start(entry)
    given = entry.step(model, entry.optimizers(model))(*batch)
    losses = given.values() if isinstance(given, dict) else (
        given if isinstance(given, tuple) else (given,))
    return (sum(x.numel() * (4 if x.dtype == torch.int64 else x.element_size()) for x in batch),
            sum(x.nbytes for x in losses))


def is_shared(step: Any) -> bool:
    """Whether what crosses lies in memory that both sides see."""
    return isinstance(step.resident._slots[0], SharedSlot)


def wait(given: Any) -> None:
    for loss in given.values() if isinstance(given, dict) else (
            given if isinstance(given, tuple) else (given,)):
        assert np.isfinite(loss.numpy()).all()


def watched(step: Any, data: list[Batch], first: int, count: int) -> tuple[Seen, list[Any]]:
    with watching() as seen:
        given = [step(*data[(first + i) % BATCHES]) for i in range(count)]
    return seen, given


def waits_for_nothing_and_moves_batch_and_loss(step: Any, entry: Entry) -> None:
    """Refuses a step of the model, compiled for an OpenCL device, of which that does not hold."""
    data = batches(entry)
    bytes_in, bytes_out = crossing(entry, data[0])
    launches = len(step.program.steps)
    for batch in data[:3]:
        wait(step(*batch))
    step.resident.finish()

    def check(seen: Seen, count: int) -> None:
        assert seen.others == []
        if is_shared(step):         # nothing to map; losses are read when somebody asks
            assert (seen.maps, seen.shared_in) == (0, count * bytes_in)
        else:
            assert (seen.bytes_in, seen.bytes_out) == (count * bytes_in, count * bytes_out)
        assert (seen.launches, seen.unmaps) == (count * launches, seen.maps)

    # From an idle device: a whole ring of steps without a wait.
    seen, given = watched(step, data, 0, RING)
    check(seen, RING)
    assert seen.blocking == []
    # For good: who reads each loss a ring later never waits inside a step.
    for i in range(STEPS):
        wait(given.pop(0))
        seen, more = watched(step, data, i, 1)
        given += more
        check(seen, 1)
        assert seen.blocking == []
    # Who reads none is held back, once a step at most, when a whole ring is under way.
    before = step.resident.counters.waits_for_slot
    seen, given = watched(step, data, 0, STEPS)
    check(seen, STEPS)
    waits = step.resident.counters.waits_for_slot - before
    assert seen.blocking == ["Event.wait"] * waits
    assert waits <= STEPS
    wait(given[-1])
    print(f"{entry.name:<15} {launches:>5} launches, {bytes_in:,} bytes in, "
          f"{bytes_out} out, no wait; {waits} of {STEPS} held back when none is read")
