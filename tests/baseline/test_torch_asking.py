"""What asking costs: more for operations that take more, and nothing is run to find out."""

from __future__ import annotations

import pytest
import torch

from handtorch.baseline.torch_asking import Asking

ATEN = torch.ops.aten


@pytest.mark.timed
def test_operations_with_more_arguments_take_longer_to_ask() -> None:
    asking, x, c = Asking(), torch.ones(1, 2, 2, 2), torch.ones(2)
    many = ATEN.native_batch_norm_backward.default
    args = (x, x, c, c, c, c, c, True, 1e-5, [True, True, True])
    for _ in range(400):
        asking.probe(many, args, {})
        asking.probe(ATEN.relu_.default, (x,), {})
    assert asking.by_op_ns == {}
    asking.learn()
    assert asking.spent_ns(many) > asking.spent_ns(ATEN.relu_.default)
    assert asking.spent_ns(many) > asking.usual_ns


def test_a_probe_runs_nothing() -> None:
    asking, x = Asking(), torch.full((3,), -1.0, requires_grad=True)
    y = x * 1
    for _ in range(8):
        asking.probe(ATEN.add_.Tensor, (y, y), {"alpha": 2})
        asking.probe(ATEN.split.Tensor, (y, 2), {})
        asking.probe(ATEN._foreach_zero_.default, ([y],), {})
        asking.probe(ATEN.is_same_size.default, (y, y), {})      # no tensor comes back: not asked
    assert y.tolist() == [-1.0] * 3 and y._version == 0
    assert (y * 2).tolist() == [-2.0] * 3                        # and the key is gone again


def test_few_calls_have_what_is_usual() -> None:
    asking = Asking()
    asking.probe(ATEN.neg.default, (torch.ones(1),), {})
    asking.learn()
    assert asking.by_op_ns == {} and asking.spent_ns(ATEN.neg.default) == asking.usual_ns > 0
