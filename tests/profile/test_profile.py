"""Real steps on every OpenCL device of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadInput, DeviceError
from handtorch.profile.gaps import busy_ns, clipped
from handtorch.profile.profile import Profile
from handtorch.record import Run, Step, read_run
from handtorch.runtime import recorder
from handtorch.runtime.opencl import build
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.resident import OpenCLResident
from handtorch.runtime.opencl.shared import SharedSlot

Y = torch.arange(32) % 10
X = torch.randn(32, 256, generator=torch.Generator().manual_seed(1))


def made(device: str, **options: Any) -> ht.TrainStep:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return ht.train_step(model, nn.functional.cross_entropy, optimizer, example=(X, Y),
                         device=device, **options)


@pytest.fixture(scope="module")
def step(opencl_device: FoundDevice) -> Iterator[ht.TrainStep]:
    step = made(opencl_device.label)
    for _ in range(3):
        float(step(X, Y))
    yield step
    step.close()


def profiled(step: ht.TrainStep, steps: int, each: Callable[[Any], object] = lambda _: None
             ) -> tuple[Profile, int]:
    """The profile of a loop, and the loop's time by the host's clock."""
    with ht.profile(step, name="mlp") as run:
        begin = time.monotonic_ns()
        for _ in range(steps):
            loss = step(X, Y)
            each(loss)
        float(loss)
        wall = time.monotonic_ns() - begin
    return run, wall


def wall_ns(step: Step) -> int:
    return step.end_ns - step.start_ns


def unaccounted(run: Run) -> list[int]:
    """For each step its time less the union of its commands and its gaps."""
    left = []
    for step in run.steps:
        work = [(la.start_ns or 0, la.end_ns or 0) for la in run.launches
                if la.step == step.id and la.lane == "queue"]
        idle = sum(g.end_ns - g.start_ns for g in run.gaps if g.step == step.id)
        left.append(wall_ns(step) - idle
                    - busy_ns(clipped(work, (step.start_ns, step.end_ns))))
    return left


EACH = pytest.mark.parametrize("each", [float, lambda _: None],
                               ids=["waits for each", "runs ahead"])


@EACH
def test_commands_and_named_gaps_are_the_time_of_the_steps(
        step: ht.TrainStep, each: Callable[[Any], object]) -> None:
    """Nothing is left over and nothing counts twice; and the device's clock, by which the steps
    are placed, does not see more time than the host's, by which the loop is."""
    found, wall = profiled(step, 40, each)
    run = found.run
    assert unaccounted(run) == [0] * 40
    assert not [g for g in run.gaps if g.cause == "other"]
    for before, after in pairwise(run.steps):
        assert before.end_ns == after.start_ns
    (error,) = [c.error_ns for c in run.clocks if c.name == "opencl"]
    assert sum(map(wall_ns, run.steps)) <= wall + 2 * (error or 0)


@pytest.mark.timed
@EACH
def test_the_steps_are_the_time_of_the_loop(step: ht.TrainStep,
                                            each: Callable[[Any], object]) -> None:
    """The loop's time is taken by the host alone, that of its steps by the device's clock: they
    agree only if the clocks were compared rightly. The host wakes up late at times; so once."""
    for tried in range(3):
        found, wall = profiled(step, 200, each)
        steps = sum(map(wall_ns, found.run.steps))
        if abs(steps - wall) < 0.01 * wall:
            break
        assert tried < 2, (steps, wall)


def test_every_launch_has_its_node_layer_phase_and_line(step: ht.TrainStep) -> None:
    run = profiled(step, 2)[0].run
    launches = [la for la in run.launches if la.step == 1 and la.lane == "queue"]
    program = step.program
    of_program = sorted((la for la in launches if la.node), key=lambda la: la.number)
    assert [la.number for la in of_program] == list(range(len(program.steps)))
    for la, made_from in zip(of_program, program.steps, strict=True):
        node = program.node_of(made_from)
        assert (la.kernel, la.op, la.layer, la.phase, la.node) == (
            made_from.kernel, node.op, node.layer, node.phase, str(made_from.node))
        assert (la.flops, la.moved_bytes) == (made_from.flops, made_from.bytes)
        assert la.source_line == str(node.where or "")
        assert la.quality == "stamped" and la.error_ns > 0
    assert {la.phase for la in of_program} == {"forward", "backward", "optimizer"}
    assert any(la.layer == "2" for la in of_program)
    moved = [(la.kernel, la.moved_bytes) for la in launches if la.phase == "transfer"]
    if isinstance(step.resident._slots[0], SharedSlot):
        assert moved == []                      # the host's copy, "stage", is all there is
    else:
        assert ("unmap", 32 * 256 * 4 + 32 * 4) in moved or ("unmap", 32 * 256 * 4) in moved
        assert ("map", 4) in moved
    host = {la.kernel for la in run.launches if la.step == 1 and la.lane == "host"}
    assert {"check", "stage", "enqueue", "wait"} <= host
    assert len({(la.step, la.number) for la in run.launches}) == len(run.launches)


