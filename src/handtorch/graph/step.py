"""Step: one future launch. Lowering makes them, the plan places what they touch."""

from __future__ import annotations

from dataclasses import dataclass

from handtorch.graph.node import Value

Define = tuple[str, int | str]
Scalar = tuple[str, int | float]          # OpenCL C type, number


@dataclass(frozen=True)
class Operand:
    """A tensor argument: on the device a (pointer, element offset) pair."""

    value: Value
    access: str                            # "r", "w" or "rw"

    @property
    def reads(self) -> bool:
        return "r" in self.access

    @property
    def writes(self) -> bool:
        return "w" in self.access


@dataclass(frozen=True)
class Step:
    """One kernel launch: which kernel, built how, on what, in which geometry.

    The kernel's arguments are a (pointer, offset) pair for each operand, then the scalars."""

    kernel: str
    operands: tuple[Operand, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    defines: tuple[Define, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    node: int = 0                          # index of the Node it came from
    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Alias:
    """`new` lives where `old` lives: a view of it, or its in-place successor."""

    new: Value
    old: Value


@dataclass(frozen=True)
class Lowered:
    """What lowering gives for one node or for a whole graph.

    `once` run before the first of `steps`, and again only when a state was written from outside:
    what they make lasts."""

    steps: tuple[Step, ...]
    aliases: tuple[Alias, ...] = ()
    once: tuple[Step, ...] = ()

    @property
    def all_steps(self) -> tuple[Step, ...]:
        return (*self.once, *self.steps)
