from __future__ import annotations

import numpy as np
import pytest

from handtorch.profile.energy.attribute import attribute
from handtorch.profile.energy.groups import GroupEnergy, mwh, rolled_up
from handtorch.profile.energy.model import Attribution, OpEnergy
from tests.profile.energy.small_world import MS, read, signal, world


def by_hand(errors: list[list[float]]) -> Attribution:
    means = np.array([4.0, 6.0, 10.0])
    ops = tuple(OpEnergy(name, 1, 1.0, 1, mean, 0.0, 9.0, None)
                for name, mean in zip(("conv.f", "conv.b", "fc.f"), means, strict=True))
    return Attribution(signal("instant"), "", "", 20.0, 0.0, 0.0, None, 0, 0, (), ops,
                       means_j=means, errors_j2=np.array(errors), freedom=1e9)


def test_errors_that_cancel_in_a_sum_do_so_in_its_interval() -> None:
    found = by_hand([[1.0, -1.0, 0], [-1.0, 1.0, 0], [0, 0, 1.0]])
    conv, fc = rolled_up(found, lambda name: name.split(".")[0])
    assert (conv.name, conv.ops, conv.total_j, conv.low_j, conv.high_j) == ("conv", 2, 10, 10, 10)
    assert fc.low_j == pytest.approx(10 - 1.96, abs=1e-3)
    forward, back = rolled_up(found, lambda name: name.split(".")[1])
    assert forward.total_j == 14 and forward.high_j == pytest.approx(14 + 1.96 * 2**0.5, abs=1e-3)
    assert back.ops == 1


def test_a_group_that_is_too_uncertain_is_refused() -> None:
    found = by_hand([[9.0, 0, 0], [0, 9.0, 0], [0, 0, 1.0]])
    assert rolled_up(found, lambda name: name)[0] == GroupEnergy(
        "conv.f", 1, None, pytest.approx(4 - 5.88, abs=1e-3), pytest.approx(4 + 5.88, abs=1e-3),
        "not enough data: +-147 %")


def test_what_cannot_be_told_apart_is_known_together() -> None:
    """A window of 60 ms over operations of some ms: the step is known better than its parts."""
    made = world(3, 60)
    found = attribute(made.spans, read(made, "window", 60 * MS, 0.05))
    (whole,) = rolled_up(found, lambda name: "all")
    assert whole.total_j is not None and whole.low_j is not None and whole.high_j is not None
    assert whole.total_j == pytest.approx(made.truth.sum(), rel=0.02)
    alone = [(op.high_j - op.low_j) for op in found.ops
             if op.high_j is not None and op.low_j is not None]
    assert whole.high_j - whole.low_j < max(alone)


def test_milliwatt_hours() -> None:
    assert mwh(3.6) == pytest.approx(1.0) and mwh(None) is None
