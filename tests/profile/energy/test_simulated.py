"""The simulator itself: its truth adds up, and its meters follow the curves of their physics."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.profile.energy import simulated
from tests.profile.energy.simulated import (
    LEAD_NS,
    MS,
    PERFECT,
    Meter,
    Run,
    Work,
    lowpass_w,
    measure,
    simulate,
)

WORKS = [Work(steps=5), Work(steps=5, lanes=2), Work(steps=3, lanes=3, shape=0.3),
         Work(steps=1, ops=1), Work(steps=4, gap_ms=0, pause_ms=0)]
FLAT = Work(steps=6, gap_ms=0.5, power_cv=0, warming=0, dynamic_w=(5.0, 5.0))


def rising(before_w: float, after_w: float, at_ns: int = 2_000_000_000) -> Run:
    """Power that rises once; nothing else of the run is used."""
    run = simulate(Work(steps=1, ops=1), 0)
    edge = run.edge_ns[0] + np.array([0, at_ns, 4_000_000_000])
    watts = np.array([before_w, after_w])
    return replace(run, edge_ns=edge, watts=watts,
                   energy_j=np.concatenate([[0.0], np.cumsum(watts * np.diff(edge) / 1e9)]))


@pytest.mark.parametrize("work", WORKS)
def test_the_truth_adds_up(work: Work) -> None:
    run = simulate(work, 3)
    assert run.ops_j.sum() + run.idle_j == pytest.approx(run.rail_j, rel=1e-9)
    assert run.steps_j.sum() == pytest.approx(run.rail_j, rel=1e-9)
    of_steps = (run.joules_until(run.spans.step_end_ns.astype(float))
                - run.joules_until(run.spans.step_start_ns.astype(float)))
    assert run.steps_j == pytest.approx(of_steps, rel=1e-9)
    assert np.all(run.dynamic_j < run.ops_j) and np.all(run.dynamic_j > 0) and run.idle_j >= 0


@pytest.mark.parametrize("work", WORKS)
def test_spans_are_as_their_class_promises(work: Work) -> None:
    spans = simulate(work, 3).spans
    assert np.all(spans.end_ns > spans.start_ns)
    for lane in range(work.lanes):
        mine = spans.lane == lane
        assert np.all(spans.start_ns[mine][1:] >= spans.end_ns[mine][:-1])
    assert np.all(spans.start_ns >= spans.step_start_ns[spans.step])
    assert np.all(spans.end_ns <= spans.step_end_ns[spans.step])
    assert np.all(spans.step_start_ns[1:] >= spans.step_end_ns[:-1])
    assert np.all(np.bincount(spans.op) == work.steps)
    assert np.array_equal([int(n[4]) for n in spans.names], [
        spans.lane[spans.op == op][0] for op in range(len(spans.names))])


def test_constant_power_is_power_times_time() -> None:
    """Base 2 W and 5 W for what runs: 7 W times an operation's seconds."""
    run = simulate(FLAT, 1)
    spans = run.spans
    seconds = np.bincount(spans.op, spans.end_ns - spans.start_ns) / 1e9
    assert run.ops_j == pytest.approx(7 * seconds, rel=1e-9)
    assert run.dynamic_j == pytest.approx(5 * seconds, rel=1e-9)
    idle_s = (spans.step_end_ns - spans.step_start_ns).sum() / 1e9 - seconds.sum()
    assert idle_s > 0 and run.idle_j == pytest.approx(2 * idle_s, rel=1e-9)


def test_the_base_is_shared_by_those_that_run_at_once() -> None:
    """Without power of their own, two lanes halve the base where both run."""
    run = simulate(replace(FLAT, lanes=2, dynamic_w=(1e-9, 1e-9)), 1)
    spans = run.spans
    seconds = np.bincount(spans.op, spans.end_ns - spans.start_ns) / 1e9
    lane0 = np.array([n.startswith("lane0") for n in spans.names])
    both_s = 0.0
    for a, b in zip(spans.start_ns[spans.lane == 0], spans.end_ns[spans.lane == 0], strict=True):
        low = np.maximum(spans.start_ns[spans.lane == 1], a)
        high = np.minimum(spans.end_ns[spans.lane == 1], b)
        both_s += np.maximum(0, high - low).sum() / 1e9
    assert both_s > 0.1
    assert run.ops_j[lane0].sum() == pytest.approx(2 * seconds[lane0].sum() - both_s, rel=1e-6)
    assert run.ops_j[~lane0].sum() == pytest.approx(2 * seconds[~lane0].sum() - both_s, rel=1e-6)


