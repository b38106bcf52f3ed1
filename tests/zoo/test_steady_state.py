"""In the steady state a step waits for nothing, and only the batch and the losses cross.

Counted where it happens: at pyopencl's own entry points, every call of which still reaches the
driver. What should cross is computed from torch's tensors, not from the plan."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from handtorch.pipeline import compile_graph
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.runtime.opencl.loader import load
from handtorch.runtime.opencl.resident import RING
from handtorch.zoo.entry import Batch, Entry
from handtorch.zoo.registry import MODELS
from tests.runtime.opencl.mlp import four_kernels
from tests.zoo.train_like_torch import BATCHES, batches, compiled, start

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
        yield seen


def _into(names: list[str], name: str) -> Callable[..., None]:
    return lambda *_, **__: names.append(name)


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


def wait(given: Any) -> None:
    for loss in given.values() if isinstance(given, dict) else (
            given if isinstance(given, tuple) else (given,)):
        assert np.isfinite(loss.numpy()).all()


def watched(step: Any, data: list[Batch], first: int, count: int) -> tuple[Seen, list[Any]]:
    with watching() as seen:
        given = [step(*data[(first + i) % BATCHES]) for i in range(count)]
    return seen, given


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_step_waits_for_nothing_and_moves_batch_and_loss(opencl_device: FoundDevice, name: str
                                                           ) -> None:
    entry = MODELS[name]
    data = batches(entry)
    bytes_in, bytes_out = crossing(entry, data[0])
    step = compiled(entry, start(entry), opencl_device.label, data[0])
    launches = len(step.program.steps)
    for batch in data[:3]:
        wait(step(*batch))
    step.resident.finish()

    def check(seen: Seen, count: int) -> None:
        assert seen.others == []
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
    step.close()
    print(f"{name:<15} {opencl_device.short:<6} {launches:>5} launches, {bytes_in:,} bytes in, "
          f"{bytes_out} out, no wait; {waits} of {STEPS} held back when none is read")


def test_the_watch_sees_what_it_should(opencl_device: FoundDevice) -> None:
    """Else the test above would pass whatever a step did."""
    on, m = OpenCLExecutor(opencl_device), four_kernels(300)
    resident = on.load(compile_graph(m.graph, on.spec), m.states)
    with watching() as seen:
        resident.read_state("w")
        assert seen.blocking == seen.others == ["_enqueue_read_buffer"]
        resident.write_state("w", m.states["w"])
        resident.write_state("rate", m.states["rate"])
        assert seen.others[1:] == ["_enqueue_write_buffer", "_enqueue_fill_buffer"]
        ticket = resident.submit(m.batch(0))
        assert (seen.launches, seen.bytes_in, seen.bytes_out) == (4, 6 * 7 * 4 + 6 * 4, 4)
        seen.blocking.clear()
        ticket.result()
        resident.finish()
        assert seen.blocking == ["Event.wait", "CommandQueue.finish"]
        on.cl.enqueue_map_buffer(on.queue, on.buffer(8), on.cl.map_flags.READ, 0, (8,), np.uint8)
        assert seen.blocking[2:] == ["enqueue_map_buffer"] and seen.others[3:] == ["Buffer"]
    with watching() as seen:
        resident.read_state("w")
    resident.read_state("w")
    assert len(seen.others) == 1                    # and looks away afterwards
    resident.close()


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Model1", "DQN"])
def test_memory_is_flat_over_ten_thousand_steps(opencl_device: FoundDevice, name: str) -> None:
    """1 MiB in 9,000 steps is 116 bytes a step: less than one kept loss, ticket or event."""
    entry = MODELS[name]
    data = batches(entry)
    step = compiled(entry, start(entry), opencl_device.label, data[0])
    for i in range(1_000):
        step(*data[i % BATCHES])
    after_1000 = resident_bytes()
    for i in range(9_000):
        step(*data[i % BATCHES])
    grown = resident_bytes() - after_1000
    step.close()
    print(f"{name} {opencl_device.short}: {grown:+,} bytes from step 1,000 to 10,000")
    assert grown < 1 << 20
