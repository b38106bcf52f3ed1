"""In the steady state a step waits for nothing, and only the batch and the losses cross: that the
count of it, which test_training.py makes for every model, sees what it should; and flat memory."""

from __future__ import annotations

import os

import numpy as np
import pytest

from handtorch.pipeline import compile_graph
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.zoo.registry import MODELS
from tests.runtime.opencl.mlp import four_kernels
from tests.zoo.train_like_torch import BATCHES, batches, compiled, start
from tests.zoo.watching import watching


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
        assert (seen.launches, seen.bytes_in + seen.shared_in) == (4, 6 * 7 * 4 + 6 * 4)
        assert (seen.bytes_out or 4) == 4 and (seen.maps, seen.shared_in).count(0) == 1
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
    """350 KB in 3,000 steps is 116 bytes a step: less than one kept loss, ticket or event. What
    is kept grows in each third; a driver's thread that begins late takes its memory once."""
    entry = MODELS[name]
    data = batches(entry)
    step = compiled(entry, start(entry), opencl_device.label, data[0])
    for i in range(1_000):
        step(*data[i % BATCHES])
    grown = []
    for _ in range(3):
        before = resident_bytes()
        for i in range(3_000):
            step(*data[i % BATCHES])
        grown.append(resident_bytes() - before)
    step.close()
    print(f"{name} {opencl_device.short}: {grown} bytes in each 3,000 steps from the 1,000th on")
    assert min(grown) < 350_000
