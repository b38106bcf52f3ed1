"""What a reading says, by the kind of its signal: a weighted sum of the power around it.

A row is what is explained: a reading in watts, or what a counter rose by between two readings, in
joules. The weight of a piece of time in a row is the share of it (or its seconds) that the row
would show if that piece alone took 1 W."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from handtorch.meters.signal import Kind
from handtorch.profile.energy.join import Pieces, Touch, touching
from handtorch.profile.energy.model import Floats

FADED = 10.0                    # time constants after which a low-pass has forgotten: 5e-5


@dataclass(frozen=True)
class Rows:
    """Readings that count, in order. For a counter each row begins at `before`; else it is `at`."""

    kind: Kind
    span: float                 # seconds, as the signal's
    before: Floats
    at: Floats
    half: Floats                # the reading's time is known to this
    value: Floats
    least: float = 0.0          # between two neighbouring values, in W; 0 of a counter

    def __len__(self) -> int:
        return len(self.at)

    def stretched(self, drift: float) -> Rows:
        """As stamped by a clock that is not fast by `drift`; the middle stays."""
        middle = (self.before[0] + self.at[-1]) / 2
        return replace(self, before=self.before - drift * (self.before - middle),
                       at=self.at - drift * (self.at - middle))


def _overlap(pieces: Pieces, piece: np.ndarray, low: Floats, high: Floats) -> Floats:
    return np.asarray(np.maximum(np.minimum(pieces.end[piece], high)
                                 - np.maximum(pieces.start[piece], low), 0.0))


def instant(pieces: Pieces, rows: Rows, lag: Floats, blur: float) -> Touch:
    """The piece that ran; if the time is uncertain, those that may have run, by likelihood."""
    at = rows.at - lag
    half = rows.half * blur
    row, piece = touching(pieces, at - half, at + half)
    width = 2 * half[row]
    sharp = (pieces.start[piece] <= at[row]) & (at[row] < pieces.end[piece])
    with np.errstate(divide="ignore", invalid="ignore"):
        soft = _overlap(pieces, piece, (at - half)[row], (at + half)[row]) / width
    return Touch(row, piece, np.where(width > 0, soft, sharp))


def window(pieces: Pieces, rows: Rows, lag: Floats, blur: float) -> Touch:
    """Each piece by its part of the last `span`."""
    at = rows.at - lag
    row, piece = touching(pieces, at - rows.span, at)
    return Touch(row, piece, _overlap(pieces, piece, (at - rows.span)[row], at[row]) / rows.span)


def lowpass(pieces: Pieces, rows: Rows, lag: Floats, blur: float) -> Touch:
    """Each piece by its exponential weight."""
    at = rows.at - lag
    row, piece = touching(pieces, at - FADED * rows.span, at)
    ended = np.minimum(pieces.end[piece] - at[row], 0.0) / rows.span
    began = np.minimum(pieces.start[piece] - at[row], 0.0) / rows.span
    return Touch(row, piece, np.exp(ended) - np.exp(began))


def counter(pieces: Pieces, rows: Rows, lag: Floats, blur: float) -> Touch:
    """Each piece by its seconds between two readings. A value is as old as its last update: any
    age below `span` is equally likely, so each edge is the mean over these."""
    low, high, span = rows.before - lag, rows.at - lag, rows.span * blur
    row, piece = touching(pieces, low - span, high)
    low, high = low[row], high[row]
    if span == 0:
        return Touch(row, piece, _overlap(pieces, piece, low, high))
    return Touch(row, piece, _ramp(pieces, piece, high, span) - _ramp(pieces, piece, low, span))


def _ramp(pieces: Pieces, piece: np.ndarray, edge: Floats, span: float) -> Floats:
    """Mean over s in [edge - span, edge] of the piece's seconds before s."""
    def twice(s: Floats) -> Floats:     # the integral of seconds before s, up to s
        inside = np.clip(s - pieces.start[piece], 0.0, length)
        beyond = np.maximum(s - pieces.end[piece], 0.0)
        return np.asarray(inside * inside / 2 + beyond * length)

    length = pieces.seconds[piece]
    return np.asarray((twice(edge) - twice(edge - span)) / span)


WEIGHTS = {"instant": instant, "window": window, "lowpass": lowpass, "counter": counter}


def touch(pieces: Pieces, rows: Rows, lag: Floats, blur: float) -> Touch:
    """Every piece of which a row speaks, with its weight; `lag` is for each row."""
    return WEIGHTS[rows.kind](pieces, rows, lag, blur)
