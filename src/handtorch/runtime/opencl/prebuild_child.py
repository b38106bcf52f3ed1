"""The child of `prebuild`: takes its part on standard input, leaves the result in the cache."""

from __future__ import annotations

import pickle
import sys

from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.prebuild import compile_part

if __name__ == "__main__":
    # From our own parent through a pipe, never from a file.
    label, steps, plan = pickle.load(sys.stdin.buffer)
    compile_part(OpenCLContext(choose(label)), steps, plan)
