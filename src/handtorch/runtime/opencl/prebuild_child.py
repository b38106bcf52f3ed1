"""The child of `prebuild`: takes its part on standard input, leaves the result in the cache, or
gives the driver's binary on its standard output."""

from __future__ import annotations

import os
import pickle
import sys

from handtorch.kernels.render import render
from handtorch.runtime.lifetime import end_with_parent
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.prebuild import compile_part

if __name__ == "__main__":
    end_with_parent()
    # Whatever a driver prints goes elsewhere: the output is the binary and nothing else.
    out = os.dup(1)
    os.dup2(2, 1)
    # From our own parent through a pipe, never from a file.
    label, steps, plan, binaries = pickle.load(sys.stdin.buffer)
    context = OpenCLContext(choose(label))
    if binaries:
        with os.fdopen(out, "wb") as pipe:
            pipe.write(context.binary(render(steps)))
    else:
        compile_part(context, steps, plan)
