"""The judge: an honest oracle passes, and each kind of bad estimator fails for its own reason."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from handtorch.profile.energy.model import Attribution, Floats, OpEnergy, Series
from tests.profile.energy.judged import HEAD, Estimator, Scenario, broken, coverage, judge, line
from tests.profile.energy.scenarios import HELD, LOWPASS, QUICK, RAPL, TABLE, TX2
from tests.profile.energy.simulated import Meter, Run, Work

# Each kind: so many operations that chance moves a share of 95 % by 0.7 %.
SCENARIOS = [Scenario(f"{meter.kind}, 200 steps", meter, Work(steps=200, lengths_ms=(
    (0.6, 0.2, 2.0), (0.3, 2.0, 25.0), (0.1, 40.0, 180.0))), seeds=25)
    for meter in (TX2, RAPL, LOWPASS, replace(HELD, held_ms=0))]


def answer(run: Run, series: Series, total: Floats, sigma: Floats, *, wide: float = 1.96,
           refuse: Callable[[Floats, Floats], Floats] | None = None, leak: float = 0.0
           ) -> Attribution:
    """An attribution that says these joules, and that each is so sure."""
    no = np.zeros(len(total), bool) if refuse is None else refuse(total, sigma).astype(bool)
    ops = tuple(
        OpEnergy(name, 0, 0.0, 0, None, None, None, None, "too few readings") if gone else
        OpEnergy(name, 0, 0.0, 0, t, t - wide * s, t + wide * s, None)
        for name, t, s, gone in zip(run.spans.names, total.tolist(), sigma.tolist(), no,
                                    strict=True))
    rest = run.rail_j - run.idle_j - sum(op.total_j or 0.0 for op in ops)
    return Attribution(series.signal, "oracle", "", run.rail_j, run.idle_j, rest + leak, None, 0, 0,
                       tuple(run.steps_j.tolist()), ops)


def oracle(bias: float = 0.0, scale: float = 1.0, noise: float = 1.0, **other: object
           ) -> Estimator:
    """Knows the truth, errs by 1 % where there are 400 readings and less or more elsewhere, and
    says so; or errs `noise` times as much, or is biased, or says `scale` times what is right."""
    def estimate(run: Run, series: Series) -> Attribution:
        rng = np.random.default_rng(zlib.crc32(series.time_ns.tobytes()))
        spans = run.spans
        seconds = np.bincount(spans.op, spans.end_ns - spans.start_ns) / 1e9
        sigma = run.ops_j * noise * 0.2 / np.sqrt(seconds * 100)
        total = run.ops_j * (1 + bias) + rng.normal(0, 1, len(sigma)) * sigma
        return answer(run, series, total, sigma * scale, **other)  # type: ignore[arg-type]
    return estimate


def test_an_honest_oracle_passes_on_every_kind() -> None:
    judged = [judge(s, oracle()) for s in SCENARIOS]
    assert broken(judged) == []
    for j in judged:
        assert j.many.sum() >= 30 and (~j.many & j.given).sum() >= 300
        assert 0.92 <= j.covered.mean() <= 0.98


def test_an_oracle_that_refuses_what_is_uncertain_passes() -> None:
    careful = oracle(refuse=lambda total, sigma: 1.96 * sigma > total / 10)
    judged = [judge(s, careful) for s in SCENARIOS]
    assert broken(judged) == [] and all((~j.given).sum() > 20 for j in judged)


@pytest.mark.parametrize(("estimator", "said"), [
    (oracle(bias=0.08), ("with 400 readings are off", "intervals contain the truth")),
    (oracle(bias=0.02), ("instant: ", "intervals contain the truth")),
    (oracle(scale=0.5), ("instant: 6", "intervals contain the truth")),
    (oracle(scale=0.8), ("instant: 8", "intervals contain the truth")),
    (oracle(scale=2.0), ("instant: 100.0%", "intervals contain the truth")),
    (oracle(scale=0.1), ("that claim 5% unasked are wrong",)),
    (oracle(refuse=lambda total, sigma: total > 0), ("with 400 readings are refused",)),
    (oracle(leak=1e-6), ("rail is not ops + idle + unattributed, by",)),
], ids=["biased", "a little biased", "twice too sure", "a little too sure", "never sure",
        "claims 5 %", "refuses all", "leaks"])
def test_a_bad_estimator_fails_for_its_reason(estimator: Estimator, said: tuple[str, ...]) -> None:
    lines = broken([judge(SCENARIOS[0], estimator)])
    for part in said:
        assert any(part in text for text in lines), lines


def test_joules_without_an_interval_are_seen() -> None:
    def bare(run: Run, series: Series) -> Attribution:
        got = oracle()(run, series)
        return replace(got, ops=(replace(got.ops[0], low_j=None, high_j=None), *got.ops[1:]))
    assert "instant, 200 steps: 25 have no interval" in broken([judge(SCENARIOS[0], bare)])


def test_a_wrong_rail_is_seen() -> None:
    def wrong(run: Run, series: Series) -> Attribution:
        got = oracle()(run, series)
        assert got.rail_j is not None and got.unattributed_j is not None
        more = 0.03 * got.rail_j
        return replace(got, rail_j=got.rail_j + more, unattributed_j=got.unattributed_j + more)
    assert broken([judge(SCENARIOS[0], wrong)]) == ["instant, 200 steps: the rail is off by 3.0%"]


def trapezoid(run: Run, series: Series) -> Attribution:
    """Power between readings drawn as lines and integrated over each span; 5 % each way."""
    there = ~np.isnan(series.value)
    at, watts = series.time_ns[there] / 1e9, series.value[there]
    total = np.concatenate([[0.0], np.cumsum(np.diff(at) * (watts[1:] + watts[:-1]) / 2)])
    fine = np.unique(np.concatenate([run.spans.start_ns, run.spans.end_ns])) / 1e9
    both = np.union1d(at, fine)
    area = np.interp(both, at, watts)
    running = np.concatenate([[0.0], np.cumsum(np.diff(both) * (area[1:] + area[:-1]) / 2)])
    assert running[-1] == pytest.approx(total[-1])
    each = np.interp(run.spans.end_ns / 1e9, both, running) - np.interp(
        run.spans.start_ns / 1e9, both, running)
    ops = np.bincount(run.spans.op, each, len(run.spans.names))
    return answer(run, series, ops, 0.05 * ops / 1.96)


def test_the_naive_trapezoid_fails_even_without_noise_and_skew() -> None:
    """Short operations look like their neighbours, and more steps do not help."""
    for steps in (200, 1000):
        judged = judge(Scenario("trapezoid", Meter(), Work(steps=steps), 3, skew_ms=0.0), trapezoid)
        off = np.abs(judged.error)
        assert np.median(off[judged.samples < 10 * steps / 200]) > 0.15
        lines = broken([judged])
        assert any("with 400 readings are off" in text for text in lines), lines
        assert any("intervals contain the truth" in text for text in lines), lines


def test_an_estimator_that_is_right_in_some_runs_only_is_not_forgiven() -> None:
    """Nine runs of ten are perfect and the tenth all wrong: as a share that is 90 %."""
    runs = itertools.count()
    def sometimes(run: Run, series: Series) -> Attribution:
        wrong = next(runs) % 10 == 0
        return answer(run, series, run.ops_j * (1.04 if wrong else 1), run.ops_j * 0.01)
    judged = judge(replace(SCENARIOS[0], seeds=20), sometimes)
    share, se, n = coverage([judged])
    assert (share, n) == (0.9, 800) and se == pytest.approx((0.9 * 0.1 / 20) ** 0.5)
    assert any(text.startswith("instant: ") for text in broken([judged]))


def test_a_bad_scenario_does_not_hide_among_good_ones_of_its_kind() -> None:
    good = judge(SCENARIOS[0], oracle())
    bad = judge(replace(SCENARIOS[0], name="bad"), oracle(scale=0.75))
    (text,) = broken([good, good, good, good, bad])
    assert text.startswith("bad: 8") and text.endswith("of 1000 intervals contain the truth")


def test_a_scenario_that_is_not_asked_breaks_nothing() -> None:
    bad = judge(replace(SCENARIOS[0], asked=False), oracle(bias=1))
    assert broken([bad]) == []


def test_on_a_hard_machine_it_may_refuse_or_be_unsure_but_not_be_sure_and_wrong() -> None:
    hard = replace(SCENARIOS[0], hard=True)
    assert broken([judge(hard, oracle(refuse=lambda total, sigma: total > np.median(total)))]) == []
    assert broken([judge(hard, oracle(noise=5.0))]) == []
    assert broken([judge(SCENARIOS[0], oracle(noise=5.0))]) != []
    lines = broken([judge(hard, oracle(bias=0.08))])
    assert any("that claim 5% unasked are wrong" in text for text in lines), lines


def test_a_row_says_what_was_found() -> None:
    judged = judge(replace(SCENARIOS[0], seeds=2), oracle())
    words = line(judged).split()
    assert words[3] == str(len(judged.error)) == "80" and len(line(judged)) == len(HEAD)
    assert f"{100 * judged.covered.mean():.1f}" in words


def test_the_table_asks_for_every_kind_of_meter_and_trouble() -> None:
    asked = [s for s in TABLE if s.asked]
    for table in (asked, QUICK):
        assert {s.meter.kind for s in table} == {"instant", "counter", "lowpass", "window"}
        assert {s.work.lanes for s in table} == {1, 2}
    assert len(QUICK) == 6
    assert {s.work.steps for s in asked} == {20, 200, 1000}
    assert len({s.name for s in TABLE}) == len(TABLE)
    for trouble in ("noise_w", "least", "lag_ms", "drift_ppm", "missed", "late", "wraps_j",
                    "held_ms"):
        assert any(getattr(s.meter, trouble) for s in asked), trouble
    assert max(s.skew_ms for s in asked) == 0.1
    assert max(s.meter.read_ms for s in asked) == 2
