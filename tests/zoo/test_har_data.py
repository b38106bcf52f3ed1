"""Windows and weights from files, refused where they do not fit; windows made up for elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.errors import BadFile, StorageError
from handtorch.zoo.har_data import (
    from_mobirnn,
    generated_recordings,
    generated_windows,
    load_recordings,
    read_weights,
    read_windows,
    shared_file,
)


def arrays(hidden: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"w_in": (9, hidden), "b_in": (hidden,), "lstm0_kernel": (2 * hidden, 4 * hidden),
              "lstm0_bias": (4 * hidden,), "w_out": (hidden, 6), "b_out": (6,)}
    return {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}


def saved(folder: Path, **changed: Any) -> Path:
    whole = {k: v for k, v in {**arrays(), **changed}.items() if v is not None}
    np.savez(folder / "net.npz", **whole)
    return folder / "net.npz"


def test_gates_change_places_and_the_forget_bias_comes_in(tmp_path: Path) -> None:
    theirs = arrays()
    ours = read_weights(saved(tmp_path))
    for block, was in enumerate((0, 2, 1, 3)):          # i, f, g, o from i, g, f, o
        np.testing.assert_array_equal(ours.kernels[0][:, 3 * block:3 * block + 3],
                                      theirs["lstm0_kernel"][:, 3 * was:3 * was + 3])
        np.testing.assert_array_equal(ours.biases[0][3 * block:3 * block + 3],
                                      theirs["lstm0_bias"][3 * was:3 * was + 3] + (block == 1))
    assert (ours.hidden, ours.layers, ours.signals, ours.classes) == (3, 1, 9, 6)
    assert from_mobirnn(theirs).w_out is not None


def test_a_network_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    def said(**changed: Any) -> str:
        with pytest.raises(BadFile) as refused:
            read_weights(saved(tmp_path, **changed))
        return str(refused.value).replace(str(tmp_path), "")
    assert said(b_out=None) == (
        "/net.npz has no b_out: it has b_in, lstm0_bias, lstm0_kernel, w_in, w_out\n"
        "  try: an .npz file of this data set")
    assert said(w_out=np.zeros((3, 5))) == (
        "/net.npz: w_out is float64[3, 5]: numbers of shape [3, 6] are needed\n"
        "  try: an .npz file of this data set, as it was published")
    assert said(b_in=np.array(["a", "b", "c"])).startswith("/net.npz: b_in is str32[3]: numbers")
    assert said(lstm0_kernel=None) == (
        "/net.npz: w_in has 2 axes and there are 0 layers\n"
        "  try: w_in [9, H], lstm0_kernel [2 H, 4 H], ... as the authors stored them")
    assert said(lstm2_kernel=np.zeros((6, 12))).startswith("/net.npz has no lstm1_kernel: it has ")


def test_pickles_and_broken_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object), y=np.ones(1))
    with pytest.raises(StorageError, match="Object arrays cannot be loaded"):
        read_windows(tmp_path / "objects.npz", "")
    (tmp_path / "cut.npz").write_bytes(saved(tmp_path).read_bytes()[:200])
    for name in ("cut.npz", "absent.npz"):
        with pytest.raises(StorageError):
            read_weights(tmp_path / name)


def test_windows_with_other_activities_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    np.savez(file, x=np.zeros((2, 128, 9)), y=np.array([0, 6]))
    with pytest.raises(BadFile) as refused:
        read_windows(file, "")
    assert str(refused.value) == (f"{file}: y: activities are 1 to 6\n"
                                  "  try: the windows as they were published")
    np.savez(file, x=np.zeros((3, 128, 9)), y=np.ones(2))
    with pytest.raises(BadFile, match=r"x is float64\[3, 128, 9\]: numbers of shape \[2, 128, 9\]"):
        read_windows(file, "")


def test_generated_windows_say_so_and_are_alike_each_time() -> None:
    one, again, other = generated_windows(60, 1), generated_windows(60, 1), generated_windows(60, 2)
    assert one.name == "generated windows"
    assert (one.x.shape, one.x.dtype, sorted(set(one.y.tolist()))) == ((60, 128, 9), "f4",
                                                                     [0, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(one.x, again.x)
    assert not np.array_equal(one.x, other.x)


def test_generated_activities_can_be_told_apart() -> None:
    """Nearest mean of mean, spread and rhythm: every activity by its own plain marks."""
    both = generated_recordings(600, 300)

    def marks(x: Any) -> Any:
        spectrum = np.abs(np.fft.rfft(x[:, :, 0], axis=1))[:, 2:12]
        rhythm = spectrum / spectrum.sum(1, keepdims=True) * x[:, :, 0].std(1, keepdims=True)
        return np.concatenate((x.mean(1)[:, 6:], x.std(1), 4 * rhythm), 1)
    train, test = marks(both.train.x), marks(both.test.x)
    means = np.stack([train[both.train.y == k].mean(0) for k in range(6)])
    nearest = ((test[:, None] - means) ** 2).sum(2).argmin(1)
    assert (nearest == both.test.y).mean() > 0.9


def test_without_the_files_recordings_are_generated(monkeypatch: pytest.MonkeyPatch,
                                                    tmp_path: Path) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", str(tmp_path))
    assert shared_file("har/har_windows_train.npz") is None
    assert load_recordings().name == "generated windows"


def test_the_real_recordings(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", str(shared))
    both = load_recordings()
    assert (len(both.train.y), len(both.test.y)) == (7415, 2996)
    assert both.name == "recordings of 21 people"