def test_power_varies_with_instances_and_temperature_as_told() -> None:
    work = Work(steps=400, ops=3, lengths_ms=((1.0, 20.0, 25.0),), warming=0)
    run = simulate(work, 2)
    spans = run.spans
    own_w = run.watts[run.segment_at((spans.start_ns + 1).astype(float))] - work.base_w
    for op in range(3):
        of_op = own_w[spans.op == op]
        assert of_op.std() / of_op.mean() == pytest.approx(0.03, rel=0.15)     # 1/sqrt(800) = 4 %
    lengths = (spans.end_ns - spans.start_ns)[spans.op == 0]
    assert np.log(lengths).std() == pytest.approx(np.hypot(0.03, 0.01), rel=0.15)
    warm = simulate(replace(work, warming=0.1, warming_s=5), 2)
    assert warm.watts[0] == pytest.approx(2 * (1 + 0.1 * (1 - np.exp(-0.5 / 5))), rel=1e-3)
    assert warm.watts[-1] == pytest.approx(2.2, rel=1e-2)
    assert warm.dynamic_j / run.dynamic_j == pytest.approx(1.1, rel=0.03)       # all but 5 s


def test_shape_moves_power_inside_an_operation_and_keeps_its_sum() -> None:
    flat, shaped = simulate(FLAT, 1), simulate(replace(FLAT, shape=0.2), 1)
    assert shaped.ops_j == pytest.approx(flat.ops_j, rel=1e-5)
    start = (shaped.spans.start_ns + 1).astype(float)
    assert shaped.watts[shaped.segment_at(start)] == pytest.approx(2 + 5 * 1.2)


@pytest.mark.parametrize("lanes", [1, 2])
def test_an_ideal_meter_integrates_to_the_truth(lanes: int) -> None:
    """Points every 10 us, times 10 us: every edge is missed by at most that."""
    run = simulate(Work(steps=3, lanes=lanes), 5)
    got = measure(run, replace(PERFECT, every_ms=0.01), 0)
    inside = ((got.taken_ns >= run.spans.step_start_ns[0])
              & (got.taken_ns < run.spans.step_end_ns[-1]))
    pauses_s = (run.spans.step_start_ns[1:] - run.spans.step_end_ns[:-1]).sum() / 1e9
    total = got.series.value[inside].sum() * 1e-5 - pauses_s * run.watts[0]
    assert total == pytest.approx(run.rail_j, rel=2e-3)


def test_an_ideal_counter_is_the_truth() -> None:
    run = simulate(Work(steps=4), 5)
    meter = replace(PERFECT, kind="counter", span_ms=0.001)
    got = measure(run, meter, 0)
    assert np.all(np.abs(got.series.value - run.joules_until(got.taken_ns)) <= 1e-6 * 16)
    assert np.array_equal(got.series.time_ns, np.rint(got.taken_ns))


def test_the_low_pass_answers_a_rise_by_its_curve() -> None:
    run = rising(2, 12)
    at = run.edge_ns[1] + np.array([-5.0, 0.0, 3.0, 20.0, 100.0]) * MS
    want = [2, 2, *(12 - 10 * np.exp(-np.array([3, 20, 100]) / 20))]
    assert lowpass_w(run, 20 * MS, at) == pytest.approx(want, rel=1e-12)


def test_the_low_pass_keeps_the_mean() -> None:
    run = simulate(Work(steps=30), 1)
    at = np.arange(run.edge_ns[0], run.edge_ns[-1], 1e5, dtype=float)
    mean = run.energy_j[-1] / ((run.edge_ns[-1] - run.edge_ns[0]) / 1e9)
    assert lowpass_w(run, 20 * MS, at).mean() == pytest.approx(mean, rel=1e-3)


def test_a_window_climbs_in_a_line_and_holds_between_updates() -> None:
    run = rising(2, 12)
    perfect = replace(PERFECT, kind="window", span_ms=100)
    gliding = measure(run, perfect, 0)
    part = np.clip((gliding.taken_ns - run.edge_ns[1]) / (100 * MS), 0, 1)
    assert gliding.series.value == pytest.approx(2 + 10 * part, rel=1e-9)
    assert np.all(gliding.fresh)
    held = measure(run, replace(perfect, held_ms=100, noise_w=0.5), 0)
    assert held.fresh.sum() == pytest.approx(len(held.fresh) / 10, abs=1)
    assert np.array_equal(held.fresh[1:], np.diff(held.series.value) != 0)     # noise is held too


def test_a_counter_is_brought_up_to_date_rounds_down_and_wraps() -> None:
    run = rising(2, 12)
    meter = replace(PERFECT, kind="counter", span_ms=25, least=0.5, wraps_j=8.0, first_j=6.25)
    got = measure(run, meter, 0).series.value
    assert np.all(got < 8) and np.all(got >= 0) and np.all(np.mod(got, 0.5) == 0)
    assert np.sum(np.diff(got) < 0) == 4                # from 7.25 J to 34.25 J: 8, 16, 24 and 32
    unwrapped = got + 8 * np.concatenate([[0], np.cumsum(np.diff(got) < 0)])
    late = 6.25 + run.joules_until(measure(run, meter, 0).taken_ns) - unwrapped
    assert np.all(late >= 0) and np.all(late < 0.5 + 12 * 0.025)
    assert late.max() > 0.5                             # rounding alone would not do that


