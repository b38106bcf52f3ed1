"""Parts of a batch: their results put together, and an interrupt between two of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from handtorch.graph.device_spec import GENERIC
from handtorch.passes.accumulate import Join, micro_batched
from handtorch.pipeline import compile_graph
from handtorch.runtime.host import RefExecutor
from handtorch.runtime.micro import MicroSession, joined
from tests.passes.test_accumulate import regression


def test_sums_rows_and_what_the_last_part_knows() -> None:
    parts = [np.array([1.0, 2.0], "f4"), np.array([3.0, 6.0], "f4")]
    assert joined(Join("sum", scale=0.5), parts).tolist() == [2.0, 4.0]
    assert joined(Join("last"), parts).tolist() == [3.0, 6.0]
    assert joined(Join("last", scale=2.0), parts).tolist() == [6.0, 12.0]
    assert joined(Join("rows"), parts).tolist() == [1.0, 2.0, 3.0, 6.0]
    counts = [np.array(2, "i4"), np.array(3, "i4")]
    whole = joined(Join("sum"), counts)
    assert (whole.dtype, int(whole)) == (np.dtype("i4"), 5)


def test_rows_that_are_not_outermost_are_put_where_they_belong() -> None:
    whole = np.arange(24).reshape(2, 12)            # axis 1 is (outer 2, row 3, inner 2)
    split = whole.reshape(2, 2, 3, 2)
    parts = [split[:, :, i:i + 1].reshape(2, 4) for i in range(3)]
    assert (joined(Join("rows", axis=1, outer=2), parts) == whole).all()


def session() -> Any:
    made = micro_batched(regression(8, 3, 2, True), regression(2, 3, 2, True), 4)
    states = {"w": np.ones((3, 2), "f4"), "v": np.zeros((3, 2), "f4"),
              "lr": np.array([0.1], "f4")}
    return MicroSession(RefExecutor(), compile_graph(made.graph, GENERIC), states, made)


def test_an_interrupt_between_two_parts_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("f4")
    whole, torn = session(), session()
    submit = torn.resident.submit

    def interrupted(batch: Any, **how: Any) -> Any:
        submit(batch, **how)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(torn.resident, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            torn.run([x])
    assert torn.resident.read_state("gradient.w").any()
    whole.run([x])
    torn.run([x])
    assert (torn.resident.read_state("w") == whole.resident.read_state("w")).all()
    assert not torn.resident.read_state("gradient.w").any()
