from __future__ import annotations

from dataclasses import replace

from handtorch.record import Run, Sample, Signal
from handtorch.report.levels import levels
from tests.report.profiled import CLOCK, T0, profiled_run


def read(quantity: str, *values: float | None) -> tuple[Sample, ...]:
    return tuple(Sample(time_ns=T0 + 10**9 * i, clock=CLOCK, meter="m", quantity=quantity, value=v,
                        value_reason="" if v is not None else "busy", provenance="measured")
                 for i, v in enumerate(values))


def with_samples(*samples: Sample) -> Run:
    return replace(profiled_run(), samples=samples)


def test_power_is_shown_as_it_was_read() -> None:
    (found,) = levels(with_samples(*read("gpu_power_w", 1.5, None, 2.0)), "gpu")
    assert (found.name, found.unit, found.lines[0].name) == ("power", "W", "gpu")
    assert [v for _, v in found.lines[0].points] == [1.5, None, 2.0]


def test_counted_joules_become_watts_also_where_the_counter_wraps() -> None:
    run = with_samples(*read("package_energy_j", 10.0, 13.0, 1.0))
    signal = Signal(meter="m", quantity="package_energy_j", kind="counter", part="cpu", every_ns=1,
                    wraps_at=16.0)
    (found,) = levels(replace(run, signals=(signal,)), "gpu")
    assert [v for _, v in found.lines[0].points] == [3.0, 4.0, None]
    (unknown,) = levels(run, "gpu")
    assert [v for _, v in unknown.lines[0].points] == [3.0, None, None]


def test_loads_are_percent_and_threads_are_left_out() -> None:
    found = levels(with_samples(*read("gpu_busy_ratio", 0.5), *read("thread7_busy_s", 1.0, 2.0)),
                   "gpu")
    assert [(f.name, f.unit, f.lines[0].points[0][1]) for f in found] == [("load", "%", 50.0)]


def test_two_processes_have_two_names() -> None:
    torch = (replace(s, meter="threads of torch") for s in read("process_busy_s", 0.0, 1.0))
    (found,) = levels(with_samples(*read("process_busy_s", 5.0, 7.0), *torch), "gpu")
    assert [(line.name, line.points[0][1]) for line in found.lines] == [
        ("process", 2.0), ("process (threads of torch)", 1.0)]
