from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.meters.signal import Kind
from handtorch.profile.energy.attribute import LANES, ONE_LANE, attribute, conserved
from handtorch.profile.energy.model import Attribution, Floats, Series, Spans
from tests.profile.energy.small_world import IDLE_W, MS, powered, read, signal, world

FEW = settings(max_examples=6, deadline=None)
SENSORS: list[tuple[Kind, int, float]] = [
    ("instant", 0, 0.1), ("counter", 0, 0.0), ("lowpass", 10 * MS, 0.03), ("window", 20 * MS, 0.03)]


def add_up(found: Attribution) -> None:
    assert found.idle_j is not None and found.unattributed_j is not None
    known = [op.total_j for op in found.ops if op.total_j is not None]
    assert found.rail_j == math.fsum([*known, found.idle_j, found.unattributed_j])


def totals(found: Attribution) -> Floats:
    assert found.means_j is not None
    return found.means_j


def widths(found: Attribution) -> Floats:
    return np.array([(op.high_j - op.low_j) / totals(found)[i] for i, op in enumerate(found.ops)
                     if op.high_j is not None and op.low_j is not None])


@pytest.mark.parametrize("kind, span_ns, noise_w", SENSORS)
def test_each_kind_of_sensor_finds_what_operations_took(kind: Kind, span_ns: int, noise_w: float
                                                        ) -> None:
    """Every operation is within 10 % (a window of 20 ms: the long ones), nearly all truths are
    inside their interval, and all of it adds up."""
    inside, count = 0, 0
    for seed in range(4):
        made = world(seed, steps=150)
        found = attribute(made.spans, read(made, kind, span_ns, noise_w))
        add_up(found)
        for op, truth in zip(found.ops, made.truth, strict=True):
            assert op.low_j is not None and op.high_j is not None
            inside += op.low_j <= truth <= op.high_j
            count += 1
            assert op.total_j is not None, op
            assert abs(op.total_j / truth - 1) < 0.1, op
            assert op.dynamic_j == pytest.approx(truth - IDLE_W * op.seconds, rel=0.2)
        assert found.rail_j == pytest.approx(made.steps.sum(), rel=0.01)
        assert np.array(found.steps_j, float) == pytest.approx(made.steps, rel=0.15)
        assert found.idle_w == pytest.approx(IDLE_W, rel=0.05)
        assert found.policy == ONE_LANE
    assert inside >= count - 4                  # of 24


def test_a_late_rail_is_found_and_taken_out() -> None:
    made = world(3, steps=200)
    found = attribute(made.spans, read(made, "instant", 0, 0.1, late_ns=2_300_000))
    assert abs(found.lag_ns - 2_300_000) <= max(found.lag_error_ns, 20_000)
    assert found.lag_error_ns < 100_000
    assert totals(found) == pytest.approx(made.truth, rel=0.05)


def test_lanes_that_overlap_are_told_apart_by_what_varies() -> None:
    base = world(5, steps=200, ops=4)
    rng = np.random.default_rng(9)
    spans = base.spans
    low, high = spans.step_start_ns, spans.step_end_ns
    cut = np.sort(rng.uniform(0, 1, (len(low), 2)), axis=1)
    begin = (low + cut[:, 0] * (high - low)).astype(np.int64)
    end = (low + cut[:, 1] * (high - low)).astype(np.int64)
    steps = np.arange(len(low))
    both = Spans((*spans.names, "copy"), np.append(spans.op, np.full(len(low), 4)),
                 np.append(spans.lane, np.ones(len(low), np.int64)), np.append(spans.step, steps),
                 np.append(spans.start_ns, begin), np.append(spans.end_ns, end), low, high)
    above = np.append(np.array([6.0, 2.0, 4.0, 8.0])[spans.op], np.full(len(low), 3.0))
    made = powered(both, above)
    found = attribute(both, read(made, "instant", 0, 0.1, every_ms=3))
    add_up(found)
    assert found.policy == LANES
    assert totals(found) == pytest.approx(made.truth, rel=0.05)
    swapped = attribute(replace(both, lane=7 - both.lane),
                        read(made, "instant", 0, 0.1, every_ms=3))
    assert totals(swapped) == pytest.approx(totals(found), rel=1e-6)


@FEW
@given(seed=st.integers(0, 99), which=st.sampled_from(SENSORS), late=st.integers(0, 2 * MS),
       steps=st.integers(3, 12))
def test_known_idle_and_the_rest_are_the_rail_to_the_last_bit(
        seed: int, which: tuple[Kind, int, float], late: int, steps: int) -> None:
    made = world(seed, steps)
    found = attribute(made.spans, read(made, *which, late_ns=late, seed=seed))
    add_up(found)
    assert found.rail_j == pytest.approx(math.fsum(s for s in found.steps_j if s is not None))


@given(st.floats(0, 1e6), st.lists(st.floats(-1e6, 1e6), max_size=30))
def test_what_is_left_is_chosen_so_that_the_sum_is_exact(rail: float, shares: list[float]) -> None:
    total, rest = conserved(rail, shares)
    assert total == math.fsum([*shares, rest])
    assert total == pytest.approx(rail, abs=1e-9 * (1 + sum(map(abs, shares))))


@FEW
@given(seed=st.integers(0, 99), shift=st.integers(-10**12, 10**15), times=st.floats(0.01, 100))
def test_another_origin_of_time_and_another_unit_change_nothing(seed: int, shift: int, times: float
                                                                ) -> None:
    made = world(seed, 15)
    spans, series = made.spans, read(made, "instant", 0, 0.1)
    before = attribute(spans, series)
    moved = replace(spans, start_ns=spans.start_ns + shift, end_ns=spans.end_ns + shift,
                    step_start_ns=spans.step_start_ns + shift,
                    step_end_ns=spans.step_end_ns + shift)
    assert attribute(moved, replace(series, time_ns=series.time_ns + shift)) == before
    scaled = attribute(spans, replace(series, value=series.value * times))
    assert totals(scaled) == pytest.approx(totals(before) * times, rel=1e-4)


