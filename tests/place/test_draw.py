from __future__ import annotations

import pytest

from handtorch.place.draw import Draw, draw_of
from handtorch.place.sheet import read_sheet

NEXUS = read_sheet("nexus-5")


def test_idle_work_and_bytes_add_up() -> None:
    drawn = Draw(1.0, 2.0, 1e-9, "")
    assert drawn.total_j(3.0, 1e9) == pytest.approx(3 + 6 + 1)
    assert drawn.dynamic_j(3.0, 1e9) == pytest.approx(7)


@pytest.mark.parametrize("kind, busy_w", [("gpu", 2.816), ("cpu", 2 * 1.468)])
def test_what_is_busy_is_the_gpu_or_cores(kind: str, busy_w: float) -> None:
    drawn = draw_of(NEXUS, kind, 2.0)
    assert isinstance(drawn, Draw)
    assert drawn.idle_w == 1.079 and drawn.busy_w == pytest.approx(busy_w)
    assert drawn.how.endswith("memory not counted")


def test_what_is_not_known_is_said() -> None:
    unknown = "no measurement with the screen on was found"
    assert draw_of(read_sheet("nexus-6p"), "gpu", 0.0) == unknown
    assert draw_of(NEXUS, "cpu", "nobody looked") == "nobody looked"
