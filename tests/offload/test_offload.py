"""One call over places: the answer of a place, and why it was that one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import handtorch as ht
from handtorch.errors import BadInput
from handtorch.offload import offload as module
from handtorch.offload.place import Load, Place
from handtorch.record.rows import Comparison, Result


@dataclass
class Clock:
    """Stands in for the module `time`: a call takes what its place says, on any machine."""

    now_s: float = 0.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def slow(clock: Clock, seconds: float, name: str) -> Place:
    def call(x: int) -> tuple[str, int]:
        clock.now_s += seconds
        return name, x
    return Place(name, call, lambda: Load(0.0), (0,) if name == "cpu" else (1,))


def test_calls_go_to_the_quicker_place_and_are_explained(clock: Clock) -> None:
    offload = ht.offload([slow(clock, 0.004, "cpu"), slow(clock, 0.001, "device")])
    answers = [offload(k) for k in range(10)]
    assert [x for _, x in answers] == list(range(10))
    assert [name for name, _ in answers[6:]] == ["device"] * 4
    assert offload.last.place == "device" and offload.last.kind == "stay"
    assert offload.explain().startswith("call 10: device (stay): cpu ")
    assert len(offload.explain(3).splitlines()) == 3
    rows = list(offload.rows())
    (pair,) = (r for r in rows if isinstance(r, Comparison))
    assert pair.same_silicon and pair.same_silicon_reason == (
        "different cores of one CPU: cpu on 0, device on 1")
    results = [r for r in rows if isinstance(r, Result)]
    assert [r.name for r in results][:7] == ["decision: first"] * 6 + ["decision: stay"]
    assert results[-1].subject == offload.last.why


def test_an_error_of_a_place_is_the_callers(clock: Clock) -> None:
    def broken(x: int) -> int:
        raise OSError("the device is gone")
    offload = ht.offload([Place("device", broken), slow(clock, 0.001, "cpu")])
    with pytest.raises(OSError, match="the device is gone"):
        offload(1)


def test_what_cannot_be_places(clock: Clock) -> None:
    with pytest.raises(BadInput) as raised:
        ht.offload([slow(clock, 0, "a"), slow(clock, 0, "a")])
    assert raised.value.why == ("it takes one or more, each with a name of its own; the names are "
                                "a, a")
    with pytest.raises(BadInput) as raised:
        ht.offload([slow(clock, 0, "a")]).explain()
    assert str(raised.value) == "nothing was decided yet\n  try: call it first"
    with pytest.raises(BadInput) as raised:
        Place("", print)
    assert "it needs a name and something to call" in str(raised.value)
