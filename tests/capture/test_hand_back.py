"""What a step cannot be synced to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput
from tests.capture.user_steps import said

LIKE_IT = "  try: sync to the model the step was made from, or one built like it"
HERE = "  from test_hand_back.py  step.sync_to(other)\n"


def tied() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


@pytest.mark.parametrize(("other", "message"), [
    (nn.Linear(3, 3), "0.weight of shape [3, 3]: the model has nothing of that name\n"
                      f"{HERE}{LIKE_IT}"),
    (nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3)),
     f"0.weight of shape [3, 3]: the model has [3, 2]\n{HERE}{LIKE_IT}"),
    (nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)),          # not tied: what would it become?
     f"the model has 1.weight: the step has nothing of 1 of its names\n{HERE}{LIKE_IT}"),
    (tied().to("meta"), f"0.weight of the model is on meta: it has no memory to copy into\n{HERE}"
                        "  try: model.to_empty(device='cpu') before"),
    (None, f"sync_to a NoneType: weights go into a module\n{HERE}{LIKE_IT}"),
    (tied().state_dict(), f"sync_to a OrderedDict: weights go into a module\n{HERE}{LIKE_IT}"),
], ids=["names", "shapes", "more", "meta", "none", "state dict"])
def test_another_model(other: Any, message: str) -> None:
    model = tied()
    step = ht.train_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), 0.1),
                         example=(torch.zeros(2, 3), torch.zeros(2, 3)), device="ref")
    with pytest.raises(BadInput) as e:
        step.sync_to(other)
    assert said(e) == message
    step.sync_to(tied())
