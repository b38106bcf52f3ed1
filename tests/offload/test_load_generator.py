"""The generator holds its share, says what it held, and never stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from handtorch import knobs
from handtorch.errors import BadInput, DeviceError
from handtorch.offload.load_generator import Held, LoadGenerator
from handtorch.offload.load_worker import MOST_OWED_PERIODS, Pace
from handtorch.runtime.opencl.discover import find_devices


def core() -> int:
    return max(os.sched_getaffinity(0))


def held_or_skip(load: LoadGenerator, share: float) -> Held:
    """A machine whose cores others use cannot hold anything, which is no fault of ours."""
    load.hold(share)
    time.sleep(0.2)
    try:
        held = load.check(0.6, windows=6)
    except DeviceError as e:
        if load.others_share(0.3) > 0.05:
            pytest.skip(f"others use core {core()}: {e.why}")
        raise
    return held


@pytest.mark.timed
def test_a_core_is_held_at_low_and_high_share() -> None:
    with LoadGenerator(cores=(core(),), limit_s=30, highest=0.8) as load:
        for share in (0.2, 0.8):
            held = held_or_skip(load, share)
            assert held.asked == share
            assert held.share == pytest.approx(share, abs=0.06)
        load.hold(0.0)
        time.sleep(0.1)
        assert load.check(0.3, windows=3).share < 0.02, "no work, no wake-ups"


@pytest.mark.timed
def test_a_device_is_held_at_a_share(opencl_device: object) -> None:
    label = opencl_device.label                                     # type: ignore[attr-defined]
    cpu = opencl_device.spec.kind == "cpu"                          # type: ignore[attr-defined]
    with LoadGenerator(cores=(core(),) if cpu else (), device=label, limit_s=30,
                       highest=0.5) as load:
        assert held_or_skip(load, 0.4).share == pytest.approx(0.4, abs=0.06)


@pytest.mark.parametrize("on_device", [False, True], ids=["core", "device"])
def test_it_works_but_never_takes_more_than_its_share(on_device: bool) -> None:
    """Whoever else is busy: a worker that gets less is judged by `check`, on a quiet machine."""
    device = next((d.label for d in find_devices() if d.spec.kind == "cpu"), None)
    if on_device and device is None:
        pytest.skip("no device here is the host's CPU")
    with LoadGenerator(cores=(core(),), device=device if on_device else None, limit_s=60,
                       highest=0.4) as load:
        load.hold(0.3)
        first = load.moment()
        for _ in range(200):                    # 0.3 s are enough, where nobody else is busy
            time.sleep(0.05)
            last = load.moment()
            if last.used_s - first.used_s > 0.1:
                break
    assert 0.1 < last.used_s - first.used_s <= 0.35 * (last.at_s - first.at_s) + 0.02


def test_what_is_not_held_is_refused_in_numbers() -> None:
    with LoadGenerator(cores=(core(),), limit_s=30, highest=0.4) as load:
        load.hold(0.1)
        before = load.moment()
        time.sleep(0.3)
        load._asked = 0.4                       # as if the machine had given a quarter of it
        with pytest.raises(DeviceError) as raised:
            load.judged([before, load.moment()])
    assert raised.value.what == f"a load of 40% on core {core()}"
    assert raised.value.why.startswith("it came to ")
    assert raised.value.fix == "a quieter machine, or a lower share"


def test_a_worker_ends_at_its_limit_and_with_its_parent() -> None:
    with LoadGenerator(cores=(core(),), limit_s=2.0, highest=0.3) as load:
        (pid,) = load.pids
        with pytest.raises(DeviceError) as raised:      # a busy machine may take 2 s for the start
            load.hold(0.3)
            assert ends(pid)
            load.check(0.1)
        assert raised.value.why == "its time is over"
        assert raised.value.fix == "a larger limit_s"
    assert not alive(pid)
    script = ("import os; from handtorch.offload.load_generator import LoadGenerator\n"
              f"load = LoadGenerator(cores=({core()},), limit_s=60, highest=0.3); load.hold(0.3)\n"
              "print(*load.pids, flush=True); os._exit(0)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          check=True, env=knobs.environment_for_child())
    assert ends(int(done.stdout)), "its parent has gone without a word"


def ends(pid: int) -> bool:
    until = time.monotonic() + 60
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def alive(pid: int) -> bool:
    """A zombie waits for its parent and works no more."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_cannot_be_held() -> None:
    for given, said in (({}, "a load on nothing"),
                        ({"cores": (10**6,)}, "a load on core 1000000"),
                        ({"cores": (core(),), "highest": 0.99}, "a load of up to 99% for 60 s"),
                        ({"cores": (core(),), "limit_s": 1e6},
                         "a load of up to 90% for 1e+06 s")):
        with pytest.raises(BadInput) as raised:
            LoadGenerator(**given)                                  # type: ignore[arg-type]
        assert raised.value.what == said
    with LoadGenerator(cores=(core(),), limit_s=5, highest=0.4) as load:
        with pytest.raises(BadInput) as raised:
            load.hold(0.8)
        assert str(raised.value) == ("a load of 80%: this one was made for up to 40%\n"
                                     "  try: LoadGenerator(..., highest=0.8)")


def test_a_starved_worker_is_forgiven_what_it_could_not_do() -> None:
    pace = Pace(0.003)
    pace.set(0.5, 0.0, 0.0)
    assert pace.due_s(0.003, 0.0) == pytest.approx(0.0015)
    most = MOST_OWED_PERIODS * 0.003 * 0.5
    assert pace.due_s(10.0, 0.001) == pytest.approx(0.001 + most)
    assert pace.due_s(10.002, 0.001 + most) == pytest.approx(0.001 + most + 0.001)


