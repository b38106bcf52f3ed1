"""Where an operation of torch comes from: its layer, its phase and the user's line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import _engine_run_backward
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from handtorch.capture.lines import is_users

_ENGINE: CodeType = _engine_run_backward.__code__
_ZOO = str(Path(__file__).parents[1] / "zoo")   # its models stand for the user's own


class Origin(NamedTuple):
    """Where an operation comes from; the line as (file, number)."""

    layer: str
    phase: str
    line: tuple[str, int] | None

    @property
    def backward(self) -> Origin:
        """The same for the gradient of what was made here."""
        return self._replace(phase="backward")


class Origins:
    """Knows where the operation comes from that is just being called, while `follow` is on.

    A gradient comes from where autograd's node was made: autograd numbers its nodes."""

    def __init__(self) -> None:
        self._layers, self._optimizing = _Layers(), 0
        self._made_by: dict[int, Origin] = {}
        self._user: dict[CodeType, bool] = {}

    @contextmanager
    def follow(self) -> Iterator[None]:
        self._made_by.clear()
        with self._layers.follow(), self._follow_optimizers():
            yield

    def made(self, first: int, last: int, origin: Origin) -> None:
        """Autograd's nodes from `first` to before `last` are of `origin`."""
        for number in range(first, last):
            self._made_by[number] = origin

    def current(self, depth: int) -> Origin:
        """Of the operation that the frame `depth` above the caller of this has called."""
        node = torch._C._current_autograd_node()
        if node is not None and (made := self._made_by.get(node._sequence_nr())) is not None:
            return made.backward
        line, in_backward = self._line(sys._getframe(depth + 1))
        in_backward = in_backward or node is not None
        phase = "backward" if in_backward else "optimizer" if self._optimizing else "forward"
        return Origin(self._layers.innermost, phase, line)

    def _line(self, frame: FrameType | None) -> tuple[tuple[str, int] | None, bool]:
        """The innermost line that is the user's, and whether autograd's engine runs below it."""
        in_backward = False
        while frame is not None:
            code = frame.f_code
            in_backward = in_backward or code is _ENGINE
            if (users := self._user.get(code)) is None:
                users = self._user[code] = is_users(frame) or code.co_filename.startswith(_ZOO)
            if users:
                return (code.co_filename, frame.f_lineno), in_backward
            frame = frame.f_back
        return None, in_backward

    @contextmanager
    def _follow_optimizers(self) -> Iterator[None]:
        def begin(*_: Any) -> None:
            self._optimizing += 1

        def end(*_: Any) -> None:
            self._optimizing -= 1
        hooks = (torch_optimizer.register_optimizer_step_pre_hook(begin),
                 torch_optimizer.register_optimizer_step_post_hook(end))
        try:
            yield
        finally:
            self._optimizing = 0
            for hook in hooks:
                hook.remove()


class _Layers:
    """The path of the module that runs, in the outermost module that was called."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._paths: dict[torch.nn.Module, str] = {}

    @property
    def innermost(self) -> str:
        return self._stack[-1] if self._stack else ""

    @contextmanager
    def follow(self) -> Iterator[None]:
        hooks = (torch_module.register_module_forward_pre_hook(self._enter),
                 torch_module.register_module_forward_hook(self._leave, always_call=True))
        try:
            yield
        finally:
            self._stack.clear()
            for hook in hooks:
                hook.remove()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if module not in self._paths:           # an outermost one brings the names of its parts
            inside = f"{self.innermost}." if self._stack else ""
            self._paths |= {m: inside + path for path, m in module.named_modules()}
        self._stack.append(self._paths[module])

    def _leave(self, *_: Any) -> None:
        self._stack.pop()