def test_noise_and_quantisation_are_as_told() -> None:
    run = rising(2, 2)
    noisy = measure(run, replace(PERFECT, noise_w=0.1, every_ms=0.2), 1).series.value
    assert noisy.std() == pytest.approx(0.1, rel=0.03)
    assert noisy.mean() == pytest.approx(2, abs=0.005)
    coarse = measure(run, replace(PERFECT, noise_w=0.1, least=0.4, every_ms=0.2), 1).series.value
    assert coarse == pytest.approx(np.rint(noisy / 0.4) * 0.4)


def test_an_acquisition_is_the_mean_of_the_time_before() -> None:
    run = rising(2, 12)
    got = measure(run, replace(PERFECT, span_ms=4, every_ms=1), 0)
    part = np.clip((got.taken_ns - run.edge_ns[1]) / (4 * MS), 0, 1)
    assert got.series.value == pytest.approx(2 + 10 * part, rel=1e-9)


def test_lag_and_offset_and_drift_are_where_they_belong() -> None:
    run = rising(2, 12)
    lag = measure(run, replace(PERFECT, lag_ms=3, every_ms=0.1), 0).series
    assert lag.time_ns[np.argmax(lag.value > 5)] - run.edge_ns[1] == pytest.approx(3 * MS, abs=1e5)
    clean, skewed = (measure(run, replace(PERFECT, **kind), 0).series for kind in (
        {}, {"offset_ms": -0.1, "drift_ppm": 50.0, "resync_s": 1.0}))
    assert np.array_equal(clean.value, skewed.value)
    ahead = skewed.time_ns - clean.time_ns
    since = np.mod((clean.time_ns - run.edge_ns[0]) / 1e9, 1.0)
    assert ahead == pytest.approx(-1e5 + 50_000 * since, abs=2)
    assert ahead.max() - ahead.min() == pytest.approx(50_000, rel=0.02)


def test_reads_block_come_late_and_are_missed_as_told() -> None:
    run = simulate(Work(steps=40), 1)
    got = measure(run, Meter(read_ms=4, late=0.1, late_ms=20, missed=0.2, every_ms=5), 1)
    series = got.series
    assert np.all(np.abs(got.taken_ns - series.time_ns) <= series.half_ns + 1)
    off = (got.taken_ns - series.time_ns) / series.half_ns
    assert off.std() == pytest.approx(3 ** -0.5, rel=0.05)     # any moment of a read alike
    assert np.all(np.diff(series.time_ns) >= 3.2 * MS)         # never two reads at once
    assert np.isnan(series.value).mean() == pytest.approx(0.1, abs=0.02)
    assert not np.any(got.fresh & np.isnan(series.value))
    deadlines = (run.edge_ns[-1] - run.edge_ns[0] - LEAD_NS / 2) / (5 * MS)
    assert len(series.value) == pytest.approx(0.9 * deadlines, rel=0.02)
    assert np.diff(series.time_ns).max() > 20 * MS


def test_deadlines_are_dithered_to_both_sides() -> None:
    run = simulate(Work(steps=40), 1)
    got = measure(run, replace(PERFECT, dither_ms=2.5), 1)
    off = (got.taken_ns - run.edge_ns[0] - LEAD_NS / 2 + 5 * MS) % (10 * MS) - 5 * MS
    assert np.all(np.abs(off) <= 2.5 * MS)
    assert off.std() == pytest.approx(2.5 * MS * 3 ** -0.5, rel=0.1)
    assert abs(off.mean()) < 0.2 * MS


def test_pooled_counts_new_values_taken_while_an_operation_ran() -> None:
    run = simulate(Work(steps=20, lanes=2), 1)
    spans = run.spans
    for meter in (Meter(), Meter("window", span_ms=100, held_ms=100), Meter("counter", span_ms=1)):
        got = measure(run, meter, 2)
        want = np.zeros(len(spans.names), int)
        for t in got.taken_ns[got.fresh]:
            np.add.at(want, spans.op[(spans.start_ns <= t) & (t < spans.end_ns)], 1)
        assert np.array_equal(got.pooled(spans), want)
    assert measure(run, Meter(missed=2.0), 2).pooled(spans).sum() == 0


def test_the_same_seed_gives_the_same_and_another_gives_another() -> None:
    one, two, other = (measure(simulate(Work(steps=2), s), Meter(noise_w=0.1), s).series
                       for s in (1, 1, 2))
    assert np.array_equal(one.value, two.value, equal_nan=True)
    assert len(one.value) != len(other.value) or not np.array_equal(one.value, other.value)


def test_the_simulator_knows_no_estimator() -> None:
    """Of the package it imports words only, so a mistake cannot be made twice alike."""
    tree = ast.parse(Path(simulated.__file__).read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {n for n in names if n and n.startswith("handtorch")} == {
        "handtorch.meters.signal", "handtorch.profile.energy.model"}
    assert not [a.name for node in ast.walk(tree) if isinstance(node, ast.Import)
                for a in node.names if a.name.startswith("handtorch")]
