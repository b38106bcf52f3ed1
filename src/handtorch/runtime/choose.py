"""A device's name -> its executor."""

from __future__ import annotations

from functools import cache

from handtorch import knobs
from handtorch.runtime.device import Executor
from handtorch.runtime.host import NullExecutor, RefExecutor
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor


def open_executor(request: str | None = None) -> Executor:
    """`ref`, `null`, or an OpenCL device as `choose` finds it; none named: the best there is.

    The same device gives the same executor, so that programs share its context."""
    name = request or knobs.value("HANDTORCH_DEVICE")
    if name in ("ref", "null"):
        return RefExecutor() if name == "ref" else NullExecutor()
    return _opened(choose(name or None).label)


@cache
def _opened(label: str) -> OpenCLExecutor:
    return OpenCLExecutor(choose(label))
