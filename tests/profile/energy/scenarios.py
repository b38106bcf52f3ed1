"""The machines on which joules have to be right: each kind of meter, few steps and many."""

from __future__ import annotations

from dataclasses import replace

from tests.profile.energy.judged import Scenario
from tests.profile.energy.simulated import Meter, Work

# Device clocks are compared with the host's at least each second; between, they drift.
_CLOCK = Meter(drift_ppm=50, resync_s=1)
# INA3221: one step is 40 uV on the shunt, 77 mW on a TX2's rails, 0.4 W on an AGX Orin's.
TX2 = replace(_CLOCK, least=0.077, noise_w=0.1)
ORIN = replace(_CLOCK, least=0.4, noise_w=0.1)
# RAPL: 15.3 uJ, every ms. It wraps after 262 kJ; here after 50 J, so that every run has some.
RAPL = replace(_CLOCK, kind="counter", span_ms=1, least=15.3e-6, wraps_j=50)
LOWPASS = replace(_CLOCK, kind="lowpass", span_ms=20, least=0.077, noise_w=0.05)
WINDOW = replace(_CLOCK, kind="window", span_ms=100, least=0.001, noise_w=0.05)
HELD = replace(WINDOW, held_ms=100)         # as NVML: a new value every 100 ms

# With a value every 100 ms, 400 of them in an operation take long operations.
_LONG = Work(lengths_ms=((0.6, 0.2, 2.0), (0.3, 2.0, 25.0), (0.1, 40.0, 80.0)))


def _by_steps(name: str, meter: Meter, work: Work, steps: tuple[int, ...] = (20, 200, 1000),
              hard: bool = False) -> list[Scenario]:
    """Of 1000 steps fewer seeds, as they take longest."""
    return [Scenario(f"{name}, {n} steps", meter, replace(work, steps=n), 8 if n == 1000 else 16,
                     hard=hard) for n in steps]


def _more(name: str, meter: Meter, steps: int = 200, **other: object) -> Scenario:
    return Scenario(f"{name}, {steps} steps", meter, Work(steps=steps), **other)  # type: ignore[arg-type]


# Hard are the meters that do not say when their value was made, but for 20 or 100 ms.
TABLE: tuple[Scenario, ...] = (
    _more("instant, ideal", Meter(), skew_ms=0.0),
    *_by_steps("instant, 77 mW", TX2, Work()),
    *_by_steps("instant, 0.4 W", ORIN, Work()),
    _more("instant, 1 W noise", replace(TX2, noise_w=1)),
    _more("instant, over 2 ms", replace(TX2, span_ms=2)),
    _more("instant, 2.3 ms late", replace(TX2, lag_ms=2.3)),
    _more("instant, reads of 2 ms", replace(TX2, read_ms=2)),
    _more("instant, many missed", replace(TX2, missed=0.2, late=0.2)),
    Scenario("instant, power falls in ops", TX2, Work(shape=0.1)),
    Scenario("instant, two lanes, 200 steps", TX2, Work(lanes=2), 12),
    Scenario("instant, two lanes, 1000 steps", TX2, Work(steps=1000, lanes=2), 6),
    _more("instant, clock never compared", replace(TX2, resync_s=float("inf")), asked=False),
    *_by_steps("counter, 15 uJ, 1 ms", RAPL, Work()),
    _more("counter, 1 mJ", replace(RAPL, least=1e-3)),
    _more("counter, 20 ms", replace(RAPL, span_ms=20), 1000, seeds=8, hard=True),
    _more("counter, 2.3 ms late", replace(RAPL, lag_ms=2.3)),
    _more("counter, many missed", replace(RAPL, missed=0.2, late=0.2)),
    Scenario("counter, two lanes, 1000 steps", RAPL, Work(steps=1000, lanes=2), 6),
    *_by_steps("low-pass, 20 ms", LOWPASS, Work()),
    *_by_steps("low-pass, 5 ms", replace(LOWPASS, span_ms=5), Work(), (200, 1000)),
    _more("low-pass, 2.3 ms late", replace(LOWPASS, lag_ms=2.3)),
    *_by_steps("window, gliding", WINDOW, _LONG, (20, 200, 1000)),
    *_by_steps("window, held", HELD, _LONG, (200, 1000), hard=True),
    *_by_steps("window, held, read in 100 ms", replace(HELD, every_ms=100, dither_ms=25), _LONG,
               (1000,), hard=True),
)
# For every day: each kind, a late rail, two lanes. So few operations (120 of a kind) hold the share
# of good intervals to 95 % within 7; the whole table holds it to 3.
QUICK: tuple[Scenario, ...] = tuple(replace(s, seeds=seeds) for s in TABLE for name, seeds in (
    ("instant, 77 mW, 200 steps", 3), ("instant, 2.3 ms late, 200 steps", 2),
    ("instant, two lanes, 200 steps", 1), ("counter, 15 uJ, 1 ms, 200 steps", 3),
    ("low-pass, 20 ms, 200 steps", 3), ("window, gliding, 200 steps", 3)) if s.name == name)
