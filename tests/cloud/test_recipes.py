"""Labels, and real weights over real photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handtorch.cloud.recipes import CAFFE, RECOGNIZERS, fitted, read_labels, top
from handtorch.errors import BadInput


def test_labels_are_read_with_and_without_ids(tmp_path: Path) -> None:
    file = tmp_path / "labels.txt"
    file.write_text("n01440764 tench, Tinca tinca\nnoble gas\n\ncock\n")
    assert read_labels(file) == ("tench, Tinca tinca", "noble gas", "cock")


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\xff\xfe\x00"])
def test_labels_that_are_none(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "labels.txt"
    file.write_bytes(text)
    with pytest.raises(BadInput, match="the labels"):
        read_labels(file)


def test_the_top_is_ordered_and_ties_go_to_the_lower_class() -> None:
    found = top(np.log([0.1, 0.4, 0.1, 0.4]), ("a", "b", "c", "d"), 3)
    assert [(label.index, label.name) for label in found] == [(1, "b"), (3, "d"), (0, "a")]
    assert [label.probability for label in found] == pytest.approx([0.4, 0.4, 0.1])


def test_large_scores_overflow_nothing() -> None:
    assert top(np.array([1e30, 0]), ("a", "b"))[0].probability == 1.0


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="2 labels for a model of 3 classes"):
        top(np.zeros(3), ("a", "b"))
    with pytest.raises(BadInput, match="1 of 2 are NaN or infinite"):
        top(np.array([1.0, np.nan]), ("a", "b"))


def test_a_recipe_fits_the_input_of_a_model() -> None:
    assert fitted(CAFFE, 299, 224).crop == (299, 224)
    assert fitted(CAFFE, 299, 224).shorter_side == 299
    assert fitted(CAFFE, 32, 32).shorter_side == 256


def test_every_recognizer_is_in_the_zoo() -> None:
    registry = pytest.importorskip("handtorch.zoo.registry")
    assert all("imagenet" in registry.MODELS[r.zoo].forms for r in RECOGNIZERS.values())
