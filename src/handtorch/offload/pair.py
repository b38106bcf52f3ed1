"""Two places for the same work, apart from each other, each with a load that can be set.

The CPU place is torch on cores of its own. The device place is ours on an OpenCL device; where that
device is the host's CPU too, the cores are divided between the two, and everything that compares
them says so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from handtorch.errors import BadInput
from handtorch.meters.search import find_all
from handtorch.offload.apart import Apart
from handtorch.offload.har import windows
from handtorch.offload.load_generator import HIGHEST, LoadGenerator
from handtorch.offload.place import Place
from handtorch.offload.silicon import shared
from handtorch.offload.watch import Watch
from handtorch.runtime.opencl.discover import choose

ROWS = 64                       # windows of a call: some 10 ms, long against a busy period
BATCH = 8                       # windows of a launch on the device


@dataclass(frozen=True)
class Pair:
    """`cpu` and `device` give the same scores; `work` says what a call of both is."""

    cpu: Place
    device: Place
    cpu_load: LoadGenerator
    device_load: LoadGenerator
    work: str

    @property
    def places(self) -> tuple[Place, Place]:
        return self.cpu, self.device

    @property
    def silicon(self) -> str:
        return shared(self.cpu, self.device)[1]

    def loaded(self) -> Iterator[tuple[Place, LoadGenerator, Callable[[], object]]]:
        """Each place with its load and its call."""
        x = windows(ROWS)
        for place, load in ((self.cpu, self.cpu_load), (self.device, self.device_load)):
            yield place, load, lambda place=place: place.call(x)  # type: ignore[misc]


def halves() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cores this process may use, in two parts; refuses a machine with a single one."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BadInput("two places on different cores", why=f"this process may use {len(cores)} "
                       "core", fix="a machine with two cores or more, or a GPU")
    return tuple(cores[:len(cores) // 2]), tuple(cores[len(cores) // 2:])


@contextmanager
def har_pair(device: str, *, limit_s: float, highest: float = HIGHEST) -> Iterator[Pair]:
    """The activity-recognition LSTM at both places; all its processes have ended afterwards."""
    spec = choose(device).spec
    shares = spec.kind == "cpu"
    cpu_cores, device_cores = halves() if shares else (tuple(sorted(os.sched_getaffinity(0))), ())
    with ExitStack() as stack:
        cpu = stack.enter_context(Apart("handtorch.offload.har:torch_har",
                                        {"threads": len(cpu_cores)}, cores=cpu_cores))
        ours = stack.enter_context(Apart("handtorch.offload.har:device_har",
                                         {"batch": BATCH, "device": device},
                                         cores=device_cores or None))
        cpu_load = stack.enter_context(LoadGenerator(cores=cpu_cores, limit_s=limit_s,
                                                     highest=highest))
        device_load = stack.enter_context(
            LoadGenerator(cores=device_cores, limit_s=limit_s, highest=highest, seed=100) if shares
            else LoadGenerator(device=device, limit_s=limit_s, highest=highest, seed=100))
        cpu.ready()
        ours.ready()
        watch = stack.enter_context(Watch())
        at_cpu = Place("cpu", cpu, watch.cores(cpu_cores, cpu.used_s), cpu_cores)
        at_device = Place("device", ours, cores=device_cores)
        at_device = replace(at_device, load=watch.cores(device_cores, ours.used_s) if shares
                            else watch.gpu(find_all().sensors))
        yield Pair(at_cpu, at_device, cpu_load, device_load,
                   f"{ROWS} windows of the activity-recognition LSTM, 2 x 32; cpu: torch, "
                   f"{len(cpu_cores)} thread; device: {choose(device).label}, batches of {BATCH}")
