"""What the sheets say of each row of the four papers that is held out.

Constants come from sheets and from rows that calibrate, by name; `held_out.py` refuses a held-out
row that is not answered here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from handtorch.place.predict import Rates, Software, Work, predict
from handtorch.place.processor import rates_of
from handtorch.place.published.fit import work_of
from handtorch.place.published.layers import WORD, Operation, kept_bytes, parameters, training
from handtorch.place.published.nets import layers_of
from handtorch.place.published.row import Row
from handtorch.place.sheet import Sheet, read_sheet

Rows = Mapping[str, Row]
_JOULES_PER_MWH = 3.6
_LAYERS = {"Model1": (16, 16), "Model2": (16, 16, 16, 16), "Model3": (256, 256),
           "Model4": (784, 256, 128, 16)}
_BATCH = 32


def answers(rows: Rows) -> dict[str, float]:
    """By id, in the row's own unit. `rows` are looked up only where they calibrate."""
    known = {k: r for k, r in rows.items() if r.tag == "calibration"}
    held = [r for r in rows.values() if r.tag == "held-out"]
    found: dict[str, float] = {}
    for row in held:
        for start, answer in _ANSWERS.items():
            if row.id.startswith(start):
                found[row.id] = answer(row, known)
                break
    return found


# Guo, Nexus 5.


def _watts(sheet: Sheet, row: Row, known: Rows) -> float:
    """Idle, the use of cores above what idle has, of the GPU, and Wi-Fi while it is cloud work."""
    cores = (row.given["cpu"] - known["guo.use.idle"].value / 100) * sheet.core_count
    wifi = sheet.radios_w["wifi"].value if "cloud" in row.id else 0.0
    idle, gpu, busy = sheet.idle_w.value, sheet.gpu_w.value, sheet.cores_w(cores)
    assert idle is not None and gpu is not None and busy is not None and wifi is not None
    return idle + busy + row.given["gpu"] * gpu + wifi


def _power(row: Row, known: Rows) -> float:
    sheet = read_sheet("nexus-5")
    if row.id == "guo.power.idle":
        assert sheet.idle_w.value is not None
        return 1e3 * sheet.idle_w.value
    return 1e3 * _watts(sheet, row, known)


def _energy(row: Row, known: Rows) -> float:
    if row.id == "guo.energy.loading":
        return 100 * row.given["seconds"] / row.given["of_seconds"]
    return _watts(read_sheet("nexus-5"), row, known) * row.given["seconds"] / _JOULES_PER_MWH


def _compute(calibrates: str, kind: str) -> Callable[[Row, Rows], float]:
    """One row gives the share of the peak that this software reaches on this processor."""

    def answer(row: Row, known: Rows) -> float:
        rates = rates_of(read_sheet("nexus-5").processor(kind))
        told = known[calibrates]
        works = [work_of(layer) for layer in layers_of(told.network)]
        without = predict(works, rates, Software(other=float("inf"))).total_s
        flops = sum(w.flops for w in works)
        share = flops / rates.flops_per_s / (told.value / 1e3 - without)
        wanted = [work_of(layer) for layer in layers_of(row.network)]
        return 1e3 * predict(wanted, rates, Software(other=share)).total_s
    return answer


def _weight_bytes(network: str) -> int:
    return WORD * parameters(list(layers_of(network)))


def _load(row: Row, known: Rows) -> float:
    """A rate of bytes, from the largest file."""
    told = known[f"guo.load.{row.framework}.alexnet"]
    return told.value * _weight_bytes(row.network) / _weight_bytes(told.network)


def _size(row: Row, known: Rows) -> float:
    return _weight_bytes(row.network) / 2**20


def _rescale(row: Row, known: Rows) -> float:
    """A line over pixels through the two rows that calibrate."""
    small, mean = known["guo.rescale.small"], known["guo.rescale.cloud"]
    at = [r.given["megapixels"] for r in (small, mean)]
    slope = (mean.value - small.value) / (at[1] - at[0])
    return small.value + slope * (row.given["megapixels"] - at[0])


# MobiRNN.


def _gain(row: Row, known: Rows) -> float:
    """Both programs run on the same cores, so that one phone's quotient is the other's."""
    return known["mobirnn.cpu"].value / known["mobirnn.gpu"].value


def _parameters(row: Row, known: Rows) -> float:
    """A layer on each reading, LSTMs with one bias, a layer on the last state."""
    layers, hidden = int(row.given["layers"]), int(row.given["hidden"])
    return 10 * hidden + layers * 4 * hidden * (2 * hidden + 1) + 6 * (hidden + 1)


# Liu et al., Jetson TX2.


