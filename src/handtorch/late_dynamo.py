"""torch's compiler is loaded when something is compiled, not when an optimizer is made.

torch 2.13 wraps the methods of its optimizers so that `torch.compile` leaves them alone, and loads
its whole compiler to say so (`torch._dynamo`, with sympy: 808 modules, 71 MB, a second) when the
first optimizer is made. While it is not loaded nothing is being compiled, and there is nothing
to be said. A process that trains on a device never needs it: the trace that does runs in a copy
(`capture/apart.py`). torch's own `optimizer.step()` loads it still."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

_OPTIMIZERS, _COMPILER = "torch.optim.optimizer", "torch._dynamo"
_KEPT = "__dynamo_disable"          # where torch looks for what it has made of a function before


def postpone() -> None:
    """Whenever torch is imported, now or later; another torch than we know stays as it is."""
    if _OPTIMIZERS in sys.modules:
        _change(sys.modules[_OPTIMIZERS])
    elif not any(isinstance(finder, _Watching) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watching())


class _Watching(MetaPathFinder):
    """Finds nothing by itself; goes when torch's optimizers have come."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
                  ) -> ModuleSpec | None:
        if name != _OPTIMIZERS or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            _change(module)
        setattr(spec.loader, "exec_module", executed)  # noqa: B010, of this one spec
        return spec


def _change(module: ModuleType) -> None:
    for method in vars(getattr(module, "Optimizer", object)).values():
        own = getattr(method, "__wrapped__", None)
        if (isinstance(method, FunctionType) and isinstance(own, FunctionType)
                and method.__code__.co_qualname == "_disable_dynamo.<locals>.inner"
                and not hasattr(own, _KEPT)):
            setattr(own, _KEPT, _until_loaded(method, own))


def _until_loaded(wrapped: FunctionType, own: FunctionType) -> Any:
    def run(*args: Any, **options: Any) -> Any:
        if _COMPILER not in sys.modules:
            return own(*args, **options)
        if vars(own).get(_KEPT) is run:
            vars(own).pop(_KEPT, None)      # as torch does it now; another thread may be first
        return wrapped(*args, **options)
    return run
