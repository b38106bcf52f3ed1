from __future__ import annotations

import numpy as np

from handtorch.meters.signal import FAST_NS, Absent, Signal
from handtorch.profile.energy.model import Series
from handtorch.profile.sampled import Deadlines, Failed, Readings, Troubles
from handtorch.profile.sensed import sensed_rows
from handtorch.record import Missing, Result, Sample
from handtorch.record import Signal as SignalRow

RAIL = Signal("ina3221", "gpu_power_w", "lowpass", "gpu", FAST_NS, span_ns=20_000_000,
              parent="in_power_w", step=0.08, basis="documented", where="/sys/x")
SERIES = Series(RAIL, np.array([10, 20, 30]), np.array([1, 2, 3]), np.array([1.5, np.nan, 2.0]))
TROUBLES = Troubles(failed=(Failed(RAIL, 1, 3, ("gone", "denied")),), last_ns=30,
                    absent=(Absent("nvml", "no library", "install it"),), died="SIGKILL",
                    deadlines=(Deadlines(FAST_NS, 40, 3), Deadlines(10 * FAST_NS, 4, 0)),
                    cpu_share=0.012)


def test_a_reading_is_a_row_and_one_without_a_value_says_why() -> None:
    rows = list(sensed_rows(Readings((SERIES,), "process", TROUBLES), "net b8"))
    signal, *samples = rows[:4]
    assert signal == SignalRow(
        meter="ina3221", quantity="gpu_power_w", kind="lowpass", part="gpu", parent="in_power_w",
        every_ns=FAST_NS, span_ns=20_000_000, step=0.08, basis="documented", source="/sys/x")
    assert [(s.time_ns, s.error_ns, s.value, s.value_reason, s.provenance)
            for s in samples if isinstance(s, Sample)] == [
        (10, 1, 1.5, "", "measured"), (20, 2, None, "gone; denied", "measured"),
        (30, 3, 2.0, "", "measured")]


def test_what_is_missing_and_what_it_cost() -> None:
    rows = list(sensed_rows(Readings((SERIES,), "process", TROUBLES), "net b8", "simulated"))
    assert {s.provenance for s in rows if isinstance(s, Sample)} == {"simulated"}
    missing = [m for m in rows if isinstance(m, Missing)]
    assert missing[0] == Missing(source="nvml", why="no library", fix="install it")
    assert missing[1] == Missing(source="sampler", time_ns=30,
                                 why="the sampler died (SIGKILL) after 0.00 s")
    assert {r.name: (r.value, r.x_value) for r in rows if isinstance(r, Result)} == {
        "sampler's processor time": (0.012, None), "deadlines missed by the sampler": (3.0, 44.0)}


def test_a_sampler_that_never_was_has_no_cost() -> None:
    rows = list(sensed_rows(Readings((), "none", Troubles(not_started="no room")), "net b8"))
    assert rows == [Missing(source="sampler", why="no sampling: no room")]
