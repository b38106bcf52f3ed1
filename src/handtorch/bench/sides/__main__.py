"""A side's process: `python -m handtorch.bench.sides TASK NAME`."""

from __future__ import annotations

import importlib
import sys
from typing import cast

from handtorch.bench.case import Asked, Task
from handtorch.bench.side import Make, serve
from handtorch.bench.sides import SIDES


def _engine(asked: Asked, task: str, name: str) -> Make:
    """The side's file, and with it its library; what takes more than an import is in `ready`."""
    module = importlib.import_module(SIDES[cast(Task, task)][name].module)
    if (ready := getattr(module, "ready", None)) is not None:
        ready(asked)
    return cast(Make, module.make)


if __name__ == "__main__":
    serve(lambda asked: _engine(asked, *sys.argv[1:]))
