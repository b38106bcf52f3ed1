"""What all sides of a case are given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from handtorch.bench.case import EXPECTED, LAYERS, Asked, Case, read_calls
from handtorch.bench.prepare import prepare


@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
def test_a_product_is_handed_over_as_it_lies(tmp_path: Path, form: str) -> None:
    asked = Asked(Case("product", "", 1, form, sizes=(3, 4, 5)), tmp_path, "", 1)
    prepare(asked)
    ((a, b),) = asked.batches()
    turned = [x.T if flag == "t" else x for x, flag in zip((a, b), form, strict=True)]
    assert [x.shape for x in turned] == [(3, 5), (5, 4)]
    expected = read_calls(tmp_path / EXPECTED)
    assert len(expected) == 3
    np.testing.assert_allclose(expected[0][0], turned[0] @ turned[1], rtol=1e-5, atol=1e-6)


def test_a_model_comes_with_weights_batches_losses_and_its_layers(tmp_path: Path) -> None:
    asked = Asked(Case("train", "SqueezeNet1_1", 2, small=True), tmp_path, "", 1)
    prepare(asked)
    assert "classifier.1.weight" in asked.weights()
    batches = asked.batches()
    assert len(batches) == 4 and batches[0][0].shape == (2, 3, 32, 32)
    assert not np.array_equal(batches[0][0], batches[1][0])
    losses = [float(loss) for (loss,) in read_calls(tmp_path / EXPECTED)]
    assert len(losses) == 3 and all(1 < loss < 4 for loss in losses)      # ln 10 is 2.3
    told = json.loads((tmp_path / LAYERS).read_text())
    assert told["optimizer"]["kind"] == "SGD" and told["loss"] == "cross_entropy"
    assert (tmp_path / "train.ht").exists()


def test_what_is_no_list_of_layers_says_why(tmp_path: Path) -> None:
    asked = Asked(Case("infer", "HarLSTM", 2), tmp_path, "", 1)
    prepare(asked)
    told = json.loads((tmp_path / LAYERS).read_text())
    assert told == {"why": "HarLSTM as a list of layers: it has a layer LSTM"}
    assert [len(batch) for batch in asked.batches()] == [1] * 4           # no targets
    assert (tmp_path / "infer.ht").exists()
