"""What the convolutions do to a result before it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from handtorch.graph.node import Value


@dataclass(frozen=True)
class Epilogue:
    """What is done to a result before it is stored, in this order: + `bias` of each channel, +
    `more`, ReLU, 0 where `mask` is not above 0."""

    bias: Value | None = None
    more: Value | None = None
    relu: bool = False
    mask: Value | None = None

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple(v for v in (self.bias, self.more, self.mask) if v is not None)

    def macros(self) -> dict[str, int]:
        given = {"BIAS": self.bias, "MORE": self.more, "MASK": self.mask}
        return {**{name: int(v is not None) for name, v in given.items()}, "ACT": int(self.relu)}


NOTHING = Epilogue()
