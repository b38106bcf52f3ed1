"""What a graph holds at each of its nodes, in numbers: the ground on which memory is traded.

Nodes are rows, in the order in which they run. Values that share their bytes (views, an update and
what it updates) are one class, named by its oldest member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from handtorch.graph.node import Graph, Node
from handtorch.graph.opset import OPS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """How a class can be made again: by the node that made it, or cut out of a `cat` it went into.

    `row` is the node to repeat or the `cat`; `reads` are the classes that must be there then."""

    row: int
    part: bool
    reads: tuple[int, ...]
    time_ns: float


@dataclass(frozen=True)
class Drop:
    """A class is given up after row `after` and made again for whoever reads it later."""

    after: int
    way: Way


# By class, in the order of their rows: between two of them lies one part of the class's life.
Drops = Mapping[int, tuple[Drop, ...]]


def part_at(drops: Drops, root: int, row: int) -> int:
    """Which part of its life a class is in at that row; 0 is as the graph made it."""
    return sum(d.after < row for d in drops.get(root, ()))


@dataclass(frozen=True)
class Tape:
    """`touches`: the large passing classes that each row reads or writes; `small`: the bytes of
    all others alive at that row, and the node's own workspace; `limit`: the last row before which
    a node can be repeated, because something it reads is overwritten there."""

    graph: Graph
    root: Mapping[int, int]
    nbytes: Mapping[int, int]
    touches: tuple[tuple[int, ...], ...]
    made: tuple[tuple[int, ...], ...]
    small: Ints
    scratch: Ints
    times_ns: Floats
    limit: Ints
    ways: Mapping[int, tuple[Way, ...]]

    @property
    def time_ns(self) -> float:
        return float(self.times_ns.sum())

    def only(self, rows: AbstractSet[int]) -> Tape:
        """The same, where nothing but these rows is repeated or cut out of."""
        ways = {root: tuple(w for w in ways if w.row in rows) for root, ways in self.ways.items()}
        return replace(self, ways={root: left for root, left in ways.items() if left})


# Below this part of all bytes a class is not worth the trouble: it counts, and stays.
_LARGE_PART = 1 / 20_000


def make_tape(graph: Graph, times_ns: Sequence[float], scratch_bytes: Sequence[int]) -> Tape:
    """Of an ordered graph, with the time and the workspace of each of its nodes."""
    root = _roots(graph)
    nbytes: dict[int, int] = {}
    for value in graph.values():
        nbytes[root[value.id]] = max(nbytes.get(root[value.id], 0), value.nbytes)
    staged = {root[p.value.id] for p in (*graph.inputs, *graph.outputs)}
    lasting = {root[s.before.id] for s in graph.states}
    lasting_bytes = sum(nbytes[r] for r in lasting - staged)
    passing = nbytes.keys() - staged - lasting
    least = _LARGE_PART * sum(nbytes[r] for r in passing)
    large = {r for r in passing if nbytes[r] >= max(1, least)}
    rows = [_touched(n, root) for n in graph.nodes]
    touches = tuple(tuple(r for r in row if r in large) for row in rows)
    made = tuple(tuple(r for r in dict.fromkeys(root[v.id] for v in n.outputs) if r in large)
                 if n.op != "reshape" else () for n in graph.nodes)
    small = _curve([[r for r in row if r in passing and r not in large] for row in rows], nbytes)
    times = np.asarray(times_ns, np.float64)
    tape = Tape(graph, root, nbytes, touches, made, small + lasting_bytes,
                np.asarray(scratch_bytes, np.int64), times, _limits(graph, root, large), {})
    return replace(tape, ways=_ways(tape))


def _touched(node: Node, root: Mapping[int, int]) -> tuple[int, ...]:
    """A reshape moves nothing: it neither lengthens a life nor begins one."""
    if node.op == "reshape":
        return ()
    return tuple(dict.fromkeys(root[v.id] for v in (*node.inputs, *node.outputs)))


def _roots(graph: Graph) -> dict[int, int]:
    """The oldest value that each shares its bytes with."""
    root = {v.id: v.id for v in graph.values()}
    for node in graph.nodes:
        if node.op == "reshape":
            root[node.outputs[0].id] = root[node.inputs[0].id]
        for o, i in OPS[node.op].in_place:
            if o < len(node.outputs):
                root[node.outputs[o].id] = root[node.inputs[i].id]
    return root


def _curve(rows: Sequence[Sequence[int]], nbytes: Mapping[int, int]) -> Ints:
    """Bytes alive at each row, from the first to the last touch of each class."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, row in enumerate(rows):
        for r in row:
            first.setdefault(r, index)
            last[r] = index
    change = np.zeros(len(rows) + 1, np.int64)
    for r, at in first.items():
        change[at] += nbytes[r]
        change[last[r] + 1] -= nbytes[r]
    return np.cumsum(change)[:-1]


def _limits(graph: Graph, root: Mapping[int, int], large: set[int]) -> Ints:
    """An update that nothing waits for and that holds nothing large can be put off; the others
    bound what reads the old value."""
    read = {v.id for n in graph.nodes for v in n.inputs}
    fixed: dict[int, list[int]] = {}
    for row, node in enumerate(graph.nodes):
        pairs = [(o, i) for o, i in OPS[node.op].in_place if o < len(node.outputs)]
        lost = {root[node.inputs[i].id] for _, i in pairs}
        free = (not any(node.outputs[o].id in read for o, _ in pairs)
                and not any(root[v.id] in large for v in node.inputs))
        if not free:
            for r in lost:
                fixed.setdefault(r, []).append(row)
    end = len(graph.nodes)
    return np.array([min((k for v in n.inputs for k in fixed.get(root[v.id], ()) if k > row),
                         default=end) for row, n in enumerate(graph.nodes)], np.int64)


