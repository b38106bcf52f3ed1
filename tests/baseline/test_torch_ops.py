"""Torch's operations as rows: what runs is untouched, and what is said of it is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from handtorch.baseline.torch_ops import Label, Seen, TorchOps, TorchRows, _in_turn, watch
from handtorch.baseline.torch_origin import Origin, Origins
from handtorch.errors import BadInput


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 64, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x)).relu()
        out: torch.Tensor = self.head(y + y * y)  # two uses: autograd adds two gradients up
        return out


def training(net: nn.Module) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    return step


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(4, 3, 8, 8), torch.randint(5, (4,))


def fresh() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.fixture(scope="module")
def rows() -> TorchRows:
    return watch(training(fresh()), [batch()] * 3).rows("net b4", first_id=7)


def test_operations_and_gaps_are_the_step(rows: TorchRows) -> None:
    for step in rows.steps:
        spans = sorted([(r.start_ns or 0, r.end_ns or 0) for r in rows.launches
                        if r.step == step.id]
                       + [(g.start_ns, g.end_ns) for g in rows.gaps if g.step == step.id])
        assert spans[0][0] == step.start_ns and spans[-1][1] == step.end_ns
        assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert [s.id for s in rows.steps] == [7, 8, 9]
    # Between two steps only the record of the first is read.
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(rows.steps))


def test_training_is_the_same_with_and_without() -> None:
    plain, watched = fresh(), fresh()
    step = training(plain)
    for _ in range(3):
        step(*batch())
    watch(training(watched), [batch()] * 3)
    for a, b in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_layer_phase_and_line(rows: TorchRows) -> None:
    first = [r for r in rows.launches if r.step == 7]
    (conv,) = (r for r in first if r.op == "conv2d")
    assert (conv.kernel, conv.layer, conv.phase, conv.lane) == (
        "aten::conv2d", "conv", "forward", "cpu")
    assert conv.source_line.startswith("test_torch_ops.py:")
    assert conv.source_line.endswith("y = self.norm(self.conv(x)).relu()")
    (back,) = (r for r in first if r.op == "convolution_backward")
    assert (back.layer, back.phase, back.source_line) == ("conv", "backward", conv.source_line)
    (linear,) = (r for r in first if r.op == "linear")      # and no addmm: it is part of this one
    assert linear.layer == "head.1" and not [r for r in first if r.op == "addmm"]
    assert {r.layer for r in first if r.op == "batch_norm"} == {"norm"}
    updates = [r for r in first if r.phase == "optimizer"]
    assert updates and all(r.source_line.endswith("optimizer.step()") for r in updates)
    order = [r.phase for r in first]
    assert sorted(set(order), key=order.index) == ["forward", "backward", "optimizer"]


def test_work_is_counted_from_shapes(rows: TorchRows) -> None:
    by_op = {r.op: r for r in rows.launches}
    conv, linear = by_op["conv2d"], by_op["linear"]
    assert conv.flops == 2 * 4 * 8 * 64 * 27
    assert conv.moved_bytes == 4 * (4 * 3 * 64 + 8 * 27 + 8 + 4 * 8 * 64)
    assert linear.flops == 2 * 4 * 5 * 512
    assert by_op["convolution_backward"].flops == conv.flops     # the input needs no gradient
    assert (by_op["detach"].flops, by_op["detach"].moved_bytes) == (0, 0)
    assert by_op["batch_norm"].flops is None and by_op["batch_norm"].work_reason


def test_the_same_operation_has_the_same_node_in_every_step(rows: TorchRows) -> None:
    nodes = [tuple(r.node for r in rows.launches if r.step == s.id) for s in rows.steps]
    assert nodes[1] == nodes[2] and len(set(nodes[1])) == len(nodes[1])


def test_waiting_for_a_batch_is_input_until_a_pause() -> None:
    ops, (x, y) = TorchOps(), batch()
    step = training(fresh())
    with ops.step():
        step(x, y)
    with ops.step():
        step(x, y)
    ops.pause()
    with ops.step():
        step(x, y)
    causes = [{g.cause for g in ops.rows("n").gaps if g.step == i} for i in range(3)]
    assert causes == [{"dispatch"}, {"input", "dispatch"}, {"dispatch"}]


def test_a_step_that_fails_leaves_torch_as_it_was() -> None:
    ops = TorchOps()
    with pytest.raises(ValueError, match="mine"), ops.step():
        torch.ones(2) + 1
        raise ValueError("mine")
    assert ops.steps == []
    with ops.step():
        torch.ones(3) * 2
    assert [op.name for op in ops.steps[0].ops] == ["aten::ones", "aten::mul"]


def test_steps_that_repeat_are_only_stamped(monkeypatch: pytest.MonkeyPatch) -> None:
    ops, step = TorchOps(), training(fresh())
    for _ in range(2):                          # the first makes the momentum
        with ops.step():
            step(*batch())
    ops.steps.clear()
    with ops.step():
        step(*batch())
    monkeypatch.setattr(Origins, "current", lambda *_: pytest.fail("learnt again"))
    monkeypatch.setattr(Origins, "follow", lambda *_: pytest.fail("followed again"))
    with ops.step():
        step(*batch())
    first, second = ([op.label for op in s.ops] for s in ops.steps)
    assert first == second


@pytest.mark.parametrize("learns", [True, False])
def test_gradients_are_added_up_in_place_as_ever(learns: bool) -> None:
    ops, step = TorchOps(), training(fresh())
    for _ in range(4):
        with ops.step():
            step(*batch())
        ops._learns = learns
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step(*batch())
    assert Counter(op.name for op in ops.steps[-1].ops) == outermost(profile)[0]


def test_a_step_that_goes_another_way_is_seen_and_the_next_learnt() -> None:
    ops, x = TorchOps(), torch.ones(4)

    def run(way: str) -> list[tuple[str, int | None]]:
        with ops.step():
            y = x + 1
            if way == "longer":
                y = y.exp()
            y = (y if way != "wider" else torch.ones(8)) * 2
        return [(op.name, op.label.flops) for op in ops.steps[-1].ops]

    plain = [("aten::add", 4), ("aten::mul", 4)]
    assert run("plain") == plain
    longer = [("aten::add", 4), ("aten::exp", None), ("aten::mul", 4)]
    assert run("longer") == longer
    (unknown,) = (r for r in ops.rows("n").launches if r.op == "exp")
    assert (unknown.moved_bytes, unknown.layer, unknown.phase, unknown.work_reason) == (
        None, "", "forward", "the step went another way than the one that was learnt")
    assert run("longer") == [("aten::add", 4), ("aten::exp", 4), ("aten::mul", 4)]      # learnt
    assert run("plain") == plain                # both are at its edges, and shorter is another way
    assert run("plain") == plain and not ops._learns
    assert run("wider") == [("aten::add", 4), ("aten::ones", None), ("aten::mul", None)]
    assert run("wider") == [("aten::add", 4), ("aten::ones", None), ("aten::mul", 8)]


def test_one_watch_at_a_time() -> None:
    first, second = TorchOps(), TorchOps()
    with pytest.raises(BadInput) as told, first.step(), second.step():
        pass
    assert str(told.value) == ("watching torch's operations: another watch is on\n"
                               "  try: end that one first")


def test_not_while_a_profiler_of_torch_is_on() -> None:
    with (torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
          pytest.raises(BadInput) as told, TorchOps().step()):
        pass
    assert str(told.value) == ("watching torch's operations: a profiler of torch's is on\n"
                               "  try: end that one first")


def outermost(profile: Any) -> tuple[Counter[str], Counter[str]]:
    """How often and how long, by name, of the `aten::` events that are inside no other."""
    count, spent = Counter[str](), Counter[str]()
    for event in profile.events():
        above = event.cpu_parent
        while above is not None and not above.name.startswith("aten::"):
            above = above.cpu_parent
        if event.name.startswith("aten::") and above is None:
            count[event.name] += 1
            spent[event.name] += int(1000 * (event.time_range.end - event.time_range.start))
    return count, spent


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Threads of a pool that wait for each other would measure the machine's other programs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_it_sees_what_torch_profiler_sees(one_thread: None) -> None:
    net = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                        nn.Linear(512, 5))
    step, given = training(net), (torch.randn(256, 512), torch.randint(5, (256,)))
    step(*given)
    ops = TorchOps()
    ours, theirs = list[Counter[str]](), list[Counter[str]]()
    for _ in range(7):                          # in turns, and the best of each: others compute too
        with ops.step():
            step(*given)
        spent = Counter[str]()
        for op in ops.steps[-1].ops:
            spent[op.name] += op.end_ns - op.start_ns
        ours.append(spent)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step(*given)
        count, times = outermost(profile)
        assert count == Counter(op.name for op in ops.steps[-1].ops)
        theirs.append(times)
    for name in ("aten::linear", "aten::mm"):
        mine, other = (min(s[name] for s in side) for side in (ours, theirs))
        assert 0.5 < mine / other < 2, f"{name}: {mine} ns, torch.profiler {other} ns"


def test_stamps_that_are_off_stay_inside_the_step_and_in_turn() -> None:
    label = Label("aten::mul", (), Origin("", "forward", None), 1, 4)
    given = [(90, 120), (115, 140), (150, 260)]         # early, overlapping, late
    kept = _in_turn([Seen(label, a, b) for a, b in given], 100, 200)
    assert [(op.start_ns, op.end_ns) for op in kept] == [(100, 120), (120, 140), (150, 200)]
