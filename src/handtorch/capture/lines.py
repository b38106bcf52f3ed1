"""The user's own source line for every traced operation, also in backward.

A backward operation belongs to the line whose forward made it: autograd numbers its nodes, and the
number of the node a forward operation makes is known when it has run."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from functools import cache
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import TorchDispatchMode

from handtorch.graph.node import Where

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parents[1])
_PYTHON = str(Path(linecache.__file__).parent) + "/"


class Origin:
    """Where an operation comes from: line, layer (module path), phase."""

    def __init__(self, where: Where | None, layer: str, phase: str) -> None:
        self.where, self.layer, self.phase = where, layer, phase


class Lines(TorchDispatchMode):
    """While entered, every new fx node gets `meta["origin"]`."""

    def __init__(self, layer: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._layer = layer
        self._by_number: dict[int, Origin] = {}
        self.phase = "forward"
        self.numbers: list[Where | None] = []     # where a tensor became a Python number

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        grad_node = torch._C._current_autograd_node()     # set while backward runs
        number = torch._C._autograd._get_sequence_nr()
        if grad_node is None:
            origin = Origin(user_line(), self._layer(), self.phase)
        else:
            made_by = self._by_number.get(grad_node._sequence_nr())
            # Gradients are added up by nodes that no operation made: there, the line of backward().
            origin = Origin(made_by.where if made_by else user_line(),
                            made_by.layer if made_by else "", "backward")
        mode = get_proxy_mode()
        nodes = mode.tracer.graph.nodes if mode is not None else ()
        last = next(iter(reversed(nodes)), None) if nodes else None
        if func is torch.ops.aten._local_scalar_dense.default:
            self.numbers.append(user_line())
        out = func(*args, **(kwargs or {}))
        if grad_node is None:
            # The autograd node exists before the dispatch reaches us: it has the number before.
            # An operation that makes none finds that number taken and leaves it alone.
            self._by_number.setdefault(number - 1, origin)
        for node in takewhile(lambda n: n is not last, reversed(nodes) if nodes else ()):
            node.meta["origin"] = origin
        return out


def user_line() -> Where | None:
    """The line of the innermost running frame that is neither torch's nor ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame):
            return line_at(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def user_line_of(error: BaseException) -> Where | None:
    """The same for an error that was caught: the last of the user's frames on its way."""
    found, step = None, error.__traceback__
    while step is not None:
        if is_users(step.tb_frame):
            found = line_at(step.tb_frame.f_code.co_filename, step.tb_lineno)
        step = step.tb_next
    return found


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs neither torch's code nor Python's nor ours."""
    return _is_users_file(frame.f_code.co_filename)


@cache                          # a dozen frames are looked at for each operation
def _is_users_file(file: str) -> bool:
    if file.startswith(_PYTHON):            # the standard library, but not what is installed in it
        return "-packages/" in file and not file.startswith((_TORCH, _OURS))
    return not file.startswith((_TORCH, _OURS, "<"))


def line_at(file: str, line: int) -> Where:
    """The line as errors show it."""
    return Where(Path(file).name, line, linecache.getline(file, line).strip())
