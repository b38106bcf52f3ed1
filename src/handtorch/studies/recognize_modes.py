"""The four modes of the study `recognize`, each in a process of its own, as a user runs them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.errors import HandTorchError
from handtorch.profile.sampled import Readings
from handtorch.profile.sampling import Sampling

CLOUD_CPU, CLOUD_CL, DEVICE_CPU, DEVICE_CL = MODES = (
    "cloud + CPU", "cloud + OpenCL", "device + CPU", "device + OpenCL")
LIMIT_S = 600
SHEET = "nexus-5"


@dataclass(frozen=True)
class Model:
    """One of the paper's: how it is called, its file once made, and what it is given."""

    name: str
    weights: Path | None
    labels: Path | None
    recipe: str
    file: Path

    def options(self, engine: str, device: str) -> list[str]:
        """For `recognize` and `serve`: the file on the device, torch's own on the CPU."""
        if engine == "cpu":
            given = [self.name] + ([] if self.weights is None else ["--weights", self.weights])
        else:
            given = [self.file, "--recipe", self.recipe, "--device", device]
        if self.labels is not None and self.weights is not None:
            given += ["--labels", self.labels]
        return ["--model", *map(str, given), "--engine", engine]


@dataclass(frozen=True)
class ModeRun:
    """What one process told of one model in one mode, picture by picture."""

    model: str
    mode: str
    pictures: tuple[Mapping[str, Any], ...]
    readings: Readings | None = None

    def values(self, step: str) -> list[float]:
        """Milliseconds of one step; of `load` the one time it was done."""
        found = [float(p["steps_ms"][step]) for p in self.pictures]
        return found[:1] if step == "load" else found

    def median(self, step: str) -> float:
        return statistics.median(self.values(step))

    def inference_ms(self) -> float:
        """Without loading: the median over pictures of the sum of all other steps."""
        return statistics.median(float(p["sum_of_steps_ms"] - p["steps_ms"]["load"])
                                 for p in self.pictures)

    def recognition_ms(self, per_model: int) -> float:
        """With loading shared out over so many pictures."""
        return self.inference_ms() + self.median("load") / per_model

    def mean(self, key: str) -> float | None:
        known = [p[key] for p in self.pictures if p[key] is not None]
        return statistics.fmean(known) if known else None

    def unaccounted(self) -> list[float]:
        """Of each picture, the share of its time that is in no step."""
        return [1 - p["sum_of_steps_ms"] / p["end_to_end_ms"] for p in self.pictures]

    def tops(self) -> dict[str, tuple[str, ...]]:
        return {p["file"]: tuple(p["labels"]) for p in self.pictures}


def run_mode(model: Model, mode: str, pictures: Sequence[Path], device: str, url: str = "", *,
             sending: str = "png", sensors: bool = False) -> ModeRun:
    """One `handtorch recognize`; with `sensors` also what it used, over time."""
    engine = "cpu" if mode.endswith("CPU") else "opencl"
    argv = [*map(str, pictures), "--json", "--no-sensors", "--sheet", SHEET]
    if url:
        argv += ["--where", "cloud", "--url", url, "--model", model.name, "--send", sending]
    else:
        argv += ["--where", "device", *model.options(engine, device)]
    process = subprocess.Popen([sys.executable, "-m", "handtorch", "recognize", *argv],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=knobs.environment_for_child())
    told, readings = _watched(process, sensors)
    if "error" in told:
        raise HandTorchError(f"{model.name}, {mode}", why=str(told["error"]["what"])
                             + f": {told['error']['why']}")
    return ModeRun(model.name, mode, tuple(told["pictures"]), readings)


def _watched(process: subprocess.Popen[bytes], sensors: bool
             ) -> tuple[dict[str, Any], Readings | None]:
    def finished() -> dict[str, Any]:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        try:
            told = json.loads(out)
        except ValueError as e:
            said = err.decode("utf-8", "replace").strip()[-300:]
            raise HandTorchError("recognition ended without an answer", why=said) from e
        assert isinstance(told, dict)
        return told

    if not sensors:
        return finished(), None
    with tempfile.TemporaryDirectory(prefix="handtorch-") as folder:
        sampling = Sampling(Path(folder), pid=process.pid)
        with sampling:
            told = finished()
        return told, sampling.readings()


def served(models: Sequence[Model], engine: str, device: str) -> list[str]:
    """Options of a server that has all these models."""
    options: list[str] = ["--engine", engine, "--rows", "1", "--wait-ms", "0"]
    for model in models:
        what = model.name if engine == "cpu" else str(model.file)
        options += ["--model", f"{model.name}={what}"]
        if engine == "cpu" and model.weights is not None:
            options += ["--weights", f"{model.name}={model.weights}"]
        if engine != "cpu":
            options += ["--recipe", f"{model.name}={model.recipe}"]
        if model.labels is not None and model.weights is not None:
            options += ["--labels", f"{model.name}={model.labels}"]
    return [*options, *(["--device", device] if engine != "cpu" else [])]


def use_over_time(readings: Readings) -> dict[str, list[tuple[float, float]]]:
    """Cores used, memory and watts of one process, every tenth of a second or so."""
    found: dict[str, list[tuple[float, float]]] = {}
    wanted: dict[str, tuple[str, Callable[[float], float]]] = {
        "process_resident_bytes": ("memory, MB", lambda v: v / 1e6)}
    for series in readings.series:
        quantity = series.signal.quantity
        at = [t / 1e9 for t in series.time_ns.tolist()]
        values = series.value.tolist()
        if not at:
            continue
        begin = at[0]
        if quantity == "process_busy_s":
            found["cores used"] = _rates(at, values, begin)
        elif quantity in wanted or quantity.endswith("_power_w"):
            name, turn = wanted.get(quantity, (f"{quantity}, W", lambda v: v))
            found[name] = [(t - begin, turn(v)) for t, v in zip(at, values, strict=True) if v == v]
    return found


def _rates(at: Sequence[float], values: Sequence[float], begin: float, every_s: float = 0.1
           ) -> list[tuple[float, float]]:
    rates, last = [], 0
    for i in range(1, len(at)):
        if at[i] - at[last] >= every_s and values[i] == values[i] and values[last] == values[last]:
            rates.append((at[i] - begin, (values[i] - values[last]) / (at[i] - at[last])))
            last = i
    return rates

