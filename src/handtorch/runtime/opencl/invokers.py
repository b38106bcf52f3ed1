"""pyopencl writes and compiles Python code for each kernel object, to call it with; we never do.

That takes about a millisecond, and longer with each one there is: its search for a free name goes
over all before it. A recurrent net as the study `rnn` launches it has thousands of objects of a
few kernels; they share the code of the first."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from typing import Any

_MAKER = "generate_enqueue_and_set_args"


def share_invokers() -> None:
    """From now on one piece of code serves all objects of a kernel with as many arguments; an
    older pyopencl, which makes it elsewhere, stays as it is."""
    try:
        invoker: Any = importlib.import_module("pyopencl.invoker")
    except ModuleNotFoundError:
        return
    if callable(make := getattr(invoker, _MAKER, None)) and not hasattr(make, "shared"):
        setattr(invoker, _MAKER, _shared(make))


def _shared(make: Callable[..., Any]) -> Callable[..., Any]:
    made: dict[tuple[Any, ...], Any] = {}

    def generate(*args: Any, **named: Any) -> Any:
        given = (*args, *named, *named.values())
        key = tuple(tuple(a) if isinstance(a, list) else a for a in given)
        if not all(isinstance(part, Hashable) for part in key):
            return make(*args, **named)
        if key not in made:
            made[key] = make(*args, **named)
        return made[key]
    generate.shared = made                  # type: ignore[attr-defined]
    return generate
