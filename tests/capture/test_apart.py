"""Tracing in a copy of the process: the same capture, and nothing of it left here."""

import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handtorch import knobs
from handtorch.capture import apart
from handtorch.capture import step as step_room
from handtorch.capture.apart import in_a_copy
from handtorch.capture.step import Captured, capture_inference, capture_user_step
from handtorch.errors import BadInput, CannotCapture
from handtorch.graph.text import graph_text

X, Y = torch.randn(8, 6), torch.randint(0, 3, (8,))


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that other tests have left here hold no lock that these need."""
    monkeypatch.setenv("HANDTORCH_CAPTURE", "apart")
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def captured(where: str, monkeypatch: pytest.MonkeyPatch) -> Captured:
    monkeypatch.setenv("HANDTORCH_CAPTURE", where)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(),
                                torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    weights = [1.0, 2.0, 3.0]

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, weight=torch.tensor(weights))
        loss.backward()
        optimizer.step()
        return loss
    return capture_user_step(step, [model], [optimizer], (X, Y))


def test_both_places_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    crossed: list[bool] = []

    def watched(work: Any) -> Any:
        found = in_a_copy(work)
        crossed.append(found is not None)
        return found
    monkeypatch.setattr(step_room, "in_a_copy", watched)
    there, here = captured("apart", monkeypatch), captured("here", monkeypatch)
    assert crossed == [True, False]
    assert graph_text(there.graph) == graph_text(here.graph)
    assert (there.homes, there.outputs) == (here.homes, here.outputs)
    assert [(f.rate, f.index, f.settings) for f in there.follows] == [
        (f.rate, f.index, f.settings) for f in here.follows]
    assert list(there.states) == list(here.states)
    for name, array in there.states.items():
        np.testing.assert_array_equal(array, here.states[name])


def test_it_is_another_process() -> None:
    assert in_a_copy(os.getpid) not in (None, os.getpid())


def test_a_nodes_attributes_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = captured("here", monkeypatch).graph
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    with pytest.raises(TypeError):
        again.nodes[0].attrs["more"] = 1


@pytest.mark.parametrize("why", ["asked", "threads", "debugger"])
def test_where_it_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    if why == "asked":
        monkeypatch.setenv("HANDTORCH_CAPTURE", "here")
    elif why == "threads":
        monkeypatch.setattr(threading, "active_count", lambda: 2)
    else:
        monkeypatch.setattr(sys, "gettrace", lambda: print)
    assert in_a_copy(os.getpid) is None


def test_an_unknown_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_CAPTURE", "there")
    with pytest.raises(BadInput) as e:
        knobs.captures_apart()
    assert e.value.message() == ("HANDTORCH_CAPTURE=there: it is `apart` or `here`\n"
                                 "  try: unset it, or `here` to trace in this process")


class Odd(UserWarning):
    """Pickled, it is made anew from its message alone."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


@pytest.mark.parametrize("end", ["raises", "dies", "cannot be told", "cannot be heard"])
def test_a_copy_that_ends_early_gives_nothing(end: str) -> None:
    ends = {"raises": lambda: [][0], "dies": lambda: os._exit(0),
            "cannot be told": lambda: (x for x in ()),
            "cannot be heard": lambda: warnings.warn(Odd("a", "b"), stacklevel=1) or 7}
    assert in_a_copy(ends[end]) is None


def test_no_room_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise OSError(11, "Resource temporarily unavailable")
    monkeypatch.setattr(apart.os, "fork", refused)
    before = len(os.listdir("/proc/self/fd"))
    assert in_a_copy(os.getpid) is None
    assert len(os.listdir("/proc/self/fd")) == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_a_file_beyond_the_thousandth() -> None:
    """`select` refuses those."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, limits[1]), limits[1]))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert in_a_copy(os.getpid) not in (None, os.getpid())
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("where", ["apart", "here"])
def test_a_buffer_that_the_first_pass_makes(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Masked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not hasattr(self, "mask"):
                self.register_buffer("mask", torch.ones(6))
            return x * self.mask
    monkeypatch.setenv("HANDTORCH_CAPTURE", where)
    assert capture_inference(Masked(), (X,)).graph.outputs


def test_a_refusal_comes_from_here_with_its_line() -> None:
    class Deciding(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x
    with pytest.raises(CannotCapture) as e:
        capture_inference(Deciding(), (X,))
    assert "return x if x.sum() > 0 else -x" in e.value.message()


def test_warnings_and_prints_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        print("said there")
        warnings.warn("and warned", UserWarning, stacklevel=1)
        return 7
    with pytest.warns(UserWarning, match="and warned") as told:
        assert in_a_copy(work) == 7
    assert told[0].filename == __file__
    assert capfd.readouterr().out == "said there\n"


def test_a_scheduler_takes_the_step_for_done() -> None:
    """It warns where no step of the optimizer came before its own."""
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    capture_user_step(step, [model], [optimizer], (X, Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_an_interrupt_ends_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    fdopen, wait = os.fdopen, os.waitpid

    def interrupted(handle: int, mode: str) -> object:
        if mode == "rb":
            os.close(handle)
            raise KeyboardInterrupt
        return fdopen(handle, mode)
    monkeypatch.setattr(apart.os, "fdopen", interrupted)
    monkeypatch.setattr(apart.os, "waitpid",
                        lambda child, flags: ended.append(wait(child, flags)))
    with pytest.raises(KeyboardInterrupt):
        in_a_copy(threading.Event().wait)
    ((_, status),) = ended
    assert os.WIFSIGNALED(status)


def test_nothing_of_the_trace_is_left_here() -> None:
    """In a process of its own, which has never traced: torch's tracer writes to what it loads."""
    text = ("import sys, torch\n"
            "from handtorch.capture.step import capture_inference\n"
            "before = set(sys.modules)\n"
            "capture_inference(torch.nn.Linear(6, 3), (torch.ones(8, 6),))\n"
            "print(len([m for m in set(sys.modules) - before if m.startswith('torch')]))\n")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True,
                          env=knobs.environment_for_child())
    assert done.stdout == "0\n"


def test_a_copy_that_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "MOST_S", 0.2)
    began = time.monotonic()
    with pytest.warns(UserWarning, match="HANDTORCH_CAPTURE=here does so at once"):
        assert in_a_copy(lambda: time.sleep(600)) is None
    assert time.monotonic() - began < 60
