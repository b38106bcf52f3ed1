"""What is joined: operations in time, and the readings of one signal; and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from handtorch.meters.signal import Signal

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Spans:
    """When each instance of each operation ran, on CLOCK_MONOTONIC, as columns of one length.

    Spans of one lane do not overlap; lanes run at the same time. `op` is an index into `names`.
    Time inside a step that no span covers is idle. An operation is a node of the graph: the same
    one in every step, and it takes about the same power each time."""

    names: tuple[str, ...]
    op: Ints
    lane: Ints
    step: Ints                      # index into the steps
    start_ns: Ints
    end_ns: Ints
    step_start_ns: Ints             # one for each step; steps do not overlap
    step_end_ns: Ints


@dataclass(frozen=True)
class Series:
    """Readings of one signal: each was taken within `half_ns` of `time_ns`, in order of time.

    Watts or joules as the signal's quantity says; NaN where a reading is missing."""

    signal: Signal
    time_ns: Ints
    half_ns: Ints
    value: Floats


@dataclass(frozen=True)
class OpEnergy:
    """One operation over all steps; None is unknown, and `reason` says why.

    The truth lies between `low_j` and `high_j` with 95 %, also where that is too wide for a
    `total_j`; dynamic is what is above idle. Only instances in steps that were measured count."""

    name: str
    instances: int
    seconds: float                  # of all instances together
    readings: int                   # that were taken while it ran
    total_j: float | None
    low_j: float | None
    high_j: float | None
    dynamic_j: float | None
    reason: str = ""


@dataclass(frozen=True)
class Attribution:
    """A signal's energy over the steps, shared out.

    rail_j = the known total_j of `ops` + idle_j + unattributed_j, always."""

    signal: Signal
    estimator: str                  # how, in a few words
    policy: str                     # how operations that ran at once were told apart
    rail_j: float | None            # the integral over all steps
    idle_j: float | None            # in steps, while no operation ran
    unattributed_j: float | None
    idle_w: float | None            # power while nothing ran; the base of dynamic energy
    lag_ns: int                     # by which the readings were late, already taken out
    lag_error_ns: int
    steps_j: tuple[float | None, ...]
    ops: tuple[OpEnergy, ...]
    reason: str = ""                # why there is nothing, where there is nothing
    notes: tuple[str, ...] = ()     # what was dropped, and what to mind
    # The estimates of all operations, refused ones too, and how far each two of them err together
    # (as variances in J^2): sums over groups need both.
    means_j: Floats | None = field(default=None, repr=False, compare=False)
    errors_j2: Floats | None = field(default=None, repr=False, compare=False)
    freedom: float = 0.0            # degrees of freedom of those errors
