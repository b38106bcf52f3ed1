"""What a step keeps in Python from one call to the next. The device would never see it change."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from handtorch.capture.lines import line_at
from handtorch.capture.slots import Named
from handtorch.errors import CannotCapture

_OF_TORCH = frozenset(vars(torch.nn.Module()))        # `training`, hooks, parameters and so on


@contextmanager
def only_tensors_change(models: Named) -> Iterator[None]:
    """Refuses a step that counts in a module's attribute, keeps a tensor there or draws Python's
    random numbers: each would be for ever as it was when captured.

    The modules have their own attributes back in any case. What else Python can hold, a list or a
    global, is not looked at."""
    modules = {id(m): (".".join(x for x in (prefix, path) if x), m)
               for prefix, model in models for path, m in model.named_modules()}
    before = {key: dict(vars(m)) for key, (_, m) in modules.items()}
    drawn = _random_states()
    found: list[CannotCapture] = []
    try:
        yield
    finally:
        for key, (path, module) in modules.items():
            for name in _changed(before[key], vars(module)):
                found.append(_refused(path, module, name, before[key].get(name)))
                if name in before[key]:
                    vars(module)[name] = before[key][name]
                else:
                    del vars(module)[name]
    if found:
        raise found[0]
    for kind, old, new in zip(("Python's", "NumPy's"), drawn, _random_states(), strict=True):
        if old != new:
            raise CannotCapture(f"{kind} random numbers in the step",
                                why="they were drawn once, when it was captured; every call would "
                                    "use the same",
                                fix="torch.rand, which the device draws anew in each step, or draw "
                                    "outside and give them as an input")


def _random_states() -> tuple[Any, Any]:
    kind, keys, *rest = np.random.get_state(legacy=True)
    return random.getstate(), (kind, np.asarray(keys).tobytes(), *rest)


def _changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [name for name, new in now.items()
            if name not in _OF_TORCH and new is not before.get(name)
            and (isinstance(new, torch.Tensor) or (_counts(new) and _counts(before.get(name))
                                                   and new != before[name]))]


def _counts(x: Any) -> bool:
    return isinstance(x, int | float)


def _refused(path: str, module: torch.nn.Module, name: str, old: Any) -> CannotCapture:
    new = vars(module)[name]
    shown = f"a tensor of shape {list(new.shape)}" if isinstance(new, torch.Tensor) else repr(new)
    owner = type(module).__name__ + (f" {path}" if path else "")
    return CannotCapture(f"attribute {name!r} of {owner} changes in the step",
                         why=f"from {old!r} to {shown}, once, when the step was captured",
                         where=_line_of_write(module, name),
                         fix="register_buffer and write with copy_() or add_() what the next step "
                             "needs; return from the step what you want to look at")


def _line_of_write(module: torch.nn.Module, name: str) -> str:
    """The line of `forward` that writes the attribute, as far as its text tells; else its first."""
    code = inspect.unwrap(type(module).forward).__code__
    lines, first = inspect.getsourcelines(code)
    written = re.compile(rf"\.{re.escape(name)}\s*([-+*/]|//|\*\*)?=[^=]")
    at = next((i for i, text in enumerate(lines) if written.search(text)), 0)
    return str(line_at(code.co_filename, first + at))
