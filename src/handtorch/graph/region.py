"""A fused point-wise region as text, and what its instructions give.

`mul(x0,x1);relu(t0)` multiplies the inputs 0 and 1, then applies ReLU. Numbers are written as
OpenCL C literals: `0.5f` is a float, `2` an int."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
LOGIC = ("logical_and", "logical_or", "logical_not", "logical_xor", "isnan", "to_bool")


@dataclass(frozen=True)
class Instruction:
    op: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.op}({','.join(self.arguments)})"


def parse(body: str) -> tuple[Instruction, ...]:
    found = []
    for text in filter(None, body.split(";")):
        op, _, rest = text.partition("(")
        found.append(Instruction(op, tuple(rest.removesuffix(")").split(","))))
    return tuple(found)


def literal(number: float | int | bool, dtype: str) -> str:
    """The number as an argument of an instruction."""
    if dtype == "f32":
        text = repr(float(number))
        special = {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}
        return special.get(text) or (f"({text}f)" if text.startswith("-") else f"{text}f")
    return str(int(number))


def literal_value(argument: str) -> float | int:
    """The number that `literal` wrote."""
    plain = argument.strip("()").removesuffix("f")
    special = {"INFINITY": float("inf"), "-INFINITY": float("-inf"), "NAN": float("nan")}
    if plain in special:
        return special[plain]
    return float(plain) if argument.rstrip(")").endswith("f") else int(plain)


def is_literal(argument: str) -> bool:
    return argument[0] not in "xt"


def result_type(op: str, kinds: Sequence[str]) -> str:
    """The dtype an op gives for arguments of these dtypes; the one rule all rooms share."""
    if op in COMPARISONS or op in LOGIC:
        return "bool"
    if op.endswith(("to_f32", "to_i32")):
        return op[-3:]
    if op == "where":
        return kinds[1]
    return kinds[0]


def result_types(code: Sequence[Instruction], inputs: Sequence[str]) -> list[str]:
    """The dtype of each instruction, given those of the inputs."""
    types: list[str] = []
    for step in code:
        kinds = [_kind(a, inputs, types) for a in step.arguments]
        types.append(result_type(step.op, kinds))
    return types


def _kind(argument: str, inputs: Sequence[str], so_far: Sequence[str]) -> str:
    if is_literal(argument):
        return "f32" if argument.rstrip(")")[-1] in "fYN" else "i32"
    return (inputs if argument[0] == "x" else so_far)[int(argument[1:])]
