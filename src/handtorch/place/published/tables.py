"""Published tables that are too large to keep here: read where they are, each row tagged by a rule.

The rules name networks, never numbers: in every setting (a device with its threads, or its GPU) the
same few networks calibrate and all others that `nets` can count are held out."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from handtorch.place.published.row import Row, Tag

Line = dict[str, str]
_NOT_FLOAT = "8-bit weights; only float networks are predicted"
_NOT_COUNTED = "its layers are not written down here"
_ALONE = "nothing calibrates this setting"

# ncnn's own networks (its benchmark folder): a rate, a bandwidth and a cost of each launch are to
# be found, so three calibrate: mostly arithmetic, mostly weights read once, many small layers.
NCNN_CALIBRATES = ("resnet18", "alexnet", "mobilenet")
NCNN = {
    "resnet18": "resnet18", "alexnet": "alexnet-227", "mobilenet": "mobilenet1.0-224",
    "squeezenet": "squeezenet1.1-227", "mobilenet_v2": "mobilenetv2",
    "mobilenet_v3": "mobilenetv3-large", "shufflenet": "shufflenet-g3",
    "shufflenet_v2": "shufflenetv2", "mnasnet": "mnasnet-b1", "proxylessnasnet": "proxylessnas",
    "efficientnet_b0": "efficientnet-b0", "regnety_400m": "regnety-400m",
    "googlenet": "googlenet", "vgg16": "vgg16", "resnet50": "resnet50",
}
# nn-Meter's files are named after networks; the form each paper printed first is taken, 224 x 224.
NN_METER_CALIBRATES = ("resnet18", "alexnet", "mobilenetv1")
NN_METER = {
    "resnet18": "resnet18", "alexnet": "alexnet-one-column", "mobilenetv1": "mobilenet1.0-224",
    "googlenet": "googlenet", "mnasnet": "mnasnet-b1", "mobilenetv2": "mobilenetv2",
    "mobilenetv3large": "mobilenetv3-large", "mobilenetv3small": "mobilenetv3-small",
    "proxylessnas": "proxylessnas", "resnet34": "resnet34", "resnet50": "resnet50",
    "shufflenetv2": "shufflenetv2", "squeezenet": "squeezenet1.0", "vgg11": "vgg11",
    "vgg13": "vgg13", "vgg16": "vgg16", "vgg19": "vgg19",
}
_NN_METER_ODD = {"densenet": "two files of this name differ by 2.5: which DenseNet is not known"}
# The PieSlicer phone and the MDInference servers: the largest and the smallest MobileNet calibrate.
_ENDS = ("mobilenet1.0-224", "mobilenet0.25-128")
_OLD_ENDS = ("mobilenet1.0-224", "mobilenet0.25-224")
_SERVER = {"inception_v3": "inceptionv3", "squeezenet": "squeezenet1.0", "resnet50": "resnet50",
           "resnet101": "resnet101", "resnet152": "resnet152", "alexnet": "alexnet-one-column",
           "vgg16": "vgg16"}


def table_rows(shared: Path) -> tuple[Row, ...]:
    """Every row of every table in `shared`/data/tables that is there, tagged."""
    folder = shared / "data" / "tables"
    rows: list[Row] = []
    for name, read in _READERS.items():
        path = folder / name
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                rows += read(list(csv.DictReader(file)))
    return tuple(_with_company(rows))


def _with_company(rows: list[Row]) -> Iterator[Row]:
    """A row is held out only where something calibrates its setting."""
    known = {(r.framework, r.setting) for r in rows if r.tag == "calibration"}
    for row in rows:
        alone = row.tag == "held-out" and (row.framework, row.setting) not in known
        yield replace(row, tag="left-out", why=_ALONE) if alone else row


def _tagged(network: str | None, calibrates: bool, odd: str = "") -> tuple[Tag, str]:
    if odd or network is None:
        return "left-out", odd or _NOT_COUNTED
    return ("calibration", "") if calibrates else ("held-out", "")


def _ncnn(lines: list[Line]) -> Iterator[Row]:
    """The least time of each benchmark: the run that was disturbed least. A device that appears
    twice with the same settings was benchmarked twice; the runs stay apart."""
    seen: Counter[tuple[str, str]] = Counter()
    for line in lines:
        model = line["model"].replace("-int8", "_int8").replace("-ssd", "_ssd")
        gpu = line["gpu_device"] not in ("", "-1")
        where = f"GPU {line['gpu_device']}" if gpu else f"{line['num_threads']} threads"
        setting = (f"{line['device']}, {where}, powersave {line['powersave']}, "
                   f"{line['loop_count']} loops")
        seen[setting, model] += 1
        if (again := seen[setting, model]) > 1:
            setting += f", run {again}"
        network = NCNN.get(model)
        tag, why = _tagged(network, model in NCNN_CALIBRATES,
                           _NOT_FLOAT if model.endswith("int8") else "")
        yield Row(f"ncnn.{setting}.{model}", "Tencent/ncnn, benchmark/README.md", setting, model,
                  float(line["min_ms"]), "ms", tag, why, "ncnn-vulkan" if gpu else "ncnn-cpu",
                  network or "")


def _nn_meter(lines: list[Line]) -> Iterator[Row]:
    """What nn-Meter's predictors say (not measured). A third of the rows repeats another third."""
    for line in lines:
        name = line["model_name"].partition("_")[0]
        odd = _NN_METER_ODD.get(name, "")
        if line["model_type"] == "nn-meter-ir":
            odd = "the same network and number as the TensorFlow file's"
        if line["predictor"].startswith("myriad"):
            odd = "a VPU in half precision, neither GPU nor CPU"
        network = NN_METER.get(name)
        tag, why = _tagged(network, line["model_type"] == "tensorflow"
                           and name in NN_METER_CALIBRATES, odd)
        gpu = "gpu" in line["predictor"]
        yield Row(f"nn-meter.{line['predictor']}.{line['model_name']}",
                  "microsoft/nn-Meter, tests/integration_test (predicted by it, not measured)",
                  line["predictor"], line["model_name"], float(line["latency"]), "ms", tag, why,
                  "tflite-gpu" if gpu else "tflite-cpu", network or "")


