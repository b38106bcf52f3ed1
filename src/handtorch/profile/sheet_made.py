"""A sheet of a device that is here, made by measuring: what others can then predict it by.

A sheet is of a device at its best, so that of several rounds the best one counts: another program
can only make a round worse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from time import perf_counter_ns

import numpy as np

from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.roofline import copy_step
from handtorch.place.sheet import LIMITS
from handtorch.profile.peaks import peak_rows
from handtorch.record import Result
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext

_BY = "measured by `handtorch devices --sheet`"
_ROUNDS = 5
_RUNS = 15
_SMALL, _LARGE = 64, 4 << 20                # floats; what a copy costs, and its rate


def sheet_text(on: OpenCLContext) -> str:
    """TOML that `read_sheet` takes. What is drawn is not in it: that needs a sensor."""
    spec = on.spec
    peaks = _best([r for _ in range(_ROUNDS) for r in peak_rows(on, "devices", "here")])
    begin_s, rate = _line(_copied_s(on, _SMALL), _copied_s(on, _LARGE))
    kind = "gpu" if spec.kind == "gpu" else "cpu"
    runs = (f"{_BY}, best of {_ROUNDS} medians of {_RUNS} copies to the device, each waited "
            "for")
    lines = [f"name = {_text(_name(spec))}", "", "[idle]",
             f'unknown = {_text("needs a power sensor: write in what yours tells")}', "",
             "[capacity]", f"bytes = {spec.global_bytes}",
             f"source = {_text(f'what the driver offers, {spec.driver}')}", "",
             f"[processor.{kind}]", f"name = {_text(spec.name)}",
             _figure("flops_per_s", peaks["arithmetic peak"]),
             _figure("bytes_per_s", peaks["memory peak"]),
             _figure("launch_s", peaks["launch time"], 1e-9),
             f"copy_s = {{ value = {begin_s:.4g}, source = "
             f"{_text(f'{runs}: {4 * _SMALL} bytes')} }}",
             f"copy_bytes_per_s = {{ value = {rate:.4g}, source = "
             f"{_text(f'{runs}: {4 * _LARGE} bytes less {4 * _SMALL}')} }}", "",
             f"[processor.{kind}.limits]", *_limits(spec),
             f"source = {_text(f'{spec.platform}, {spec.driver}')}"]
    return "\n".join(lines) + "\n"


def _name(spec: DeviceSpec) -> str:
    return f"{spec.name}, {spec.compute_units} compute units ({spec.platform})"


def _best(rows: Sequence[Result]) -> dict[str, Result]:
    """For each figure the round with the best median."""
    found: dict[str, Result] = {}
    for row in rows:
        other = found.get(row.name)
        if other is None or _value(row) * _sign(row) > _value(other) * _sign(other):
            found[row.name] = row
    return found


def _value(row: Result) -> float:
    assert row.value is not None, "peaks are measured"
    return row.value


def _sign(row: Result) -> int:
    return 1 if row.better == "higher" else -1


def _figure(name: str, row: Result, unit: float = 1.0) -> str:
    spread = f", its middle half {unit * (row.spread or 0):.2g} wide"
    said = _text(f"{_BY}, best of {_ROUNDS} medians of {row.repeats}{spread}")
    return f"{name} = {{ value = {unit * _value(row):.4g}, source = {said} }}"


def _limits(spec: DeviceSpec) -> list[str]:
    facts = spec.to_dict()
    return [f"{name} = {_toml(facts[name])}" for name in LIMITS if facts[name] is not None]


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool | int) else _text(str(value))


def _text(said: str) -> str:
    """A basic string of TOML; JSON's escapes are among its own."""
    return json.dumps(said)


def _copied_s(on: OpenCLContext, floats: int) -> float:
    """Seconds of a copy from the host that is waited for: the best of the rounds' medians."""
    step = copy_step(on.spec, floats)
    value, data = step.operands[0].value, np.ones(floats, "f4")
    bare = BareSteps(on, (step,), {})
    medians = []
    for _ in range(_ROUNDS + 1):                # the first touches the memory
        times = []
        for _ in range(_RUNS):
            start = perf_counter_ns()
            bare.write(value, data)
            bare.finish()
            times.append((perf_counter_ns() - start) / 1e9)
        medians.append(median(times))
    bare.close()
    return min(medians[1:])


def _line(small_s: float, large_s: float) -> tuple[float, float]:
    """What a copy costs before its first byte, and bytes a second after it."""
    each_s = max(large_s - small_s, 1e-9) / (4 * (_LARGE - _SMALL))
    return max(small_s - 4 * _SMALL * each_s, 0.0), 1 / each_s


def told(text: str) -> Sequence[str]:
    """The lines of a sheet that are figures, for the terminal."""
    return [line for line in text.splitlines() if "value =" in line]
