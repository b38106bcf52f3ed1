"""A model behind a real server, asked for scores."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.cloud.asking import Asking
from handtorch.errors import HandTorchError
from handtorch.store.sample import SAMPLE
from tests.cloud.serving import digits, serving


def test_scores_are_the_models_and_a_refusal_is_an_error() -> None:
    pytest.importorskip("uvicorn")
    with serving("--model", SAMPLE, "--device", "ref") as running:
        asking = Asking(running.url, SAMPLE)
        x = digits(3)
        assert asking.row_shape == x.shape[1:]
        whole = asking.scores(x)
        assert whole.shape[0] == 3 and np.isfinite(whole).all()
        np.testing.assert_allclose(asking.scores(x[1:2]), whole[1:2], rtol=1e-5)
        with pytest.raises(HandTorchError, match="the server refused"):
            asking.scores(x[:, :1])
        asking.close()
        assert asking.scores(x).shape == whole.shape        # connected anew
        asking.close()
