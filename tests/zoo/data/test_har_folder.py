from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from handtorch.errors import BadFile, BadInput
from handtorch.zoo.data.har_folder import SIGNALS, STEPS, load_har, read_table
from tests.zoo.data.damage import changes, cuts, refused_or, text_of_error


def table(rows: Any) -> bytes:
    """As published: fixed width, two spaces or one before each number."""
    return b"".join(b"".join(b"%16.7e" % n for n in row) + b"\r\n" for row in rows)


def write_har(folder: Path, counts: dict[str, int]) -> dict[str, Any]:
    written = {}
    for part, count in counts.items():
        place = folder / part / "Inertial Signals"
        place.mkdir(parents=True)
        x = np.random.default_rng(count).normal(0, 1, (count, STEPS, len(SIGNALS)))
        for k, signal in enumerate(SIGNALS):
            (place / f"{signal}_{part}.txt").write_bytes(table(x[..., k]))
        labels = "".join(f"{k % 6 + 1}\n" for k in range(count))
        (folder / part / f"y_{part}.txt").write_text(labels)
        written[part] = x
    return written


@settings(max_examples=30, deadline=None)
@given(arrays(np.float32, st.tuples(st.integers(1, 4), st.just(3)),
              elements=st.floats(-(2.0 ** 20), 2.0 ** 20, width=32)))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    path = tmp_path_factory.mktemp("h") / "a.txt"
    path.write_bytes(table(rows))
    assert np.allclose(read_table(path, 3), rows, rtol=1e-7, atol=0)


def test_a_folder_as_published(tmp_path: Path) -> None:
    folder = tmp_path / "UCI HAR Dataset"
    written = write_har(folder, {"train": 7, "test": 2})
    data = load_har(tmp_path)
    assert data.source == str(folder) and data.train[0].shape == (7, 128, 9)
    assert np.allclose(data.train[0], written["train"], rtol=1e-6)
    assert np.allclose(data.held_out[0], written["test"], rtol=1e-6)
    assert data.train[1].tolist() == [0, 1, 2, 3, 4, 5, 0]
    (folder / "test" / "y_test.txt").write_text("1\n7\n")
    with pytest.raises(BadFile, match="activity 7 of window 1, expected 1 to 6"):
        load_har(folder)
    (folder / "test" / "y_test.txt").write_text("1\n")
    with pytest.raises(BadFile, match=r"body_acc_x_test.txt .* it has 2 lines, and y_test.txt 1"):
        load_har(folder)


def test_cut_or_changed(tmp_path: Path) -> None:
    """A digit that became another is a number, too; and so is a table cut behind a line."""
    path, data = tmp_path / "a.txt", table([[0.5, -1.25], [3e-7, 4.0]])

    def read(file: Path) -> Any:
        return read_table(file, 2)

    def finite(found: Any) -> bool:
        return found.shape in ((1, 2), (2, 2)) and bool(np.isfinite(found).all())
    assert refused_or(path, cuts(data), read, finite) > len(data) // 2
    assert refused_or(path, changes(data, range(len(data))), read, finite) > len(data)


@pytest.mark.parametrize(("data", "said"), [
    (b"1 2\n3 x4\n", "at byte 6: line 2: b'x4', expected a decimal number"),
    (b"1 2\n3 4 5\n", "at byte 4: line 2 has 3 numbers, expected 2"),
    (b"1 nan\n", "at byte 2: line 1: b'nan', expected a decimal number"),
    (b"1 1_0\n", "at byte 2: line 1: b'1_0', expected a decimal number"),
    (b"1 1e99\n", "at byte 2: line 1: b'1e99', expected a decimal number"),
    (b"1 " + b"0" * 50, "at byte 2: line 1: b'00000000000000000000', expected a decimal number"),
    (b" \n\n", "at byte 0: it has no line with numbers"),
])
def test_the_whole_text_of_an_error(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(BadFile) as error:
        read_table(path, 2)
    assert text_of_error(error, path) == (
        f"FILE cannot be used: {said}\n"
        "  try: download it again; it was cut or changed on the way, or is another file")


def test_windows_from_npz_and_from_nowhere(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"unpack 'UCI HAR Dataset\.zip' and name its folder"):
        load_har(tmp_path)
    x, y = np.zeros((2, 128, 9), np.float16), np.array([1, 6], np.uint8)
    for part in ("train", "test"):
        np.savez(tmp_path / f"har_windows_{part}.npz", x=x, y=y)
    assert load_har(tmp_path).train[1].tolist() == [0, 5]
    np.savez(tmp_path / "har_windows_test.npz", x=np.full_like(x, np.nan), y=y)
    with pytest.raises(BadFile, match="x has values that are no numbers"):
        load_har(tmp_path)
