from __future__ import annotations

import pytest

from handtorch.meters.signal import Signal
from handtorch.profile.energy.model import Attribution
from handtorch.profile.energy.rails import tree


def rail(name: str, joules: float | None, parent: str = "") -> Attribution:
    signal = Signal("ina3221", f"{name}_w", "instant", "machine", 10_000_000,
                    parent=f"{parent}_w" if parent else "")
    return Attribution(signal, "", "", joules, None, None, None, 0, 0, (), ())


def test_a_parent_and_its_children_are_never_added() -> None:
    found = tree([rail("gpu", 30.0, "in"), rail("in", 100.0), rail("cpu", 50.0, "in"),
                  rail("ddr", 10.0, "cpu")])
    assert [(one.quantity, one.depth, one.children_j, one.rest_j) for one in found.rails] == [
        ("in_w", 0, 80.0, 20.0), ("gpu_w", 1, None, None), ("cpu_w", 1, 10.0, 40.0),
        ("ddr_w", 2, None, None)]
    assert found.total_j == 100.0 and found.total_mwh == pytest.approx(27.7778, rel=1e-4)
    assert found.warnings == ()


def test_without_a_total_siblings_are_added() -> None:
    found = tree([rail("gpu", 30.0, "in"), rail("cpu", 50.0, "in")])
    assert (found.total_j, [one.depth for one in found.rails]) == (80.0, [0, 0])


def test_children_that_exceed_their_parent_are_said() -> None:
    found = tree([rail("in", 100.0), rail("gpu", 60.0, "in"), rail("cpu", 50.0, "in")])
    assert found.warnings == (
        "in_w: its parts (gpu_w, cpu_w) took 110 J, more than its own 100 J",)
    assert tree([rail("in", 100.0), rail("gpu", 102.0, "in")]).warnings == ()


def test_an_unknown_rail_is_not_zero() -> None:
    found = tree([rail("gpu", None), rail("cpu", 50.0)])
    assert (found.total_j, found.reason) == (None, "unknown: gpu_w")
    assert tree([]).reason == "no rails"
    half = tree([rail("in", 100.0), rail("gpu", None, "in"), rail("cpu", 50.0, "in")])
    assert half.rails[0].children_j is None and half.total_j == 100.0