@FEW
@given(seed=st.integers(0, 99))
def test_a_span_cut_in_two_is_as_much_as_before_and_one_of_no_length_is_nothing(seed: int) -> None:
    made = world(seed, 20)
    spans, series = made.spans, read(made, "counter")
    whole = attribute(spans, series)
    long = np.flatnonzero(spans.op == 2)
    middle = (spans.start_ns[long] + spans.end_ns[long]) // 2
    first_end = spans.end_ns.copy()
    first_end[long] = middle
    cut = replace(
        spans, op=np.append(spans.op, spans.op[long]), lane=np.append(spans.lane, spans.lane[long]),
        step=np.append(spans.step, spans.step[long]), start_ns=np.append(spans.start_ns, middle),
        end_ns=np.append(first_end, spans.end_ns[long]))
    halves = attribute(cut, series)
    assert totals(halves) == pytest.approx(totals(whole), rel=0.05)
    assert halves.rail_j == pytest.approx(whole.rail_j, rel=1e-3)
    assert [op.seconds for op in halves.ops] == pytest.approx([op.seconds for op in whole.ops])
    empty = replace(cut, end_ns=np.append(spans.end_ns, middle))
    none = attribute(empty, series)
    assert totals(none) == pytest.approx(totals(whole), rel=1e-6)
    assert none.ops[2].instances == 2 * whole.ops[2].instances


@FEW
@given(at=st.floats(0.02, 0.98))
def test_a_counter_may_wrap_anywhere(at: float) -> None:
    made = world(4, 20)
    series = read(made, "counter")
    most = float(series.value[-1] - series.value[0])
    plain = attribute(made.spans, series)
    around = 4 * most
    wrapped = np.mod(series.value - series.value[0] + around - at * most, around)
    found = attribute(made.spans, Series(signal("counter", wraps_at=around), series.time_ns,
                                         series.half_ns, wrapped))
    assert found.notes == ("the counter wrapped 1 x: its range was added",)
    assert totals(found) == pytest.approx(totals(plain), rel=1e-3)


@FEW
@given(seed=st.integers(0, 99), which=st.sampled_from(SENSORS))
def test_missing_readings_widen_intervals(seed: int, which: tuple[Kind, int, float]) -> None:
    made = world(seed, 40)
    series = read(made, *which)
    gone = np.random.default_rng(seed).random(len(series.value)) < 0.6
    less = attribute(made.spans, replace(series, value=np.where(gone, np.nan, series.value)))
    add_up(less)
    assert less.notes[0] == f"{gone.sum()} readings are missing"
    assert np.median(widths(less)) > np.median(widths(attribute(made.spans, series)))


def test_steps_without_readings_are_left_out_and_said() -> None:
    made = world(1, 40)
    series = read(made, "instant")
    until = int(made.spans.step_end_ns[19])
    half = series.time_ns < until
    found = attribute(made.spans, Series(series.signal, series.time_ns[half], series.half_ns[half],
                                         series.value[half]))
    known = [step is not None for step in found.steps_j]
    assert known == [True] * sum(known) + [False] * (40 - sum(known)) and 19 <= sum(known) <= 23
    assert found.notes == (f"{40 - sum(known)} of 40 steps have no readings: left out",)
    assert [op.instances for op in found.ops] == [sum(known)] * 6
    add_up(found)


def test_too_little_is_refused_with_its_interval() -> None:
    """A window of 500 ms over steps of 40 ms: no operation can be told from the next."""
    made = world(2, 30, ops=12)
    found = attribute(made.spans, read(made, "window", 500 * MS, 0.3, every_ms=50))
    refused = [op for op in found.ops if op.total_j is None]
    assert refused
    for op in refused:
        assert op.reason.startswith("not enough data: +-") and op.low_j is not None
    add_up(found)


def test_what_is_no_energy_and_what_is_no_data_have_a_reason() -> None:
    made = world(0, 3)
    few = read(made, "instant")
    few = Series(few.signal, few.time_ns[:3], few.half_ns[:3], few.value[:3])
    found = attribute(made.spans, few)
    assert (found.reason, found.rail_j) == ("not enough data: 3 readings", None)
    assert {op.reason for op in found.ops} == {"not enough data: 3 readings"}
    late = read(made, "instant")
    late = replace(late, time_ns=late.time_ns + 10**12)
    assert attribute(made.spans, late).reason == "not enough data: no readings during the steps"
    state = replace(read(made, "instant"), signal=signal("gauge"))
    assert attribute(made.spans, state).reason == (
        "rail_power_w is a gauge in w, not power in w or a counter in j")


def test_without_idle_there_is_no_dynamic_energy() -> None:
    made = world(0, 60, gaps=False)
    series = read(made, "instant", 0, 0.05)
    first, last = made.spans.step_start_ns[0], made.spans.step_end_ns[-1]
    during = (series.time_ns >= first) & (series.time_ns < last)
    found = attribute(made.spans, Series(series.signal, series.time_ns[during],
                                         series.half_ns[during], series.value[during]))
    assert found.idle_w is None and found.idle_j == 0.0
    assert {op.dynamic_j for op in found.ops} == {None}
    assert {op.reason for op in found.ops} == {"no dynamic energy: idle power was not seen"}
    assert totals(found) == pytest.approx(made.truth, rel=0.1)
