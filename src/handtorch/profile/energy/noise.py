"""How rows err, and err together: in blocks of consecutive rows.

Four parts, each as a covariance for every block, of mean variance 1; how much there is of each is
found from the readings:
reading   what each reading adds: noise, steps of the converter, age of a counter's value
edge      which piece ran is uncertain where the reading's time is
instance  an operation does not take the same power each time
step      all of a step takes a little more or less (clocks, heat)
Rows of different blocks are taken as independent: a block is many times longer than what two
rows share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from handtorch.profile.energy.join import Pieces, Touch, touching
from handtorch.profile.energy.model import Floats, Ints
from handtorch.profile.energy.sense import FADED, Rows

PARTS = ("reading", "edge", "instance", "step")
_ALONE, _TOGETHER = 64, 128         # rows of a block, where few or many rows share an instance


@dataclass(frozen=True)
class Blocks:
    """Consecutive rows by the block; the last one is filled up with rows that say nothing."""

    rows: int
    size: int

    @property
    def count(self) -> int:
        return -(-self.rows // self.size)

    def cut(self, table: Floats) -> Floats:
        """[rows, ...] as [block, size, ...], zeros behind the end."""
        full = np.zeros((self.count * self.size, *table.shape[1:]))
        full[:self.rows] = table
        return full.reshape(self.count, self.size, *table.shape[1:])


@dataclass(frozen=True)
class Noise:
    """`parts` and `joint` are per unit of variance `scale`; their rows follow PARTS.

    `joint` is how each operation's own energy varies together with the rows (of the parts instance
    and step), `own` how it varies together with that of the others."""

    blocks: Blocks
    parts: Floats                   # [part, block, size, size]
    joint: Floats                   # [part, block, operation, size]
    own: Floats                     # [part, operation, operation]
    size: Floats                    # what each part was divided by


def blocks_of(rows: Rows, brief: bool = False) -> Blocks:
    """Short blocks where few rows share an instance, or where it need not be exact."""
    long = rows.kind in ("window", "lowpass") and not brief
    return Blocks(len(rows), _TOGETHER if long else _ALONE)


def column(pieces: Pieces, touch: Touch, rows: int, columns: Ints, count: int) -> Floats:
    """[row, column]: the weights of all pieces of an operation added up."""
    of = columns[pieces.op[touch.piece]]
    kept = of >= 0
    flat = np.bincount(touch.row[kept] * count + of[kept], touch.weight[kept], rows * count)
    return np.asarray(flat.reshape(rows, count))


def noise_of(pieces: Pieces, rows: Rows, touch: Touch, power: Floats, edge: Floats,
             columns: Ints, brief: bool = False) -> Noise:
    """`power` is a first guess for each column: what varies does so in proportion to it.
    `edge` is the power around each row's end and beginning, for a counter."""
    blocks = blocks_of(rows, brief)
    shape = (blocks.count, blocks.size, blocks.size)
    parts = np.zeros((len(PARTS), *shape))
    joint = np.zeros((len(PARTS), blocks.count, pieces.ops, blocks.size))
    own = np.zeros((len(PARTS), pieces.ops, pieces.ops))
    parts[0] = _reading(rows, blocks, edge)
    watts = np.where(columns[pieces.op] >= 0, power[columns[pieces.op]], 0.0)
    parts[1] = _edge(pieces, rows, blocks, touch, watts)
    goal = np.where(pieces.counts & (pieces.op < pieces.ops), pieces.seconds, 0.0) * watts
    _vary(pieces, touch, blocks, watts, goal, parts, joint, own)
    sizes = np.trace(parts.sum(axis=1), axis1=1, axis2=2) / max(len(rows), 1)
    for part, size in enumerate(sizes):
        if size > 0:
            parts[part] /= size
            joint[part] /= size
            own[part] /= size
    return Noise(blocks, parts, joint, own, sizes)


def _reading(rows: Rows, blocks: Blocks, edge: Floats) -> Floats:
    found = np.zeros((blocks.count, blocks.size, blocks.size))
    diagonal = np.arange(blocks.size)
    if rows.kind != "counter":
        found[:, diagonal, diagonal] = blocks.cut(np.ones(len(rows)))
        return found
    # A reading ends one row and begins the next: its error is in both, with opposite sign. It is
    # the energy since the last update, so it grows with the power around the edge.
    size = edge**2 / max(float((edge**2).mean()), 1e-300) * 0.95 + 0.05
    joined = np.concatenate([rows.before[1:] == rows.at[:-1], [False]])
    found[:, diagonal, diagonal] = blocks.cut(size.sum(axis=1))
    shared = blocks.cut(np.where(joined, -size[:, 1], 0.0))[:, :-1]
    found[:, diagonal[:-1], diagonal[1:]] = shared
    found[:, diagonal[1:], diagonal[:-1]] = shared
    return found


