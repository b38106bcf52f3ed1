"""Products come back equal; nothing but the classes named is made."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from types import MappingProxyType

import pytest

from handtorch.graph.node import Node, Value, Where
from handtorch.store.products import product_from_json, product_to_json


@dataclass(frozen=True)
class Pair:
    first: object
    second: object = None


def test_products_come_back_equal() -> None:
    value = Value(3, (2, 5))
    node = Node("softmax", (value,), (Value(4, (2, 5)),), {"axis": -1, "sizes": (1, (2, 3))},
                Where("net.py", 7, "softmax(x)"), "head", "forward")
    again = product_from_json(product_to_json((node, value)), (Node, Value, Where))
    assert again == (node, value) and type(again[0].attrs) is MappingProxyType


@pytest.mark.parametrize("x", [0, -1, 2**63, True, None, "", "()", "{}", "é\n", 0.1, 1e-300,
                               math.inf, (), ((),), {}, {1: {2: "a"}}, {("a", 1): (None,)}])
def test_plain_values_keep_their_types(x: object) -> None:
    again = product_from_json(product_to_json(Pair(x)), (Pair,))
    assert again == Pair(x) and type(again.first) is type(x)


@pytest.mark.parametrize("text", [
    '["Popen", "ls"]', '["Value", 1]', '["{}", 1]', '["{}", ["{}"], 1]', "[]", "[[]]", "{", "",
    "[" * 100_000, '["Pair", ["os.system", "ls"]]'])
def test_what_is_none_of_the_classes_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        product_from_json(text, (Value, Pair))


def test_what_cannot_come_back_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="a list cannot be kept"):
        product_to_json([1])
    assert json.loads(product_to_json(Pair(1))) == ["Pair", 1, None]
