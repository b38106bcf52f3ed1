from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.place.published.papers import answers
from handtorch.place.published.row import paper_rows

ROWS = {r.id: r for r in paper_rows()}


@pytest.mark.parametrize("name, value", [
    ("guo.power.idle", 1079), ("guo.size.alexnet", 60_965_224 * 4 / 2**20),
    ("mobirnn.parameters.32", 17158), ("opencl.gemm.8-pro", 40 * 1228 / 727),
    ("guo.rescale.caffe", 76.16)])
def test_by_hand(name: str, value: float) -> None:
    assert answers(ROWS)[name] == pytest.approx(value, rel=1e-6)


def test_no_answer_depends_on_a_held_out_value() -> None:
    spoilt = {k: replace(r, value=r.value * 7) if r.tag != "calibration" else r
              for k, r in ROWS.items()}
    assert answers(spoilt) == answers(ROWS)


def test_the_row_that_calibrates_is_met() -> None:
    """NIN with Caffe, asked for as if it were held out."""
    asked = ROWS | {"guo.caffe.others": replace(ROWS["guo.caffe.others"], network="nin")}
    assert answers(asked)["guo.caffe.others"] == pytest.approx(ROWS["guo.caffe.nin"].value)