def _pieslicer(lines: list[Line]) -> Iterator[Row]:
    """Medians over the photos, for each network and kind of weights."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in lines:
        times[line["model"], line["weights"]].append(float(line["infer_ms"]))
    for (model, weights), found in times.items():
        network = _mobilenet(model) or _SERVER.get(model)
        tag, why = _tagged(network, network in _ENDS, "" if weights == "float" else _NOT_FLOAT)
        yield Row(f"pieslicer.{model}.{weights}", "cake-lab/PieSlicer, phone not named",
                  "PieSlicer's phone", f"{model}, {weights}", median(found), "ms", tag, why,
                  "tensorflow-mobile", network or "", derived=True)


def _mdinference(lines: list[Line]) -> Iterator[Row]:
    for line in lines:
        which = line["set"].rpartition("_")[2]
        model = line["model"].lower().replace("_v1", "").removesuffix("_frozen")
        network = _mobilenet(model) or _SERVER.get(model)
        tag, why = _tagged(network, network in (_OLD_ENDS if which == "old" else _ENDS))
        yield Row(f"mdinference.{which}.{line['model']}", "cake-lab/MDInference, Shared.py",
                  f"server {which}", line["model"], float(line["latency_mean_ms"]), "ms", tag, why,
                  f"tensorflow-{which}", network or "")


def _mobilenet(model: str) -> str | None:
    """`mobilenet_0.5_160` is width 0.5 at 160 x 160."""
    kind, *rest = model.split("_")
    if kind != "mobilenet" or len(rest) != 2:
        return None
    return f"mobilenet{float(rest[0])}-{rest[1]}"


def _mlperf(lines: list[Line]) -> Iterator[Row]:
    for line in lines:
        setting = f"{line['round']}, {line['submitter']}, {line['system']}"
        yield Row(f"mlperf.{setting}.{line['task']}.{line['scenario']}",
                  "mlcommons, mobile results", setting, line["task"],
                  float(line["mean_ns"]) / 1e6, "ms", "left-out",
                  "8-bit networks on neural processors")


def _codecarbon(lines: list[Line]) -> Iterator[Row]:
    """Power of a processor's package by how busy it is: nothing and everything calibrate."""
    ends: dict[str, list[int]] = defaultdict(list)
    machines: list[str] = []
    for at, line in enumerate(lines):
        starts = "for 0 threads" in line["task_name"]
        if starts or not machines:
            machines.append(f"{line['cpu_name']}, {line['load_type']}, run {at}")
        else:
            machines.append(machines[-1])
        ends[machines[-1]].append(at)
    for at, line in enumerate(lines):
        of = ends[machines[at]]
        tag: Tag = "calibration" if at in (of[0], of[-1]) else "held-out"
        yield Row(f"codecarbon.{machines[at]}.{at}", "mlco2/codecarbon, cpu_load_profiling",
                  machines[at], f"package power, {line['cpu_load']} % busy",
                  float(line["rapl_power"]), "W", tag, "", "linear power",
                  given={"busy": float(line["cpu_load"]) / 100})


_READERS: dict[str, Callable[[list[Line]], Iterator[Row]]] = {
    "ncnn_benchmark.csv": _ncnn,
    "nn_meter_reference_latency.csv": _nn_meter,
    "cakelab_pieslicer_phone_inference.csv": _pieslicer,
    "cakelab_mdinference_models.csv": _mdinference,
    "codecarbon_rapl_vs_load.csv": _codecarbon,
    "mlperf_mobile_summary.csv": _mlperf,
}
# Not read: clpeak/*.log are devices' constants (they stand in sheets, and calibrate), the CLBlast
# table has parameters and no times, the table of networks is place/network.py's.
