from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import BadFile, BadInput
from handtorch.zoo.data.cifar import RECORD, load_cifar10
from tests.zoo.data.damage import refused_or, text_of_error
from tests.zoo.data.test_pickled import python2, some


def binary(x: Any, y: list[int]) -> bytes:
    return b"".join(bytes((label,)) + row.tobytes() for row, label in zip(x, y, strict=True))


@pytest.mark.parametrize(("write", "end", "folder"), [
    (binary, ".bin", "cifar-10-batches-bin"), (python2, "", "cifar-10-batches-py")])
def test_a_folder_as_published(tmp_path: Path, write: Any, end: str, folder: str) -> None:
    place = tmp_path / folder
    place.mkdir()
    batches = [some(k + 1, seed=k) for k in range(3)]
    for name, (x, y) in zip(("data_batch_1", "data_batch_2", "test_batch"), batches, strict=True):
        (place / f"{name}{end}").write_bytes(write(x, y))
    for path in (tmp_path, place):
        data = load_cifar10(path)
        assert data.source == str(path) and not data.generated
        wanted = np.concatenate([batches[0][0], batches[1][0]]).reshape(-1, 3, 32, 32)
        assert np.array_equal(data.train[0], wanted)
        assert data.train[1].tolist() == batches[0][1] + batches[1][1]
        assert np.array_equal(data.held_out[0].reshape(3, -1), batches[2][0])
        assert not data.train[0].flags.writeable


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3 * RECORD))
def test_every_cut_of_the_binary_format(tmp_path_factory: pytest.TempPathFactory, at: int) -> None:
    """Whole records are a data set, smaller; the format does not say how many there are."""
    path = tmp_path_factory.mktemp("c") / "data_batch_1.bin"
    whole = at % RECORD == 0 and at > RECORD        # one sample cannot be split
    assert refused_or(path, iter([binary(*some(3))[:at]]), load_cifar10, lambda _: whole) == (
        not whole)


def test_a_label_out_of_range_is_named_with_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    x, y = some(3)
    path.write_bytes(binary(x, [y[0], 77, 10]))
    with pytest.raises(BadFile) as error:
        load_cifar10(path)
    assert text_of_error(error, path) == (
        "FILE cannot be used: at byte 3073: label 77 of sample 1, expected 0 to 9\n"
        "  try: download it again; it was cut or changed on the way, or is another file")


def test_a_folder_without_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        load_cifar10(tmp_path)
    assert text_of_error(error, tmp_path) == (
        "no CIFAR-10 in FILE: neither data_batch_1.bin nor data_batch_1 is there, nor in "
        "cifar-10-batches-bin or cifar-10-batches-py\n"
        "  try: unpack cifar-10-binary.tar.gz or cifar-10-python.tar.gz, name its folder")


def test_an_npz_of_another_shape(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    x, y = np.zeros((2, 3, 16, 16), np.uint8), np.zeros(2, np.uint8)
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(BadFile, match=r"x_train holds uint8 of \(3, 16, 16\), expected uint8 of"):
        load_cifar10(path)
