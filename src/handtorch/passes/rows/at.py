"""At: one node in both steps, as the rules see it; and the rules' registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isclose

from handtorch.graph.node import Node, Value
from handtorch.passes.rows.relation import Mixed, Power, Relation, Rows, Same, Total, one_axis

_MOST_POWER = 2


@dataclass(frozen=True)
class Even:
    """A mean over the labels that count: exact if each part has equally many of them."""

    labels: Value
    ignore: int
    node: Node


@dataclass(frozen=True)
class At:
    """`large` has `rows` rows, `small` few of them; `inputs` is what is known of theirs."""

    large: Node
    small: Node
    inputs: tuple[Relation, ...]
    rows: int
    few: int
    even: list[Even] = field(default_factory=list)

    def plain(self, *indices: int) -> list[Same | Rows]:
        """These inputs, none of which is a sum over the batch."""
        found = [self.inputs[i] for i in (indices or range(len(self.inputs)))]
        if any(not isinstance(r, Same | Rows) for r in found):
            raise Mixed("it is not linear in a sum over the batch")
        return [r for r in found if isinstance(r, Same | Rows)]

    def powers(self, *indices: int) -> list[Power]:
        return [r.power for r in self.plain(*indices)]

    def on_axis(self, *indices: int) -> Rows | None:
        """The one axis on which these inputs, all of one rank, have the rows; None: on none."""
        rows = [r for r in self.plain(*indices) if isinstance(r, Rows)]
        return one_axis(rows) if rows else None

    def exact(self, *indices: int) -> None:
        """These inputs are no multiples: the op is not linear in them."""
        for power in self.powers(*indices):
            if power not in (0, None):
                raise Mixed("it is not linear in a number that depends on the number of rows")

    def ratio(self, name: str, default: float = 1.0) -> int:
        """The power of k by which this number of the small node is larger."""
        return self.power_of(self.large.number(name, default), self.small.number(name, default))

    def power_of(self, large: float, small: float) -> int:
        if large == small:
            return 0
        for power in range(-_MOST_POWER, _MOST_POWER + 1):
            if isclose(small, large * (self.rows / self.few) ** power, rel_tol=1e-9):
                return power
        raise Mixed(f"the number {large:g} in it depends on the number of rows, and is neither "
                    "a multiple nor a part of it")


Rule = Callable[[At], Relation | tuple[Relation, ...]]
RULES: dict[str, tuple[Rule, tuple[str, ...]]] = {}


def rule(*ops: str, differs: tuple[str, ...] = ()) -> Callable[[Rule], Rule]:
    """Registers what an op gives, as one relation for all outputs or one for each. Attributes but
    those that it `differs` in have been found to be the same for any number of rows."""
    def register(fn: Rule) -> Rule:
        RULES.update({op: (fn, differs) for op in ops})
        return fn
    return register


def with_power(rows: Rows | None, power: Power) -> Rows | Same:
    """On that axis, or the same for all rows if there is none."""
    if rows is None:
        return Same(power)
    return Rows(rows.axis, rows.outer, rows.inner, power, rows.free)


def total(power: Power) -> Total:
    return Total(power or 0)
