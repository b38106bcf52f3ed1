"""Offsets for random programs, each proven; the floor is a floor; equal inputs, equal plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import OutOfMemory
from handtorch.graph.node import Graph, Node, Port, State, Value
from handtorch.graph.step import Alias, Lowered, Operand, Step
from handtorch.plan.arena import make_plan, plan_apart
from handtorch.plan.plan import STAGING_IN, STAGING_OUT, Place
from handtorch.plan.proof import prove


def step(reads: list[Value], writes: list[Value], kernel: str = "k", rw: bool = False) -> Step:
    operands = [Operand(v, "r") for v in reads]
    operands += [Operand(v, "rw" if rw else "w") for v in writes]
    return Step(kernel, tuple(operands), (1,), (1,))


@st.composite
def programs(draw: st.DrawFn) -> tuple[Graph, Lowered]:
    """A chain of steps that read any earlier values, some states, some updated in place."""
    sizes = st.integers(1, 5000)
    x = Value(0, (draw(sizes),))
    weights = [Value(1 + i, (draw(sizes),)) for i in range(draw(st.integers(0, 3)))]
    fresh, made, steps, aliases = 10, [x], [], []
    for _ in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from([*made, *weights]), min_size=1, max_size=3))
        out = Value(fresh, (draw(sizes),))
        fresh += 1
        steps.append(step(reads, [out]))
        made.append(out)
    nodes = [Node("copy", (), (v,)) for v in made[1:]]      # only their values matter to a plan
    states = []
    for i, w in enumerate(weights):
        after = w
        if draw(st.booleans()):
            after = Value(fresh, w.shape)
            fresh += 1
            steps.append(step([made[-1]], [after], rw=True))
            aliases.append(Alias(after, w))
            nodes.append(Node("copy", (), (after,)))
        states.append(State(f"w{i}", "parameter", w, after))
    graph = Graph(tuple(nodes), (Port("x", x),), tuple(states), (Port("y", made[-1]),))
    return graph, Lowered(tuple(steps), tuple(aliases))


@settings(max_examples=150, deadline=None)
@given(programs(), st.sampled_from([1 << 14, 1 << 15, 1 << 30]))
def test_every_plan_is_proven_and_no_better_than_its_floor(
        program: tuple[Graph, Lowered], limit: int) -> None:
    graph, lowered = program
    try:
        plan = make_plan(graph, lowered, largest_allocation_bytes=limit)
    except OutOfMemory:
        assert max(v.nbytes for v in graph.values()) + 255 > limit
        return
    prove(graph, lowered, plan)
    assert plan.floor_bytes <= plan.peak_bytes
    assert all(n <= limit for n in plan.bank_bytes)
    assert plan == make_plan(graph, lowered, largest_allocation_bytes=limit)


def chain(count: int) -> tuple[Graph, Lowered]:
    """x -> v1 -> v2 -> ... : two alive at a time, so the arena needs two places."""
    values = [Value(i, (64,)) for i in range(count + 1)]
    steps = tuple(step([a], [b]) for a, b in pairwise(values))
    nodes = tuple(Node("copy", (), (v,)) for v in values[1:])
    return Graph(nodes, (Port("x", values[0]),), (), (Port("y", values[-1]),)), Lowered(steps)


def test_a_chain_needs_two_places() -> None:
    plan = make_plan(*chain(9), largest_allocation_bytes=1 << 20)
    assert plan.peak_bytes == plan.floor_bytes == 2 * 256
    assert plan.places[0].bank == STAGING_IN
    assert plan.places[9].bank == STAGING_OUT


def test_the_proof_finds_a_planted_overlap() -> None:
    graph, lowered = chain(4)
    plan = make_plan(graph, lowered, largest_allocation_bytes=1 << 20)
    places = {**plan.places, 2: plan.places[1]}              # v2 written over v1 while it is read
    clash = type(plan)(**{**vars(plan), "places": places})
    late = Lowered((*lowered.steps[:2], step([Value(1, (64,))], [Value(3, (64,))]),
                    *lowered.steps[3:]))
    with pytest.raises(AssertionError, match=r"step 2 k reads %1 f32\[64\], its place holds %2"):
        prove(graph, late, clash)


def test_the_proof_finds_a_state_read_after_its_update() -> None:
    x, w, new, y = Value(0, (8,)), Value(1, (8,)), Value(2, (8,)), Value(3, (8,))
    graph = Graph((Node("copy", (), (new,)), Node("copy", (), (y,))), (Port("x", x),),
                  (State("w", "parameter", w, new),), (Port("y", y),))
    lowered = Lowered((step([x], [new], rw=True), step([w], [y])), (Alias(new, w),))
    plan = make_plan(graph, lowered, largest_allocation_bytes=1 << 20)
    with pytest.raises(AssertionError, match=r"step 1 k reads %1 f32\[8\], its place holds %2"):
        prove(graph, lowered, plan)


def test_banks_are_split_at_the_largest_allocation() -> None:
    values = [Value(i, (1024,)) for i in range(1, 5)]
    x, y = Value(0, (4,)), Value(9, (4,))
    graph = Graph(tuple(Node("copy", (), (v,)) for v in [*values, y]), (Port("x", x),), (),
                  (Port("y", y),))
    lowered = Lowered((*(step([x], [v]) for v in values), step(values, [y])))
    plan = make_plan(graph, lowered, largest_allocation_bytes=8192)
    assert plan.bank_bytes == (8192, 8192)
    prove(graph, lowered, plan)


def test_a_tensor_larger_than_an_allocation_is_refused() -> None:
    with pytest.raises(OutOfMemory) as e:
        make_plan(*chain_of(100_000), largest_allocation_bytes=65536)
    assert str(e.value) == ("one tensor of 400000 B: the device allows 65536 B in one allocation\n"
                            "  try: a smaller batch or layer")


def chain_of(size: int) -> tuple[Graph, Lowered]:
    a, b, c = Value(0, (1,)), Value(1, (size,)), Value(2, (1,))
    graph = Graph((Node("copy", (), (b,)), Node("copy", (), (c,))), (Port("x", a),), (),
                  (Port("y", c),))
    return graph, Lowered((step([a], [b]), step([b], [c])))


def test_apart_gives_every_value_a_bank_of_its_own() -> None:
    _, lowered = chain(3)
    plan = plan_apart(lowered)
    assert sorted(p.bank for p in plan.places.values()) == [0, 1, 2, 3]
    assert {p.offset_bytes for p in plan.places.values()} == {0}


def test_no_offset_exceeds_a_kernels_count_of_elements() -> None:
    """Behind 4 GiB of weights there is room for floats, which are counted by four bytes, but not
    for bools; and the proof sees it if they are put there."""
    weights, x = Value(0, (1 << 30,)), Value(1, (8,))
    mask, more, y = Value(2, (100,), "bool"), Value(3, (100,)), Value(4, (8,))
    steps = (step([x], [mask, more]), step([mask, more, weights], [y]))
    graph = Graph(tuple(Node("copy", (), (v,)) for v in (mask, more, y)), (Port("x", x),),
                  (State("w", "parameter", weights, weights),), (Port("y", y),))
    plan = make_plan(graph, Lowered(steps), largest_allocation_bytes=1 << 34)
    assert plan.places[mask.id] == Place(1, 0)
    assert plan.places[more.id] == Place(0, 1 << 32)
    prove(graph, Lowered(steps), plan)
    wrong = replace(plan, places={**plan.places, mask.id: Place(0, (1 << 32) + 512)})
    with pytest.raises(AssertionError, match="beyond a kernel's 32-bit count of elements"):
        prove(graph, Lowered(steps), wrong)
