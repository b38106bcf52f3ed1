from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from handtorch.record import Energy, Run
from handtorch.report.timeline import timelines
from tests.report.profiled import T0, profiled_run
from tests.report.test_packed import unpacked


def data(html: str, parse: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(parse(html).all("script")[0].text)
    return found


def test_rows_are_steps_lanes_host_and_idle(parse: Any) -> None:
    ((place, html),) = timelines(profiled_run())
    made = data(html, parse)
    assert place == "gpu"
    assert [(r["name"], r["kind"], r["count"]) for r in made["rows"]] == [
        ("steps", "step", 2), ("queue", "work", 4), ("queue 2", "work", 2), ("host", "host", 2),
        ("idle", "idle", 4)]
    queue = unpacked(made["rows"][1]["spans"])
    assert queue[:2] == [(1_000, 400_000, queue[0][2]), (400_000, 700_000, queue[1][2])]
    kernel, phase, op, layer, line, flops, moved, bounded = made["labels"][queue[1][2]]
    assert (kernel, made["phases"][phase], op, layer) == (
        "gemm", ["backward", "c1"], "matmul", "fc1")
    assert line.startswith("train.py:41") and (flops, moved, bounded) == (2000, 0, 0)


def test_what_is_not_on_the_time_axis_is_said(parse: Any) -> None:
    ((_, html),) = timelines(profiled_run())
    assert "1 launches and readings of this run have no usable time" in html
    assert timelines(replace(profiled_run(), clocks=())) == []


def test_three_steps_with_the_median_in_the_middle_are_shown(parse: Any) -> None:
    run = profiled_run()
    steps = tuple(replace(run.steps[0], id=i, number=i, start_ns=T0 + 1_000_000 * i,
                          end_ns=T0 + 1_000_000 * i + 900_000 + (abs(i - 5) + 3) % 11)
                  for i in range(11))
    ((_, html),) = timelines(replace(run, steps=steps))
    start, end = data(html, parse)["window"]
    assert 2_900_000 <= end - start <= 3_100_000
    median = sorted(steps, key=lambda s: s.end_ns - s.start_ns)[5]
    assert start < median.start_ns - T0 < median.end_ns - T0 < end


def test_cores_and_estimated_power_lie_under_it(parse: Any) -> None:
    run = profiled_run()
    counted = tuple(replace(s, quantity="cpu0_busy_s", time_ns=T0 + 500_000 * i, value=0.0005 * i)
                    for i, s in enumerate(run.samples))
    spent = tuple(Energy(place="gpu", subject="mlp b32", meter="sheet", quantity="device_power_w",
                         level="step", name=str(i), instances=1, seconds=0.001, readings=0,
                         total_j=0.002, dynamic_j=None, dynamic_reason="-", how="a sheet",
                         provenance="estimated") for i in range(2))
    ((_, html),) = timelines(replace(run, samples=counted, energies=spent))
    power, cores = data(html, parse)["tracks"]
    assert (power["name"], power["unit"]) == ("power", "W")
    assert power["lines"][0]["values"] == [2.0, None, 2.0, None]
    assert power["lines"][0]["provenance"] == "estimated"
    assert cores["lines"][0]["values"] == [1.0, 1.0, None]
    assert "estimated" in [e.text for e in parse(html).all("span", "badge")]


def test_a_run_without_launches_has_none(run: Run) -> None:
    assert timelines(replace(run, launches=())) == []
