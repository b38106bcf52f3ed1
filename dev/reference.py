"""docs/reference.md from the docstrings of everything that a user calls or holds.

    python3 -m dev reference            write it
    python3 -m dev reference --check    exit 1 where it is not up to date"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dev.environment import ROOT

PAGE = ROOT / "docs" / "reference.md"
# What the examples have before they begin; the tests run this, then each example by itself.
SHARED = '''\
import numpy as np
import torch
import handtorch as ht


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
        self.head = torch.nn.Linear(3, 2)

    def forward(self, readings):
        return self.head(self.lstm(readings)[0])


def on_cpu(rows):
    with torch.inference_mode():
        return model(torch.as_tensor(rows)).numpy()


model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
recurrent = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = torch.nn.functional.cross_entropy
x, y = torch.ones(8, 4), torch.zeros(8, dtype=torch.long)

step = ht.train_step(model, loss_fn, optimizer, example=(x, y))
infer = ht.inference(model, example=(x,))
stream = ht.stream(recurrent, example=(torch.ones(1, 2, 4),))
halves = [ht.Place("cpu", on_cpu), ht.Place("device", lambda rows: infer.over(rows)[0])]
offload = ht.offload(halves)
with ht.profile(step, sensors=False) as run:
    loss = step(x, y)
'''
# What a user calls: the name, and where the function or class behind it is.
CALLED = {
    "train_step": "api.make:train_step", "inference": "api.make:inference",
    "stream": "api.make:stream", "load": "api.load:load",
    "read_checkpoint": "api.checkpoint:read_checkpoint", "profile": "profile.profile:profile",
    "place": "place.ask:place", "offload": "offload.offload:Offload",
    "split": "offload.split:split", "Place": "offload.place:Place",
    "Target": "place.decide:Target", "Limits": "api.limits:Limits", "lend": "runtime.lent:lend",
    "DeviceSpec": "graph.device_spec:DeviceSpec", "HandTorchError": "errors:HandTorchError",
}
# What a user is given: by whom, and its class.
GIVEN = {
    "TrainStep": ("what `train_step` and `load` give", "api.step:TrainStep"),
    "Inference": ("what `inference`, `load` and `step.inference()` give",
                  "api.inference:Inference"),
    "Stream": ("what `stream` gives", "api.stream:Stream"),
    "Loss": ("what a step gives", "api.loss:Loss"),
    "Fitted": ("`step.fitted`, where a budget was named", "api.budget:Fitted"),
    "Profile": ("what `profile(step)` gives", "profile.profile:Profile"),
    "TorchProfile": ("what `profile(function)` gives", "profile.torch_side:TorchProfile"),
    "Split": ("what `split` gives", "offload.split:Split"),
    "offload.Decision": ("`offload.last`", "offload.place:Decision"),
    "place.Decision": ("what `place` gives", "place.decide:Decision"),
}


@dataclass(frozen=True)
class Entry:
    """One thing to tell of: its heading, how it is called, its docstring in two parts."""

    heading: str
    call: str
    text: str
    example: str
    depth: int


def entries() -> Iterator[Entry]:
    """Everything, in the page's order; what has no docstring has empty texts."""
    for name, home in CALLED.items():
        yield from _entries(f"ht.{name}", "", _found(home), called=True)
    for name, (whose, home) in GIVEN.items():
        yield from _entries(name, whose, _found(home), called=False)


def _found(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(f"handtorch.{module}"), name)


def _entries(name: str, whose: str, found: Any, *, called: bool) -> Iterator[Entry]:
    short = name.removeprefix("ht.")
    call = f"ht.{short}{_signature(found)}" if called else ""
    yield _entry(f"{name}" + (f": {whose}" if whose else ""), call, found, 3)
    if inspect.isclass(found):
        for member, what in _members(found):
            label = "call" if member == "__call__" else member
            shape = "" if isinstance(what, property) else _signature(
                getattr(found, member), own=not isinstance(what, classmethod))
            called_as = f".{member}{shape}" if member != "__call__" else shape
            yield _entry(f"{short}.{label}", called_as, what, 4)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties of ours, those of its own class in the order of its file."""
    fields = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    seen = set(fields)
    for owner in cls.__mro__:
        if not owner.__module__.startswith("handtorch."):
            continue
        for name, what in vars(owner).items():
            kind = inspect.isfunction(what) or isinstance(what, property | classmethod)
            if kind and name not in seen and (name == "__call__" or not name.startswith("_")):
                seen.add(name)
                yield name, what


def _entry(heading: str, call: str, found: Any, depth: int) -> Entry:
    # A dataclass without a docstring is given its signature for one.
    text = inspect.cleandoc(found.__doc__ or "")
    before, mark, after = text.partition(">>> ")
    return Entry(heading, call, before.strip(), f"{mark}{after}".strip(), depth)


def _signature(found: Any, own: bool = False) -> str:
    """As it is written, without `self`; a default that is an object of its own is `...`."""
    told = inspect.signature(found)
    given = [p for p in told.parameters.values() if not (own and p.name == "self")]
    parts: list[str] = []
    star = False
    for p in given:
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        parts.append(_parameter(p))
    result = _annotation(told.return_annotation)
    line = f"({', '.join(parts)})"
    if len(line) > 70:
        line = "(\n    " + ",\n    ".join(parts) + ",\n)"
    return f"{line} -> {result}" if result and inspect.isroutine(found) else line


def _parameter(p: inspect.Parameter) -> str:
    mark = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
    kind = _annotation(p.annotation)
    text = f"{mark}{p.name}: {kind}" if kind else f"{mark}{p.name}"
    if p.default is p.empty:
        return text
    default = "..." if "<" in repr(p.default) or "(" in repr(p.default)[1:] else repr(p.default)
    return f"{text} = {default}" if kind else f"{text}={default}"


def _annotation(given: Any) -> str:
    return "" if given is inspect.Parameter.empty else str(given)


def page() -> str:
    parts = ["# Reference\n",
             "Made by `python3 -m dev reference` from the docstrings; a test fails where this page "
             "is not up to date,\nand runs each example. They begin with these names, on a machine "
             "whose thermometer says 41 degrees:\n",
             f"```python notest\n{SHARED}```\n"]
    for title, given in (("What you call", "ht."), ("What you are given", "")):
        chosen = [e for e in entries() if _top(e).startswith("ht.") == bool(given)]
        parts.append(f"## {title}\n")
        parts += [_told(e) for e in chosen]
    return "\n".join(parts)


def _top(entry: Entry) -> str:
    """`ht.` for what is called and its members."""
    first = re.split(r"[.:]", entry.heading)[0]
    return "ht." if first == "ht" or first in CALLED else first


def _told(entry: Entry) -> str:
    title, _, whose = entry.heading.partition(": ")
    lines = [f"{'#' * entry.depth} {title}\n"]
    if whose:
        lines.append(f"*{whose}*\n")
    if entry.call:
        lines.append(f"```python notest\n{entry.call}\n```\n")
    lines.append(f"{entry.text}\n")
    if entry.example:
        lines.append(f"```pycon\n{entry.example}\n```\n")
    return "\n".join(lines)


def main(words: list[str], path: Path = PAGE) -> int:
    made = page()
    if words == ["--check"]:
        same = path.exists() and path.read_text() == made
        print(f"{path.name} is up to date" if same else
              f"{path.name} is not what the docstrings say\n  try: python3 -m dev reference")
        return 0 if same else 1
    path.write_text(made)
    print(f"{path.name}: {len(list(entries()))} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
