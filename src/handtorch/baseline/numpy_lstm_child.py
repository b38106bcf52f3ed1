"""The child of `OneThread`: talks pickles with our own parent through pipes, never with a file."""

from __future__ import annotations

import sys

from handtorch.baseline.numpy_lstm import serve

if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
