from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from handtorch.profile.gaps import (
    Action,
    Command,
    Idle,
    busy_ns,
    clipped,
    gaps,
    own_ns,
)

TIMES = st.integers(0, 60)
SPANS = st.tuples(TIMES, TIMES).map(lambda t: (min(t), max(t)))
COMMANDS = st.lists(st.builds(lambda s, h: Command(*s, h), SPANS, st.none() | TIMES), max_size=8)
ACTIONS = st.lists(st.builds(lambda s, c: Action(*s, c), SPANS,
                             st.sampled_from(["staging", "enqueue", "wake"])), max_size=6)


def test_the_time_of_two_that_overlap_belongs_to_the_first() -> None:
    assert own_ns([(10, 30), (20, 50), (25, 28), (60, 60), (55, 70)]) == [20, 20, 0, 0, 15]
    assert own_ns([(20, 50), (10, 30)]) == [20, 20]
    assert busy_ns([]) == 0


def test_a_gap_is_named_by_what_the_host_did_until_the_command_was_handed_over() -> None:
    host = [Action(0, 10, "staging"), Action(10, 30, "enqueue"), Action(40, 90, "wake")]
    commands = [Command(20, 28, 14), Command(33, 60, 29)]
    assert gaps((0, 60), commands, host) == [
        Idle(0, 10, "staging"), Idle(10, 14, "enqueue"), Idle(14, 20, "launch"),
        Idle(28, 29, "enqueue"), Idle(29, 33, "launch")]


def test_while_the_host_waits_for_what_is_done_it_is_waking_up_and_then_the_caller_has_it() -> None:
    """The step before ended at 100; its caller woke at 120, called again at 150."""
    host = [Action(40, 120, "wake"), Action(150, 155, "staging"), Action(155, 170, "enqueue")]
    assert gaps((100, 200), [Command(165, 200, 160)], host) == [
        Idle(100, 120, "wake"), Idle(120, 150, "input"), Idle(150, 155, "staging"),
        Idle(155, 160, "enqueue"), Idle(160, 165, "launch")]


def test_a_command_of_which_nothing_is_known_but_its_bounds_leaves_a_gap_without_a_cause() -> None:
    assert gaps((0, 20), [Command(10, 20, None)], []) == [Idle(0, 10, "other")]


def test_after_the_last_command_the_host_is_asked() -> None:
    assert gaps((0, 20), [Command(0, 5, 0)], [Action(3, 9, "wake")]) == [
        Idle(5, 9, "wake"), Idle(9, 20, "input")]
    assert gaps((0, 20), [], []) == [Idle(0, 20, "input")]


@given(SPANS, COMMANDS, ACTIONS)
def test_commands_and_gaps_add_up_to_the_step(
        window: tuple[int, int], commands: list[Command], host: list[Action]) -> None:
    found = gaps(window, commands, host)
    inside = clipped([c[:2] for c in commands], window)
    assert busy_ns(inside) + sum(g.end_ns - g.start_ns for g in found) == window[1] - window[0]
    assert sum(own_ns(inside)) == len({t for a, b in inside for t in range(a, b)})
    for before, after in pairwise(found):
        assert before.end_ns <= after.start_ns
    for gap in found:
        assert gap.start_ns < gap.end_ns
        assert not any(a < gap.end_ns and gap.start_ns < b for a, b in inside)
