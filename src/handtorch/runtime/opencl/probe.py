"""What it costs to hand bytes to a device: copying into a buffer against mapping it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from handtorch.runtime.device import Array
from handtorch.runtime.opencl.context import OpenCLContext


@dataclass(frozen=True)
class Staging:
    """Seconds of each repeat, first call to end of the wait, for `nbytes` from the host.

    copy      `enqueue_copy` from a NumPy array
    map       map for writing, fill through the pointer, unmap
    map_only  map and unmap with nothing written between: what the calls themselves cost"""

    nbytes: int
    copy_s: tuple[float, ...]
    map_s: tuple[float, ...]
    map_only_s: tuple[float, ...]


def staging(on: OpenCLContext, nbytes: int, repeats: int = 9) -> Staging:
    """Each way `repeats` times after one untimed run, alternating, on a host-visible buffer."""
    source = np.arange(nbytes // 4, dtype=np.uint32)
    buffer = on.buffer(source.nbytes, host_visible=True)
    times: dict[str, list[float]] = {"copy": [], "map": [], "map only": []}
    for number in range(repeats + 1):
        for way, kept in times.items():
            start_ns = time.perf_counter_ns()
            if way == "copy":
                on.cl.enqueue_copy(on.queue, buffer, source)
            else:
                _map(on, buffer, source, fill=way == "map")
            on.queue.finish()
            if number:
                kept.append((time.perf_counter_ns() - start_ns) / 1e9)
    back = np.empty_like(source)
    on.cl.enqueue_copy(on.queue, back, buffer)
    buffer.release()
    assert np.array_equal(back, source), "the bytes did not arrive"
    return Staging(source.nbytes, *(tuple(times[way]) for way in ("copy", "map", "map only")))


def _map(on: OpenCLContext, buffer: object, source: Array, *, fill: bool) -> None:
    mode = on.cl.map_flags.WRITE
    mapped, _ = on.cl.enqueue_map_buffer(on.queue, buffer, mode, 0, source.shape, source.dtype)
    if fill:
        np.copyto(mapped, source)
    mapped.base.release(on.queue)
