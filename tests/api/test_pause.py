"""Pausing takes effect at the next edge, waits without work, and costs nothing when unused."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handtorch.errors import BadInput, Paused
from handtorch.store.tensors import read_tensors
from tests.api.resuming import Run, X, Y
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("ref")


def soon(condition: Callable[[], bool], within_s: float = 60.0) -> bool:
    end = time.monotonic() + within_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


class Trainer(threading.Thread):
    """Trains until it is told to stop; whatever goes wrong shows in the test."""

    def __init__(self, step: Any) -> None:
        super().__init__(daemon=True)
        self.step, self.stopped, self.wrong = step, False, None

    def run(self) -> None:
        try:
            while not self.stopped:
                self.step(X[0], Y[0])
        except BaseException as e:  # noqa: BLE001 - raised again in `__exit__`
            self.wrong = e

    def __enter__(self) -> Trainer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped = True
        self.step.resume()
        self.join(60)
        assert not self.is_alive()
        if self.wrong is not None:
            raise self.wrong


@pytest.mark.parametrize("device", ["ref", "opencl"])
def test_another_thread_pauses_and_resumes(opencl_device: Any, device: str, tmp_path: Path) -> None:
    step = Run(device if device == "ref" else opencl_device.label).step
    with Trainer(step):
        assert soon(lambda: step.steps > 3)
        assert not step.paused
        for _ in range(5):
            step.pause()
            assert soon(lambda: step.paused)
            before = step.steps
            step.save_checkpoint(tmp_path / "c")          # the device is idle, and ours
            time.sleep(0.02)
            assert step.steps == before == int(read_tensors(tmp_path / "c")[1]["steps"])
            step.resume()
            assert soon(lambda: step.steps > before)      # noqa: B023 - asked at once


def test_waiting_takes_no_time_of_the_processor(run: Run) -> None:
    with Trainer(run.step):
        run.step.pause()
        assert soon(lambda: run.step.paused)
        start = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - start < 0.03


def test_what_is_under_way_is_finished_first(opencl_device: Any, monkeypatch: Any) -> None:
    step = Run(opencl_device.label).step
    finished = []
    real = step.resident.finish
    monkeypatch.setattr(step.resident, "finish", lambda: finished.append(step.steps) or real())
    for i in range(4):
        step(X[i], Y[i])
    assert finished == []
    step.pause(raises=True)
    with pytest.raises(Paused):
        step(X[4], Y[4])
    assert finished == [4] and step.steps == 4


def test_paused_can_be_an_error_and_the_batch_comes_again(run: Run) -> None:
    x, y = X.reshape(80, 3, 6, 6), Y.reshape(80)
    want = [float(loss) for loss in Run("ref").step.epoch(x, y, seed=2)]
    step = Run("ref").step
    epoch, losses = step.epoch(x, y, seed=2), []
    for i in range(10):
        if i % 3 == 1:
            step.pause(raises=True)
            with pytest.raises(Paused) as e:
                next(epoch)
            assert said(e) == ("the step is paused: pause(raises=True) was called\n"
                               "  from test_pause.py  next(epoch)\n"
                               "  try: resume(), then the same batch again")
            assert not step.paused
            step.resume()
        losses.append(float(next(epoch)))
    assert losses == want


def test_pauses_and_resumes_without_a_step_leave_nothing(run: Run) -> None:
    for _ in range(1000):
        run.step.pause()
        run.step.resume()
    before = run.step.steps
    run.step(X[0], Y[0])
    assert run.step.steps == before + 1
    assert run.step._gate._calls.qsize() <= 1


def test_signals_pause_and_resume_the_thread_that_waits(run: Run) -> None:
    """The resuming signal's handler runs inside the waiting call itself."""
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)
    seen: list[bool] = []

    def other() -> None:
        seen.append(soon(lambda: run.step.paused))
        os.kill(os.getpid(), signal.SIGUSR2)

    with run.step.pause_on(signal.SIGUSR1, signal.SIGUSR2):
        for _ in range(20):
            thread = threading.Thread(target=other)
            os.kill(os.getpid(), signal.SIGUSR1)
            thread.start()
            run.step(X[0], Y[0])
            thread.join(60)
    assert seen == [True] * 20
    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)) == before


def test_an_interrupt_ends_the_waiting(run: Run) -> None:
    # A shell starts what runs in its background with interrupts ignored, and Python leaves it so.
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _interrupted(run)
    finally:
        signal.signal(signal.SIGINT, ours)


def _interrupted(run: Run) -> None:
    run.step.pause()
    before = run.step.steps
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()                            # inside: a busy machine may be late
        run.step(X[0], Y[0])
    assert not run.step.paused and run.step.steps == before
    run.step.resume()
    run.step(X[0], Y[0])


def test_signals_belong_to_the_main_thread(run: Run) -> None:
    caught: list[str] = []

    def other() -> None:
        try:
            with run.step.pause_on(signal.SIGUSR1, signal.SIGUSR2):
                pass
        except BadInput as e:
            caught.append(str(e))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(60)
    assert caught == [
        "signal 10: signal only works in main thread of the main interpreter\n"
        "  try: from the main thread; pause() and resume() from any"]


def test_a_signal_that_cannot_be_handled_leaves_the_other_as_it_was(run: Run) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(BadInput, match="signal 9: "), \
            run.step.pause_on(signal.SIGUSR1, signal.SIGKILL):
        pass
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_condition_holds_the_step_back(run: Run) -> None:
    hot, asked = iter([True, True, True, False]), []

    def too_hot() -> bool:
        asked.append(time.monotonic())
        return next(hot, False)

    run.step.yield_while(too_hot, every_s=0.05)
    run.step(X[0], Y[0])
    assert len(asked) == 4
    # At the edge, again once the device is idle, and then every 50 ms.
    assert asked[2] - asked[1] > 0.04 and asked[3] - asked[2] > 0.04
    run.step(X[0], Y[0])
    assert len(asked) == 5
    run.step.yield_while(None)
    run.step(X[0], Y[0])
    assert len(asked) == 5


def test_taking_the_condition_away_ends_the_waiting(run: Run) -> None:
    step = run.step
    step.yield_while(lambda: True, every_s=100.0)
    with Trainer(step):
        assert soon(lambda: step.paused)
        step.yield_while(None)
        before = step.steps
        assert soon(lambda: step.steps > before + 1)


@pytest.mark.parametrize(("condition", "every_s", "why"), [
    (3, 1.0, "a condition that is a int: it is asked before every step"),
    (None, 0.0, "every_s=0.0: it is the time between two questions"),
    (None, float("nan"), "every_s=nan: it is the time between two questions"),
])
def test_a_bad_condition_is_refused(run: Run, condition: Any, every_s: float, why: str) -> None:
    with pytest.raises(BadInput) as e:
        run.step.yield_while(condition, every_s=every_s)
    assert said(e).splitlines()[0] == why


def test_a_gate_nobody_asked_is_not_entered() -> None:
    run = Run("ref")
    run.step._gate.passing = None                # would be an error
    run.step(X[0], Y[0])