def test_times_lie_between_the_hosts_stamps(step: ht.TrainStep) -> None:
    run = profiled(step, 20, float)[0].run
    for number in range(20):
        host = {la.kernel: la for la in run.launches if la.step == number and la.lane == "host"}
        for la in run.launches:
            if la.step != number or la.lane == "host":
                continue
            assert la.start_ns is not None and la.end_ns is not None
            assert la.start_ns + la.error_ns >= (host["enqueue"].start_ns or 0)
            assert la.end_ns - la.error_ns <= (host["wait"].end_ns or 0)
    (clock,) = [c for c in run.clocks if c.name == "opencl"]
    assert clock.error_ns is not None and clock.error_ns < 1_000_000
    assert run.syncs


def test_recording_is_switched_between_steps_and_nothing_is_compiled(
        step: ht.TrainStep, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(*_: Any) -> None:
        raise AssertionError("something was compiled")
    monkeypatch.setattr(build, "build", compiled)
    first = step.session.steps
    with ht.profile(step) as run:
        step(X, Y)
        run.off()
        step(X, Y)
        step(X, Y)
        run.on()
        for _ in range(3):
            loss = step(X, Y)
    float(loss)
    step(X, Y)
    assert [s.number for s in run.run.steps] == [first + i for i in (0, 3, 4, 5)]
    assert run.run.steps[1].start_ns > run.run.steps[0].end_ns
    assert run.run.steps[0].subject == "training b32"
    assert step.session.recorder is None


def test_a_profile_changes_no_number(opencl_device: FoundDevice) -> None:
    plain, watched = made(opencl_device.label), made(opencl_device.label)
    losses = [float(plain(X, Y)) for _ in range(6)]
    with ht.profile(watched) as run:
        seen = [float(watched(X, Y)) for _ in range(3)]
        run.off()
        seen += [float(watched(X, Y)) for _ in range(3)]
    assert seen == losses
    plain.close()
    watched.close()


def test_a_slow_caller_is_a_gap_called_input(step: ht.TrainStep) -> None:
    def slow(loss: Any) -> None:
        float(loss)
        time.sleep(0.03)

    run = profiled(step, 4, slow)[0].run
    idle = sum(g.end_ns - g.start_ns for g in run.gaps if g.cause == "input")
    assert idle >= 3 * 29_000_000
    (busy,) = [r.value for r in run.results if r.name == "utilisation"]
    assert busy is not None and busy < 0.7


def test_times_are_read_before_too_many_events_are_held(
        step: ht.TrainStep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_HELD", 30)
    held = []
    with ht.profile(step) as run:
        for _ in range(30):
            loss = step(X, Y)
            held.append(run._recorder._held)
        float(loss)
    assert max(held) < 30 + 6 * (len(step.program.steps) + 6)
    assert unaccounted(run.run) == [0] * 30


def test_what_was_found_is_kept_in_a_run_file(step: ht.TrainStep, tmp_path: Path) -> None:
    found, _ = profiled(step, 3)
    found.save(tmp_path / "a.htr")
    read = read_run(tmp_path / "a.htr")
    for table in ("steps", "launches", "gaps", "syncs", "clocks", "memory", "results", "samples"):
        assert getattr(read, table) == getattr(found.run, table), table
    assert read.info.command == "ht.profile"
    table = found.table()
    assert table.startswith("mlp on ")
    assert "overhead of this profile, of a step: not measured: run.audit(...)" in table


def test_an_audit_is_told_and_its_steps_are_not_recorded(step: ht.TrainStep) -> None:
    found, _ = profiled(step, 3)
    before = step.steps
    cost = found.audit(lambda: float(step(X, Y)), pairs=9).wall
    assert step.steps == before + 18 and cost.pairs == 9
    assert cost.low is not None and cost.high is not None and cost.low <= cost.percent <= cost.high
    assert len(found.run.steps) == 3
    told = [r for r in found.run.results if r.name.startswith("overhead")]
    assert [r.repeats for r in told] == [9, 9] and told[0].value == cost.percent
    assert found.table().count("9 pairs of steps in random order") == 2


def test_an_audit_of_few_pairs_is_unknown_and_says_why(step: ht.TrainStep) -> None:
    found, _ = profiled(step, 3)
    found.audit(lambda: float(step(X, Y)), pairs=6)
    why = "6 pairs of steps are too few to tell it from chance: it takes 9"
    assert {(r.value, r.low, r.value_reason) for r in found.run.results
            if r.name.startswith("overhead")} == {(None, None, why)}
    assert f"overhead of this profile, of a step: {why}\n" in found.table()


def test_micro_batches_are_one_step(opencl_device: FoundDevice) -> None:
    step = made(opencl_device.label, accumulate=2)
    with ht.profile(step) as run:
        float(step(X, Y))
        float(step(X, Y))
    launches = [la for la in run.run.launches if la.node and la.step == 1]
    program = step.program
    assert len(launches) == program.update_step + len(program.steps)
    assert len({la.number for la in run.run.launches if la.step == 1}) == len(
        [la for la in run.run.launches if la.step == 1])
    assert unaccounted(run.run) == [0, 0]
    step.close()


def test_inference(opencl_device: FoundDevice) -> None:
    model = nn.Sequential(nn.Linear(256, 16), nn.ReLU())
    infer = ht.inference(model, example=(X,), device=opencl_device.label)
    with ht.profile(infer) as run:
        infer(X)
    assert {s.kind for s in run.run.steps} == {"inference"}
    assert {la.phase for la in run.run.launches if la.node} == {"forward"}
    assert run.run.steps[0].subject == "inference b32"
    infer.close()


def test_what_cannot_be_profiled_is_refused(step: ht.TrainStep) -> None:
    with pytest.raises(BadInput) as other:
        ht.profile(7)
    assert other.value.what == "a profile of a int"
    assert other.value.why == ("it takes what ht.train_step, ht.inference and ht.load give, or a "
                               "function that runs torch")
    with pytest.raises(BadInput) as none:
        with ht.profile(step) as run:
            pass
        run.table()
    assert none.value.what == "a profile without a step"
    with pytest.raises(BadInput) as nested, ht.profile(step), ht.profile(step):
        pass
    assert nested.value.what == "a profile inside another of the same step"
    assert step.session.recorder is None
    with pytest.raises(BadInput) as running, ht.profile(step) as run:
        step(X, Y)
        run.table()
    assert running.value.what == "a profile that still runs"


def test_an_executor_without_a_clock_is_refused() -> None:
    step = made("ref")
    with pytest.raises(DeviceError) as refused:
        ht.profile(step)
    assert refused.value.why == "this executor has no device clock"


def test_a_step_that_fails_leaves_a_profile_of_the_others(step: ht.TrainStep) -> None:
    with ht.profile(step) as run:
        float(step(X, Y))
        with pytest.raises(BadInput):
            step(X[:3], Y[:3])
        float(step(X, Y))
    assert len(run.run.steps) == 2 and unaccounted(run.run) == [0, 0]


def test_event_times_are_checked_launch_by_launch(step: ht.TrainStep) -> None:
    run, _ = profiled(step, 5)
    steps, launches = len(run.run.steps), len(step.session.program.steps)
    found = run.check(lambda: float(step(X, Y)), 3)
    assert found.steps == 3 and found.total.launches == launches
    assert sum(k.launches for k in found.kernels) == launches
    assert found.total.alone_ns and found.total.queued_ns
    assert found.total.alone_ns <= found.total.window_ns     # the host saw all of every launch
    assert not {"no times", "too long"} & {k.verdict for k in found.kernels}, found
    assert len(run.run.steps) == steps                       # and they are not part of the profile
    figures = {r.name: r.value for r in run.run.results}
    assert figures["check: events, alone"] == found.total.alone_ns / 1e6


def test_steps_are_queued_again_after_a_check(step: ht.TrainStep) -> None:
    run, _ = profiled(step, 2)
    with pytest.raises(ZeroDivisionError):
        run.check(lambda: 1 / 0)
    resident = step.session.resident
    assert isinstance(resident, OpenCLResident) and resident.alone is None
    assert float(step(X, Y)) > 0


def test_a_check_needs_a_profile(step: ht.TrainStep) -> None:
    with pytest.raises(BadInput) as said:
        ht.profile(step).check(lambda: None)
    assert str(said.value) == (
        "a check of event times: it needs recorded steps to compare with\n"
        "  try: after the `with ht.profile(step)` block, with a step in it")


def test_steps_one_by_one_train_alike(opencl_device: FoundDevice) -> None:
    """With micro-batches, so that a step has two passes."""
    queued, alone = (made(opencl_device.label, accumulate=2) for _ in range(2))
    with ht.profile(alone) as run:
        first = float(alone(X, Y))
    losses: list[float] = []
    run.check(lambda: losses.append(float(alone(X, Y))), 3)
    assert [float(queued(X, Y)) for _ in range(4)] == [first, *losses]
    queued.close()
    alone.close()
