"""Windows of phone readings with activities: the real recordings where they are at hand, the
MobiRNN authors' windows and weights, and generated windows of the same shape for elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from handtorch import knobs
from handtorch.errors import BadFile, StorageError
from handtorch.kernels.lstm_weights import GATES, LstmWeights

Array = NDArray[Any]
STEPS, SIGNALS, ACTIVITIES = 128, 9, 6
RATE_HZ = 50
FORGET_BIAS = np.float32(1)                 # TensorFlow 1.x adds it when a BasicLSTMCell runs
GENERATED = "generated"


@dataclass(frozen=True)
class Windows:
    """`x` f32 [n, 128, 9]; `y` the activity, 0 to 5. `name` says where they come from."""

    name: str
    x: Array
    y: Array


@dataclass(frozen=True)
class Recordings:
    """Windows to learn from and windows of other people to be tested with."""

    train: Windows
    test: Windows

    @property
    def name(self) -> str:
        return self.train.name


def shared_file(name: str) -> Path | None:
    """A file of the optional data sets, None where HANDTORCH_SHARED names no folder with it."""
    folder = knobs.value("HANDTORCH_SHARED")
    file = Path(folder).expanduser() / "data" / name if folder else None
    return file if file is not None and file.exists() else None


def read_windows(file: Path, name: str) -> Windows:
    """`x` and `y` (1 to 6) of an .npz file."""
    arrays = _arrays(file)
    x, y = _named(file, arrays, "x"), _named(file, arrays, "y")
    _check_shape(file, "x", x, (len(y), STEPS, SIGNALS))
    _check_shape(file, "y", y, (len(y),))
    if len(y) == 0 or y.min() < 1 or y.max() > ACTIVITIES:
        raise BadFile(f"{file}: y", why=f"activities are 1 to {ACTIVITIES}",
                      fix="the windows as they were published")
    return Windows(name, np.ascontiguousarray(x, "f4"), y.astype("i8") - 1)


def read_weights(file: Path) -> LstmWeights:
    """A MobiRNN network from its .npz file, checked, in our order of gates."""
    arrays = _arrays(file)
    w_in = _named(file, arrays, "w_in")
    layers = sum(n.startswith("lstm") and n.endswith("_kernel") for n in arrays)
    if w_in.ndim != 2 or not layers:
        raise BadFile(f"{file}", why=f"w_in has {w_in.ndim} axes and there are {layers} layers",
                      fix="w_in [9, H], lstm0_kernel [2 H, 4 H], ... as the authors stored them")
    h = w_in.shape[1]
    shapes = {"w_in": (SIGNALS, h), "b_in": (h,), "w_out": (h, ACTIVITIES), "b_out": (ACTIVITIES,)}
    for layer in range(layers):
        shapes |= {f"lstm{layer}_kernel": (2 * h, GATES * h), f"lstm{layer}_bias": (GATES * h,)}
    for name, shape in shapes.items():
        _check_shape(file, name, _named(file, arrays, name), shape)
    return from_mobirnn(arrays)


def from_mobirnn(arrays: Mapping[str, Array]) -> LstmWeights:
    """The authors' arrays, whose gates stand in the order i, g, f, o with 1 to be added to f."""
    def turned(array: Array) -> Array:
        i, g, f, o = np.split(np.asarray(array, "f4"), GATES, -1)
        return np.concatenate((i, f, g, o), -1)
    layers = sum(name.endswith("_kernel") for name in arrays)
    h = arrays["w_in"].shape[1]
    biases = [turned(arrays[f"lstm{layer}_bias"]) for layer in range(layers)]
    for bias in biases:
        bias[h:2 * h] += FORGET_BIAS
    plain = {name: np.asarray(arrays[name], "f4") for name in ("w_in", "b_in", "w_out", "b_out")}
    return LstmWeights(kernels=tuple(turned(arrays[f"lstm{layer}_kernel"])
                                     for layer in range(layers)), biases=tuple(biases), **plain)


def load_recordings() -> Recordings:
    """The real recordings, split by person, if they are at hand; else generated ones."""
    train, test = (shared_file(f"har/har_windows_{part}.npz") for part in ("train", "test"))
    if train is None or test is None:
        return generated_recordings()
    return Recordings(read_windows(train, "recordings of 21 people"),
                      read_windows(test, "recordings of 9 other people"))


def generated_recordings(train: int = 1200, test: int = 300, seed: int = 0) -> Recordings:
    return Recordings(generated_windows(train, seed), generated_windows(test, seed + 1))


def generated_windows(count: int, seed: int = 0) -> Windows:
    """Six activities that differ as real ones do: walking by its rhythm and strength, resting by
    where gravity points. The same for the same seed; `name` says that nobody recorded them."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % ACTIVITIES
    rng.shuffle(y)
    walks = y < 3
    rhythm_hz = np.choose(y % 3, (2.0, 1.5, 2.6)) * rng.uniform(0.95, 1.05, count)
    strength = np.where(walks, np.choose(y % 3, (0.25, 0.2, 0.45)), 0.01)
    strength = strength * rng.uniform(0.8, 1.2, count)
    # Which way is down: along x upright, tilted when sitting, along y when laying.
    angle = np.where(walks, 0.0, np.choose(y % 3, (0.6, 0.0, 1.5))) + rng.normal(0, 0.08, count)
    gravity = np.stack((np.cos(angle), np.sin(angle), rng.normal(0, 0.1, count)), 1)
    seconds = np.arange(STEPS) / RATE_HZ
    turns = rhythm_hz[:, None] * seconds + rng.uniform(0, 1, (count, 1))
    waves = np.stack([np.sin(2 * np.pi * (k * turns + s)) for k, s in
                      ((1, 0), (1, 0.25), (2, 0.1), (2, 0.3), (1, 0.6), (1, 0.8))], 2)
    body = strength[:, None, None] * waves + rng.normal(0, 0.02, (count, STEPS, 6))
    total = body[:, :, :3] + gravity[:, None, :]
    x = np.concatenate((body[:, :, :3], 3 * body[:, :, 3:], total), 2)
    return Windows(f"{GENERATED} windows", x.astype("f4"), y.astype("i8"))


def _arrays(file: Path) -> dict[str, Array]:
    try:
        with np.load(file, allow_pickle=False) as found:
            return dict(found)
    except (OSError, ValueError, EOFError, BadZipFile) as e:
        raise StorageError(f"{file}", why=str(e), fix="an .npz file without pickles") from e


def _named(file: Path, arrays: Mapping[str, Array], name: str) -> Array:
    if name not in arrays:
        there = ", ".join(sorted(arrays)) or "nothing"
        raise BadFile(f"{file} has no {name}", why=f"it has {there}",
                      fix="an .npz file of this data set")
    return arrays[name]


def _check_shape(file: Path, name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise BadFile(f"{file}: {name} is {array.dtype.name}{list(array.shape)}",
                      why=f"numbers of shape {list(shape)} are needed",
                      fix="an .npz file of this data set, as it was published")
