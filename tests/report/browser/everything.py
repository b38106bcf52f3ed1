"""Runs with all that a page can show: for people's eyes, and by the hundred thousand."""

from __future__ import annotations

from dataclasses import replace
from math import sin
from typing import Any

from handtorch.record import (
    Clock,
    Comparison,
    Energy,
    Gap,
    Launch,
    Memory,
    Place,
    Published,
    Result,
    Run,
    Sample,
    Signal,
    Step,
    Verdict,
)
from handtorch.report.memory import ALIVE
from handtorch.report.roofline import ARITHMETIC, MEMORY

CLOCK, SUBJECT = "CLOCK_MONOTONIC", "LeNet b32"
T0 = 5_000_000_000_000
LAYERS = ("conv1", "conv2", "fc1", "a_module.with_a_long_name.and_more.attention.out_proj")
COMMON: dict[str, Any] = {"better": "lower", "repeats": 5, "spread": 0.1, "provenance": "measured"}


def launches_of(step: int, count: int, begin: int, every: int) -> list[Launch]:
    made = []
    for i in range(count):
        phase = ("forward", "backward", "optimizer")[min(2, 5 * i // (2 * count))]
        start = begin + i * every
        made.append(Launch(
            step=step, number=i, kernel=("gemm_register", "pointwise", "reduce")[i % 3],
            op=("matmul", "relu", "sum")[i % 3], layer=LAYERS[i % 4], phase=phase,
            source_line="net.py:12  return self.fc(x)", clock=CLOCK, queued_ns=start,
            submit_ns=start, start_ns=start, end_ns=start + every * (6 + i % 4) // 10,
            flops=4000 * (i % 3) * (1 + i % 7), moved_bytes=3000, provenance="measured"))
    return made


def steps_of(place: str, first: int, count: int, begin: int, length: int) -> list[Step]:
    return [Step(id=first + i, place=place, subject=SUBJECT, number=i, kind="training",
                 clock=CLOCK, start_ns=begin + i * length, end_ns=begin + (i + 1) * length,
                 provenance="measured") for i in range(count)]


def many(run: Run, steps: int, each: int) -> Run:
    """`steps` times `each` launches, a step in a millisecond."""
    length = 1_000_000
    return replace(
        run, clocks=(Clock(name=CLOCK, offset_ns=0, error_ns=0, provenance="measured"),),
        steps=tuple(steps_of("gpu", 0, steps, T0, length)), samples=(), memory=(), results=(),
        published=(), gaps=(),
        launches=tuple(la for i in range(steps)
                       for la in launches_of(i, each, T0 + i * length, length // each)))


def everything(run: Run) -> Run:
    """Every figure there is, with names of all lengths."""
    run = many(run, 12, 40)
    on_cpu = steps_of("cpu", 100, 6, T0 + 20_000_000, 3_000_000)
    cpu = [la for s in on_cpu for la in launches_of(s.id, 30, s.start_ns, 99_000)]
    gaps = [Gap(step=s.id, number=0, cause="launch", clock=CLOCK, start_ns=s.end_ns - 30_000,
                end_ns=s.end_ns, provenance="measured") for s in run.steps]
    verdicts = [Verdict(study="sgemm", question=f"Question {i}: is it so?", answer="It is, at 512.",
                        holds=(True, False, None)[i % 3],
                        holds_reason="no sensor" if i % 3 == 2 else "") for i in range(10)]
    return replace(
        run, steps=(*run.steps, *on_cpu), launches=(*run.launches, *cpu), gaps=tuple(gaps),
        comparisons=(Comparison(first="gpu", second="cpu", same_silicon=True,
                                same_silicon_reason="one chip"),),
        places=(*run.places, Place(name="cloud", kind="cloud", cores=None, cores_reason="far")),
        signals=(Signal(meter="ina3221", quantity="gpu_power_w", kind="instant", part="gpu",
                        every_ns=500_000),),
        samples=tuple(Sample(time_ns=T0 + 500_000 * i, clock=CLOCK, meter="ina3221",
                             quantity="gpu_power_w", value=2 + sin(i / 3), provenance="measured")
                      for i in range(80)),
        energies=tuple(energies()), memory=tuple(memory()), results=tuple(results()),
        published=(Published(study="training", name="throughput", subject="Jetson TX2",
                             x_name="batch", x_value=16, value=300, unit="samples/s",
                             source="Fig. 5"),
                   Published(study="training", name="step time", subject="Jetson TX2", value=9,
                             unit="ms", source="Table 2")),
        verdicts=tuple(verdicts))


def energies() -> list[Energy]:
    parts = [("rail", "", 2.0), ("idle", "", 0.2), ("unattributed", "", 0.1),
             *(("layer", name, 0.7 - 0.15 * i) for i, name in enumerate(LAYERS)),
             ("phase", "forward", 0.6), ("phase", "backward", 1.1)]
    return [Energy(place="gpu", subject=SUBJECT, meter="ina3221", quantity="gpu_power_w",
                   level=level, name=name, instances=12, seconds=0.01, readings=9, total_j=joules,
                   low_j=0.8 * joules, high_j=1.2 * joules, dynamic_j=0.5 * joules,
                   how="least squares over all readings", provenance="measured")
            for level, name, joules in parts]  # type: ignore[arg-type]


def memory() -> list[Memory]:
    roles = {"parameters": 300_000, "gradients": 0, "intermediates": 100_000}
    made = [Memory(place="gpu", subject=SUBJECT, moment="launch", role=role, launch=i,
                   bytes=size + (40_000 * min(i, 40 - i) if role != "parameters" else 0),
                   provenance="measured") for role, size in roles.items() for i in range(40)]
    made += [Memory(place="gpu", subject=SUBJECT, moment="peak", role=role, bytes=900_000,
                    provenance="measured") for role in roles]
    made += [Memory(place="gpu", subject=SUBJECT, moment=ALIVE, bytes=10_000 * (40 - i),
                    role=f"intermediates: matmul in {LAYERS[i % 4]} {i}", provenance="measured")
             for i in range(30)]
    return made


def results() -> list[Result]:
    made = [Result(study="training", name="throughput", subject=f"{name} with a rather long name",
                   place="gpu", x_name="batch", x_value=float(batch), unit="samples/s",
                   value=batch**0.7 * (10 + i), **COMMON | {"better": "higher"})
            for i, name in enumerate(("ours", "torch", "tinygrad", "MNN", "numpy", "CLBlast"))
            for batch in (1, 4, 16, 64)]
    made += [Result(study="training", name="loss", subject=name, place="gpu", x_name="step",
                    x_value=float(i), value=1 / (i + 1), unit="", **COMMON)
             for name in ("ours", "torch") for i in range(30)]
    made += [Result(study="training", name="step time", subject=name, place="gpu", value=value,
                    unit="ms", **COMMON | {"provenance": word})
             for name, value, word in (("ours", 2.0, "measured"), ("a phone", 7.0, "simulated"),
                                       ("by its sheet", 5.0, "estimated"))]
    made += [Result(study="profile", name=name, subject="Adreno", place="gpu", value=value,
                    unit=unit, **COMMON | {"better": "higher"})
             for name, value, unit in ((ARITHMETIC, 5e9, "FLOP/s"), (MEMORY, 2e9, "B/s"))]
    made += [Result(study="recognize", name=f"cost: {way}", unit="s", value=cost * factor,
                    subject=f"squeezenet, {network}, scene 1, 1920 x 1080, latency",
                    **COMMON | {"provenance": "simulated"})
             for network, factor in (("wifi-cafe", 0.2), ("3g-road", 3.0))
             for way, cost in (("device CPU", 0.5 / factor), ("cloud, jpeg", 0.4), ("auto", 0.41))]
    return made