def _moved(graph: Graph) -> list[int]:
    """The rows of updates in place whose result is read in the same step."""
    read = {v.id for n in graph.nodes for v in n.inputs}
    return [row for row, n in enumerate(graph.nodes)
            if any(o < len(n.outputs) and n.outputs[o].id in read for o, _ in OPS[n.op].in_place)]


def _ways(tape: Tape) -> dict[int, tuple[Way, ...]]:
    """By class, for every large one that is written once."""
    writers: dict[int, list[int]] = {}
    for row, made in enumerate(tape.made):
        for r in made:
            writers.setdefault(r, []).append(row)
    large = {r for row in tape.touches for r in row}
    found: dict[int, list[Way]] = {}
    for r, (row, *more) in writers.items():
        node = tape.graph.nodes[row]
        if not more and not OPS[node.op].in_place:
            read = dict.fromkeys(tape.root[v.id] for v in node.inputs)
            found[r] = [Way(row, False, tuple(x for x in read if x in large),
                            float(tape.times_ns[row]))]
    moved = _moved(tape.graph)
    for row, node in enumerate(tape.graph.nodes):
        if node.op == "cat" and tape.made[row]:
            (whole,) = tape.made[row]
            for v in node.inputs:
                # A cat behind an update could need what the update overwrites: a circle.
                if found.get(v.id) and not any(found[v.id][0].row < k < row for k in moved):
                    share = v.nbytes / tape.nbytes[whole]
                    found[v.id].append(Way(row, True, (whole,), share * float(tape.times_ns[row])))
    return {r: tuple(ways) for r, ways in found.items()}


@dataclass
class Scene:
    """The tape played with some classes dropped.

    `entries` are (row, class, part) of what is made again before that row, and (row, -1, 0) for the
    row itself. Where something would be made from what is not there any more, or not yet, the
    scene is not `legal`."""

    entries: list[tuple[int, int, int]]
    curve: Ints
    time_ns: float
    legal: bool
    seen: dict[tuple[int, int], list[int]] = field(repr=False)      # (class, part): its places

    @property
    def peak_bytes(self) -> int:
        return int(self.curve.max(initial=0))

    def over(self, target: int) -> int:
        """Bytes above the target, summed over all rows: what a search brings to nothing."""
        return int(np.maximum(self.curve - target, 0).sum())

    def by_place(self, rows: int) -> Ints:
        """The most alive at each place: 2 x row for what is made again before it, and one more for
        the row itself."""
        most = np.zeros(2 * rows, np.int64)
        places = np.array([place_of(row, again) for row, again, _ in self.entries], np.int64)
        np.maximum.at(most, places, self.curve)
        return most


def place_of(row: int, again: int) -> int:
    return 2 * row + (again < 0)


def play(tape: Tape, drops: Drops) -> Scene:
    """What happens with these drops: a class is made again right before the first row that reads
    it after one, and so are those it is made from, if they are not there."""
    entries, made = list[tuple[int, int, int]](), set[tuple[int, int]]()
    time_ns, legal = tape.time_ns, True

    def need(root: int, at: int) -> float:
        part = part_at(drops, root, at)
        if not part or (root, part) in made:
            return 0.0
        nonlocal legal
        made.add((root, part))
        way = drops[root][part - 1].way
        spent = way.time_ns + sum(need(source, at) for source in way.reads)
        legal &= way.row < at if way.part else at <= int(tape.limit[way.row])
        entries.append((at, root, part))
        if not way.part:
            made.update((r, p) for r in tape.made[way.row]
                        if (p := part_at(drops, r, at)) and not drops[r][p - 1].way.part)
        return spent

    for row, touched in enumerate(tape.touches):
        for r in touched:
            if r in drops:
                time_ns += need(r, row)
        entries.append((row, -1, 0))
    return _measured(tape, drops, entries, time_ns, legal)


def _measured(tape: Tape, drops: Drops, entries: list[tuple[int, int, int]], time_ns: float,
              legal: bool) -> Scene:
    """Lives are counted over entries, `seen` over places."""
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    seen: dict[tuple[int, int], list[int]] = {}
    base = np.empty(len(entries), np.int64)
    for index, (row, again, part) in enumerate(entries):
        if again < 0:
            touched, own = tape.touches[row], int(tape.scratch[row])
        else:
            way = drops[again][part - 1].way
            touched, own = (*way.reads, again), int(tape.scratch[way.row])
            for r in () if way.part else tape.made[way.row]:
                if r != again and part_at(drops, r, row):
                    touched += (r,)
                elif r != again:
                    own += tape.nbytes[r]           # made along with it, and not wanted
        base[index] = tape.small[row] + own
        for r in touched:
            key = (r, part_at(drops, r, row) if r in drops else 0)
            first.setdefault(key, index)
            last[key] = index
            seen.setdefault(key, []).append(place_of(row, again))
    change = np.zeros(len(entries) + 1, np.int64)
    for key, at in first.items():
        change[at] += tape.nbytes[key[0]]
        change[last[key] + 1] -= tape.nbytes[key[0]]
    return Scene(entries, base + np.cumsum(change)[:-1], time_ns, legal, seen)
