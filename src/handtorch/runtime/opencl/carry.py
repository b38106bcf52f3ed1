"""Compiled programs on their way into a `.ht` file and out of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from handtorch.program import Program
from handtorch.runtime.device import Executor
from handtorch.runtime.opencl.build import OPTIONS
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.prebuild import binaries_of
from handtorch.store.programs import Built, others_of, usable, vouched


def programs_for(executor: Executor, given: Iterable[Built], *, trust: bool) -> dict[str, bytes]:
    """What of a file's programs may be run here (`store/programs.py`), by its source's SHA-256;
    nothing on what is no OpenCL device."""
    if not isinstance(executor, OpenCLContext):
        return {}
    return usable(executor.spec, OPTIONS, given, trust=trust)


def programs_of(executor: Executor, programs: Sequence[Program], held: Iterable[Built]
                ) -> tuple[Built, ...]:
    """All of `programs` as this device has them compiled, and of `held` what other devices had."""
    if not isinstance(executor, OpenCLContext):
        return tuple(held)
    binaries: dict[str, bytes] = {}
    for program in programs:
        binaries |= binaries_of(executor, program.all_steps, program.plan)
    return (*others_of(executor.spec, OPTIONS, held),
            *vouched(executor.spec, OPTIONS, binaries))