def _step_s(network: str, batch: int, known: Rows) -> float:
    """Two batches of ResNet50 give a cost of each operation, and a share of the peak."""
    rates = rates_of(read_sheet("jetson-tx2").processor("gpu"))
    told = [known["tx2.rate.resnet50.4"], known["tx2.rate.resnet50.64"]]
    sums = [_sums(r.network, int(r.given["batch"]), rates) for r in told]
    seconds = [r.given["batch"] / r.value - memory for r, (_, _, memory) in
               zip(told, sums, strict=True)]
    (a, b, _), (c, d, _) = sums
    each, slower = np.linalg.solve([[a, b], [c, d]], seconds).tolist()
    count, compute, memory = _sums(network, batch, rates)
    return float(count * each + compute * slower + memory)


def _sums(network: str, batch: int, rates: Rates) -> tuple[int, float, float]:
    """Operations of a step, and what their arithmetic and bytes take at the peak."""
    step = list(_step(network, batch))
    return (len(step), sum(o.flops for o in step) / rates.flops_per_s,
            sum(o.moved_bytes for o in step) / rates.bytes_per_s)


def _step(network: str, batch: int) -> list[Operation]:
    step = list(training(list(layers_of(network)), batch))
    if network == "dqn":                    # the net it is compared with runs forward only
        step += [Operation(la.kind, batch * la.flops, WORD * (batch * (la.inputs + la.outputs)
                                                              + la.weights))
                 for la in layers_of(network)]
    return step


def _samples(row: Row, known: Rows) -> float:
    batch = int(row.given["batch"])
    return batch / _step_s(row.network, batch, known)


def _batch_gain(row: Row, known: Rows) -> float:
    return 64 / 4 * _step_s(row.network, 4, known) / _step_s(row.network, 64, known)


def _training_memory(row: Row, known: Rows) -> float:
    """What TensorFlow holds besides feature maps, and how often it holds one; then weights, their
    gradients and the optimizer's."""
    told = [known["tx2.memory.densenet40.4"], known["tx2.memory.densenet40.64"]]
    kept = [kept_bytes(list(layers_of(r.network)), int(r.given["batch"])) / 1e6 for r in told]
    times = (told[1].value - told[0].value) / (kept[1] - kept[0])
    layers = list(layers_of(row.network))
    return (told[0].value - times * kept[0]
            + times * kept_bytes(layers, int(row.given["batch"])) / 1e6
            + 3 * WORD * parameters(layers) / 1e6)


# Das et al., three OnePlus.


def _product(row: Row, known: Rows) -> float:
    """The share of the peak that this kernel reaches on the phone that calibrates."""
    kind = "cpu" if ".cpu." in row.id else "gpu"
    told = known[f"{row.id.rpartition('.')[0]}.6"]
    peak = rates_of(read_sheet(row.setting).processor(kind)).flops_per_s
    return told.value * peak / rates_of(read_sheet(told.setting).processor(kind)).flops_per_s


def _depth(row: Row, known: Rows) -> float:
    """A copy costs what makes computing 9 % of a backward pass, on the mean of the models."""
    fast = known["opencl.gemm.6"].value * 1e9
    launch_s = rates_of(read_sheet("oneplus-6").processor("gpu")).launch_s
    computed = {m: _backward(m, fast, launch_s) for m in _LAYERS}
    copies = {m: 6 * (len(widths) - 1) for m, widths in _LAYERS.items()}
    share = known["opencl.compute"].value / 100
    # 1 / (1 + copies x / computed) has to be the share, on the mean: solved for x by halving.
    low, high = 0.0, 1.0
    for _ in range(60):
        x = (low + high) / 2
        mean = np.mean([1 / (1 + copies[m] * x / computed[m]) for m in _LAYERS])
        low, high = (x, high) if mean > share else (low, x)
    one, other = ("Model1", "Model2") if row.id.endswith("small") else ("Model3", "Model4")
    time = {m: computed[m] + copies[m] * low for m in (one, other)}
    return time[other] / time[one]


def _backward(model: str, flops_per_s: float, launch_s: float) -> float:
    """Two products for each layer: gradients of its input and of its weights."""
    rates = Rates(flops_per_s, float("inf"), launch_s)
    works = [Work("product", 2 * _BATCH * a * b, 0, 0)
             for a, b in pairwise(_LAYERS[model]) for _ in range(2)]
    return predict(works, rates, Software()).total_s


_ANSWERS: dict[str, Callable[[Row, Rows], float]] = {
    "guo.power.": _power, "guo.energy.": _energy, "guo.load.": _load, "guo.size.": _size,
    "guo.rescale.": _rescale, "guo.caffe.": _compute("guo.caffe.nin", "cpu"),
    "guo.cnndroid.": _compute("guo.cnndroid.alexnet", "gpu"),
    "mobirnn.gain.": _gain, "mobirnn.parameters.": _parameters,
    "tx2.rate.": _samples, "tx2.gain.": _batch_gain, "tx2.memory.": _training_memory,
    "opencl.gemm.": _product, "opencl.naive.": _product, "opencl.cpu.": _product,
    "opencl.depth.": _depth,
}
