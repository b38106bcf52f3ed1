"""Kernel instances -> one OpenCL C source text, the same for the same instances.

Each instance is its `.cl` file with its macros set before it and all macros undone after it, under
a name of its own, and with `#line`, so that a compiler's message names the kernel's file and line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from handtorch.graph.step import Define, Step
from handtorch.kernels.catalog import KERNELS

_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


@cache
def shared_text(name: str) -> str:
    """The text of a `.cl` or `.h` file of this room."""
    return (files("handtorch.kernels") / name).read_text()


def instance_name(kernel: str, defines: tuple[Define, ...]) -> str:
    """The function's name in a program: readable start, then a hash of the macros."""
    text = ";".join(f"{k}={v}" for k, v in defines)
    return f"{kernel}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def step_instance(step: Step) -> str:
    return instance_name(step.kernel, step.defines)


def instance_text(kernel: str, defines: tuple[Define, ...]) -> str:
    spec = KERNELS[kernel]
    body = spec.text(dict(defines)) if spec.text else shared_text(f"{kernel}.cl")
    name = instance_name(kernel, defines)
    before = [f"#define {kernel} {name}"]
    # A generated text has its macros worked in already; a file takes them from here.
    before += [] if spec.text else [f"#define {k} {v}" for k, v in defines]
    macros = [kernel, *(k for k, _ in defines if not spec.text), *_DEFINED.findall(body)]
    after = [f"#undef {m}" for m in dict.fromkeys(macros)]
    return "\n".join([*before, f'#line 1 "{kernel}.cl"', body.rstrip(), *after, ""])


def render(steps: Iterable[Step]) -> str:
    """One source with every distinct kernel instance of `steps`, ordered by name."""
    instances = sorted({(s.kernel, s.defines) for s in steps}, key=lambda i: instance_name(*i))
    return "\n".join([shared_text("unroll.h"), *(instance_text(*i) for i in instances)])


def split(steps: Iterable[Step], parts: int) -> list[tuple[Step, ...]]:
    """The steps in at most `parts` groups that share no kernel instance, about equally many
    instances each, so that each group can be compiled by itself."""
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(step_instance(step), []).append(step)
    names = sorted(groups)
    return [tuple(s for name in names[i::parts] for s in groups[name])
            for i in range(min(parts, len(names)))]
