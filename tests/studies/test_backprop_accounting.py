"""The accounting on made-up event times, and on a phone's with the paper's cost of copies."""

from __future__ import annotations

import pytest

from handtorch.capture.step import capture_train_step
from handtorch.graph.device_spec import GENERIC
from handtorch.runtime.device import LaunchTime
from handtorch.studies.backprop_accounting import Observed, Split, split
from handtorch.studies.backprop_one_op import Op, lower_ops, unfused
from handtorch.studies.backprop_pictures import started
from handtorch.zoo.registry import MODELS

# The paper: its optimised kernels on the OnePlus 8 Pro, and what copying takes beside computing.
PHONE_GFLOPS, COPIES_OVER_KERNELS = 70, (10, 15)


def event(start_ns: int, end_ns: int) -> LaunchTime:
    return LaunchTime(start_ns, start_ns, start_ns, end_ns)


def test_kernels_copies_and_the_rest_add_up() -> None:
    seen = Observed(1000, (event(300, 400), event(500, 650)), (event(0, 100), event(700, 800)))
    assert split(seen) == Split(250, 200, 550)
    assert split(seen).wall_ns == 1000
    assert split(seen).kernel_share == 0.25
    assert split(seen).moved_share == 200 / 450


def test_what_overlaps_counts_once_and_for_the_kernel() -> None:
    seen = Observed(1000, (event(100, 300), event(200, 400), event(250, 260)),
                    (event(350, 500), event(0, 50), event(450, 480)))
    assert split(seen) == Split(300, 150, 550)


def test_neither_the_order_nor_the_devices_clock_matters() -> None:
    far = 10**15
    shuffled = Observed(1000, (event(far + 500, far + 650), event(far + 300, far + 400)),
                        (event(far + 700, far + 800), event(far, far + 100)))
    assert split(shuffled) == Split(250, 200, 550)


def test_several_steps_give_their_mean() -> None:
    seen = Observed(1000, (event(0, 100), event(500, 600)), (event(100, 150),), steps=2)
    assert split(seen) == Split(100, 25, 375)


def test_a_copy_by_the_host_counts_what_kernels_leave_of_the_time() -> None:
    kernels = (event(0, 700),)
    assert split(Observed(1000, kernels, (), host_copy_ns=120)) == Split(700, 120, 180)
    assert split(Observed(1000, kernels, (), host_copy_ns=900)) == Split(700, 300, 0)


def test_nothing_done_has_no_share() -> None:
    idle = split(Observed(1000, (), ()))
    assert idle == Split(0, 0, 1000)
    assert idle.moved_share is None
    assert split(Observed(0, (), ())).kernel_share == 0


@pytest.mark.parametrize(("seen", "why"), [
    (Observed(1000, (event(50, 40),), ()), "an event ends 10 ns before it starts"),
    (Observed(1000, (), (event(50, 40),)), "an event ends 10 ns before it starts"),
    (Observed(1000, (event(0, 600),), (event(600, 1001),)),
     "the device was busy for 1001 of 1000 ns"),
    (Observed(1000, (event(0, 600), event(0, 600)), (event(600, 1000),)), ""),
])
def test_times_that_cannot_be_are_told(seen: Observed, why: str) -> None:
    assert seen.fault() == why


def test_impossible_times_are_not_split() -> None:
    with pytest.raises(AssertionError, match="busy"):
        split(Observed(10, (event(0, 11),), ()))


@pytest.fixture(scope="module")
def ops() -> tuple[Op, ...]:
    """What the paper's network for MNIST does in one step, op by op."""
    entry, model = MODELS["Model4"], started("Model4")
    assert entry.loss is not None
    captured = capture_train_step(model, entry.loss, entry.optimizers(model)[0], entry.batch(32))
    return lower_ops(unfused(captured.graph), GENERIC, naive=True)


def phone(ops: tuple[Op, ...], copies_over_kernels: float, pause_ns: int) -> Observed:
    """The step as a phone's events: kernels at the paper's rate, copies by their bytes at the
    bandwidth which the paper's ratio leaves, and a pause before every command."""
    flops = sum(s.flops for op in ops for s in op.steps if s.kernel == "gemm_naive")
    ns_per_byte = (copies_over_kernels * flops / PHONE_GFLOPS
                   / sum(op.moved_bytes for op in ops))
    start_ns = now = 7 * 10**14
    kernels, copies = list[LaunchTime](), list[LaunchTime]()

    def after(took_ns: float, done: list[LaunchTime]) -> None:
        nonlocal now
        done.append(event(now + pause_ns, now + pause_ns + round(took_ns)))
        now = done[-1].end_ns
    for op in ops:
        if not op.steps:
            continue
        for value in dict.fromkeys(op.node.inputs):
            after(value.nbytes * ns_per_byte, copies)
        for step in op.steps:
            after(step.flops / PHONE_GFLOPS if step.kernel == "gemm_naive" else 0, kernels)
        for value in op.node.outputs:
            after(value.nbytes * ns_per_byte, copies)
    return Observed(now - start_ns, tuple(kernels), tuple(copies))


def test_a_phones_copies_give_the_papers_91_percent(ops: tuple[Op, ...]) -> None:
    """10 times as long as the kernels is 91 % of both together, which is what the paper found."""
    low, high = COPIES_OVER_KERNELS
    found = split(phone(ops, low, pause_ns=0))
    assert found.moved_share == pytest.approx(0.91, abs=0.002)
    assert found.kernel_share == pytest.approx(0.09, abs=0.002)
    assert split(phone(ops, high, pause_ns=0)).moved_share == pytest.approx(15 / 16, abs=0.002)


def test_pauses_of_the_driver_are_no_data_movement(ops: tuple[Op, ...]) -> None:
    seen = phone(ops, COPIES_OVER_KERNELS[0], pause_ns=20_000)
    found = split(seen)
    assert found.moved_share == pytest.approx(0.91, abs=0.002)
    assert found.wait_ns == 20_000 * (len(seen.kernels) + len(seen.copies))
    assert found.kernel_share < 0.09