def _edge(pieces: Pieces, rows: Rows, blocks: Blocks, touch: Touch, watts: Floats) -> Floats:
    """Of an instant: the spread of power among what may have run. Lanes change each for itself;
    where nothing runs at once all pieces exclude one another."""
    found = np.zeros((blocks.count, blocks.size, blocks.size))
    if rows.kind == "instant":
        diagonal = np.arange(blocks.size)
        spread = np.zeros(len(rows))
        lanes = pieces.lanes if pieces.layered else ((0, len(pieces.op)),)
        for first, behind in lanes:
            here = (touch.piece >= first) & (touch.piece < behind)
            row, weight, power = touch.row[here], touch.weight[here], watts[touch.piece[here]]
            mean = np.bincount(row, weight * power, len(rows))
            lane = np.maximum(np.bincount(row, weight * power**2, len(rows)) - mean**2, 0.0)
            lane[lane < 1e-9 * np.maximum(mean**2, 1e-30)] = 0.0
            spread += lane
        found[:, diagonal, diagonal] = blocks.cut(spread)
    return found


def _vary(pieces: Pieces, touch: Touch, blocks: Blocks, watts: Floats, goal: Floats,
          parts: Floats, joint: Floats, own: Floats) -> None:
    """Fill in the parts instance and step."""
    order = np.argsort(touch.row // blocks.size, kind="stable")
    row, piece, weight = touch.row[order], touch.piece[order], touch.weight[order]
    edges = np.searchsorted(row // blocks.size, np.arange(blocks.count + 1))
    told = np.zeros(len(goal), bool)            # an instance's own energy belongs to one block
    steps_told = np.zeros(int(pieces.step.max(initial=0)) + 2, bool)
    by_step = np.zeros((len(steps_told), pieces.ops))
    mine = pieces.op < pieces.ops
    np.add.at(by_step, (pieces.step[mine], pieces.op[mine]), goal[mine])
    for block, (first, behind) in enumerate(pairwise(edges)):
        if first == behind:
            continue
        here, inverse = np.unique(piece[first:behind], return_inverse=True)
        table = np.zeros((len(here), blocks.size))
        table[inverse, row[first:behind] - block * blocks.size] = (
            weight[first:behind] * watts[here][inverse])
        parts[2, block] = table.T @ table
        new = (~told[here] & mine[here])
        told[here] = True
        np.add.at(joint[2, block], pieces.op[here[new]], table[new] * goal[here[new], None])
        steps, of = np.unique(pieces.step[here], return_inverse=True)
        summed = np.zeros((len(steps), blocks.size))
        np.add.at(summed, of, table)
        parts[3, block] = summed.T @ summed
        fresh = ~steps_told[steps] & (steps >= 0)
        steps_told[steps] = True
        joint[3, block] = by_step[steps[fresh]].T @ summed[fresh]
    np.fill_diagonal(own[2], np.bincount(pieces.op[mine], goal[mine] ** 2, pieces.ops))
    own[3] = by_step[:-1].T @ by_step[:-1]


def faded(pieces: Pieces, rows: Rows, lag: Floats, columns: Ints, count: int) -> Floats:
    """`column` of a low-pass, from reading to reading: what was before fades, what ran since is
    added. The same numbers with a tenth of the pairs, and nothing is ever forgotten."""
    at = rows.at - lag
    low = np.maximum(np.concatenate([[-np.inf], at[:-1]]), at - FADED * rows.span)
    row, piece = touching(pieces, low, at)
    ended = np.minimum(pieces.end[piece], at[row]) - at[row]
    began = np.clip(pieces.start[piece], low[row], at[row]) - at[row]
    weight = np.maximum(np.exp(ended / rows.span) - np.exp(began / rows.span), 0.0)
    found = column(pieces, Touch(row, piece, weight), len(rows), columns, count)
    kept = np.exp(np.concatenate([[0.0], -np.diff(at)]) / rows.span)
    for i in range(1, len(rows)):
        found[i] += found[i - 1] * kept[i]
    return found
