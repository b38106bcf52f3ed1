"""OpenCLExecutor: the `opencl` executor of the protocol in `runtime/device.py`."""

from __future__ import annotations

from collections.abc import Mapping

from handtorch.program import Program
from handtorch.runtime.device import Array
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.resident import OpenCLResident


class OpenCLExecutor(OpenCLContext):
    rows_alike = True       # a product with packed weights adds up in order, in tiles of any height

    def load(self, program: Program, states: Mapping[str, Array]) -> OpenCLResident:
        """`program` on this device, compiled, with `states` in place, ready to run."""
        return OpenCLResident(self, program, states)
