from __future__ import annotations

from dataclasses import replace

from handtorch.profile.energy.spans import NO_LAYER, operations
from handtorch.profile.group import groups
from tests.profile.energy.runs import MS, run


def test_every_launch_of_the_device_is_a_span() -> None:
    (group,) = groups(run())
    found = operations(group)
    spans = found.spans
    assert spans.names == ("fc addmm #0 forward", "relu #1 backward")
    assert spans.op.tolist() == [0, 1] * 3 and spans.lane.tolist() == [0] * 6
    assert spans.step.tolist() == [0, 0, 1, 1, 2, 2]
    assert (spans.start_ns // MS).tolist() == [1, 5, 11, 15, 21, 25]
    assert (spans.end_ns // MS).tolist() == [5, 7, 15, 17, 25, 27]
    assert (spans.step_start_ns // MS).tolist() == [0, 10, 20]
    assert (spans.step_end_ns // MS).tolist() == [10, 20, 30]
    assert found.layer == {"fc addmm #0 forward": "fc", "relu #1 backward": NO_LAYER}
    assert found.phase == {"fc addmm #0 forward": "forward", "relu #1 backward": "backward"}


def test_what_sticks_out_of_its_step_is_cut_off() -> None:
    given = run()
    late = [replace(la, end_ns=la.start_ns + 20 * MS) if la.op == "relu" else la
            for la in given.launches]
    (group,) = groups(replace(given, launches=tuple(late)))
    assert (operations(group).spans.end_ns // MS).tolist() == [5, 10, 15, 20, 25, 30]
