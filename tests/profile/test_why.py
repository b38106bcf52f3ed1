"""Eight planted causes as made-up runs: each is named first, with about the time it costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from handtorch.errors import BadInput
from handtorch.profile.why import told, why
from handtorch.record import (
    Clock,
    Device,
    Gap,
    Launch,
    Machine,
    Place,
    Result,
    Run,
    RunInfo,
    Sample,
    Step,
)

CLOCK, US, MB = "CLOCK_MONOTONIC", 1000, 1_000_000
FLOPS, BYTES, LAUNCH = 100e9, 10e9, 5e3         # of the device: per second; ns
STEPS = 4


@dataclass
class Plant:
    """Steps written down as they happen; every call moves the time on."""

    now: int = 10**9
    steps: list[Step] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    def begin(self) -> None:
        self.steps.append(Step(id=len(self.steps), place="gpu", subject="net b8", clock=CLOCK,
                               number=len(self.steps), kind="training", start_ns=self.now,
                               end_ns=self.now, provenance="measured"))

    def end(self) -> None:
        self.steps[-1] = replace(self.steps[-1], end_ns=self.now)

    def _add(self, op: str, us: float, **given: object) -> Launch:
        step = self.steps[-1].id
        number = sum(la.step == step for la in self.launches)
        fields: dict[str, object] = {
            "step": step, "number": number, "kernel": op, "op": op, "phase": "forward",
            "clock": CLOCK, "queued_ns": self.now, "submit_ns": self.now, "start_ns": self.now,
            "end_ns": self.now + int(us * US), "flops": 0, "moved_bytes": 0,
            "provenance": "measured", "node": str(number)}
        return Launch(**(fields | given))  # type: ignore[arg-type]

    def op(self, op: str, us: float, flops: float = 0, nbytes: float = 0, layer: str = "",
           phase: str = "forward", kernel: str = "", spared: float = 0) -> None:
        self.launches.append(self._add(op, us, flops=int(flops), moved_bytes=int(nbytes),
                                       layer=layer, phase=phase, kernel=kernel or op,
                                       spared_bytes=int(spared), spared_reason=""))
        self.now += int(us * US)

    def copy(self, us: float, nbytes: float) -> None:
        self.op("map", us, 0, nbytes, phase="transfer")

    def gap(self, cause: str, us: float) -> None:
        step = self.steps[-1].id
        self.gaps.append(Gap(step=step, number=sum(g.step == step for g in self.gaps), cause=cause,
                             clock=CLOCK, start_ns=self.now, end_ns=self.now + int(us * US),
                             provenance="measured"))
        self.now += int(us * US)

    def wait(self, us: float) -> None:
        """The host waits until now, having begun `us` ago."""
        self.launches.append(self._add(
            "wait", 0, phase="host", lane="host", start_ns=self.now - int(us * US),
            end_ns=self.now, queued_ns=None, submit_ns=None, times_reason="no queue", flops=None,
            moved_bytes=None, work_reason="no rule", node=""))

    def run(self, others: float = 0.0, seconds: float = 0.2) -> Run:
        """`others` cores are busy with other programs, read for so long."""
        span = (self.steps[0].start_ns, self.steps[0].start_ns + int(1e9 * seconds))
        samples = [Sample(time_ns=t, clock=CLOCK, meter="m", quantity=q, value=v,
                          provenance="measured")
                   for q, busy in (("machine_cpu_s", 1 + others), ("process_cpu_s", 1.0))
                   for t, v in ((span[0], 5.0), (span[1], 5.0 + busy * seconds))]
        peaks = (("arithmetic peak", FLOPS), ("memory peak", BYTES), ("launch time", LAUNCH))
        return Run(
            info=RunInfo(id="1", command="", started_utc=""),
            machine=Machine(cpu_model="x", architecture="x", cores=2, usable_cores=2,
                            memory_bytes=1, os="", python=""),
            devices=(Device(id=0, name="d", vendor="", platform="", driver="", kind="cpu",
                            compute_units=1, global_bytes=1, local_bytes=1, self_test="passed",
                            largest_allocation_bytes=1),),
            places=(Place(name="gpu", kind="device", device=0, cores=None, cores_reason="no"),),
            clocks=(Clock(name=CLOCK, offset_ns=0, error_ns=0, provenance="measured"),),
            steps=tuple(self.steps), launches=tuple(self.launches), gaps=tuple(self.gaps),
            samples=tuple(samples),
            results=tuple(Result(study="profile", name=n, subject="d", place="gpu", value=v,
                                 unit="", better="higher", repeats=1, provenance="measured")
                          for n, v in peaks))


def good_gemm(plant: Plant, layer: str = "fc") -> None:
    plant.op("matmul", 250, flops=20e6, nbytes=MB, layer=layer)     # 80 % of the peak


def copy_per_op() -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        for i in range(5):
            p.copy(300, 3 * MB)
            p.gap("launch", 20)
            good_gemm(p, f"fc{i}")
            p.gap("wake", 15)
            p.copy(300, 3 * MB)
            p.gap("wake", 15)
            p.wait(300)
        p.end()
    return p.run()


def wait_per_op() -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        for i in range(5):
            good_gemm(p, f"fc{i}")
            p.gap("wake", 60)
            p.wait(310)
            p.gap("enqueue", 40)
        good_gemm(p, "last")
        p.end()
    return p.run()


def unfused_chain() -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        good_gemm(p)
        for op in ("mul", "add", "tanh", "sigmoid"):
            p.op(op, 900, flops=MB, nbytes=8 * MB, layer="gate", spared=5 * MB * (op != "mul"))
        p.end()
    return p.run()


def naive_gemm() -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        p.op("matmul", 10_000, flops=20e6, nbytes=MB, layer="fc1", kernel="gemm_naive")
        p.op("tanh", 300, flops=MB / 4, nbytes=2 * MB)
        p.end()
    return p.run()


def tiny_batch() -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        for i in range(10):
            p.op("matmul", 6, flops=1000, nbytes=2000, layer=f"fc{i}")
            p.gap("launch", 3)
        p.gap("wake", 10)
        p.wait(50)
        p.end()
    return p.run()


def slow_input() -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        p.gap("input", 3000)
        p.gap("staging", 50)
        good_gemm(p)
        good_gemm(p, "fc2")
        p.end()
    return p.run()


def memory_bound_layer() -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        good_gemm(p)
        p.op("embedding", 4000, flops=MB, nbytes=32 * MB, layer="table")
        good_gemm(p, "fc2")
        p.end()
    return p.run()


def busy_machine(seconds: float = 0.2) -> Run:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        for i in range(5):
            good_gemm(p, f"fc{i}")
        p.end()
    return p.run(others=1.2, seconds=seconds)


CASES = {
    "copies": (copy_per_op, 4 * (300 + 300 + 20 + 15 + 15 + 15), "leave values on the device"),
    "waits": (wait_per_op, 5 * 100, "wait once"),
    "unfused": (unfused_chain, 4 * 900 * (3 * 5) / (4 * 8), "fuse the chain"),
    "slow kernel": (naive_gemm, 10_000 - 200 / 0.6, "handtorch tune"),
    "tiny launches": (tiny_batch, 100 * 7 / 8, "a batch 8 times as large"),
    "input": (slow_input, 3000, "prepare it in a thread of its own"),
    "memory": (memory_bound_layer, 2000, "16-bit values"),
    "busy machine": (busy_machine, 0.6 * 1250, "when the machine is free"),
}


@pytest.mark.parametrize("cause", CASES)
def test_the_planted_cause_is_named_first(cause: str) -> None:
    plant, saves_us, remedy = CASES[cause]
    found = why(plant())
    assert found.top, told(found)
    first = found.top[0]
    assert first.cause == cause, told(found)
    assert first.saves_ns == pytest.approx(saves_us * US, rel=0.15), told(found)
    assert remedy in first.how
    assert 0 < first.saves_ns < found.step_ns
    assert len({c.cause for c in found.top}) == len(found.top) <= 3


def test_a_good_step_is_left_in_peace() -> None:
    p = Plant()
    for _ in range(STEPS):
        p.begin()
        for i in range(5):
            good_gemm(p, f"fc{i}")
        p.end()
    found = why(p.run())
    assert found.changes == ()
    assert told(found).splitlines()[:2] == [
        "net b8 on gpu: a step takes 1.250 ms (mean of 4 usual steps), the device works for "
        "1.250 ms of it (100 %)",
        "Nothing stands out."]
    assert {(o.bound, round(o.of_peak or 0, 2)) for o in found.ops} == {("compute", 0.8)}


def test_without_peaks_it_says_what_is_missing() -> None:
    found = why(replace(naive_gemm(), results=(), samples=()))
    assert {o.bound for o in found.ops} == {"unknown"} and found.changes == ()
    assert [u[:33] for u in found.unknown] == ["the device's peaks are not in thi",
                                               "what other programs used of the m"]


def test_a_busy_machine_does_not_slow_another_device() -> None:
    run = busy_machine()
    gpu = replace(run, devices=(replace(run.devices[0], kind="gpu"),))
    assert why(gpu).changes == ()


def test_torch_beside_it() -> None:
    run = naive_gemm()
    cpu = Place(name="torch cpu", kind="host cpu", cores="0-1")
    steps = tuple(replace(s, id=s.id + 100, place="torch cpu", end_ns=s.start_ns + 800 * US)
                  for s in run.steps)
    launches = tuple(replace(la, step=la.step + 100, lane="cpu", end_ns=la.start_ns + 700 * US)
                     for la in run.launches if la.op == "matmul" and la.start_ns is not None)
    torch = Run(info=run.info, places=(cpu,), clocks=run.clocks, steps=steps, launches=launches)
    found = why(run, torch=torch)
    assert [c.cause for c in found.top] == ["slow kernel", "other place"]
    assert found.top[1].saves_ns == pytest.approx((10_300 - 800) * US)
    worst = found.beside[0]
    assert (worst.layer, worst.here_ns, worst.torch_ns) == ("fc1", 10_000 * US, 700 * US)
    assert "fc1 (forward): 10.0 ms here, 0.700 ms by torch on the CPU" in told(found)


def test_the_text_of_an_answer() -> None:
    lines = told(why(naive_gemm())).splitlines()
    assert lines[:5] == [
        "net b8 on gpu: a step takes 10.3 ms (mean of 4 usual steps), the device works for 10.3 ms "
        "of it (100 %)",
        "What would help most:",
        "  1. saves 9.667 ms (94 %): slow kernel",
        "     matmul (gemm_naive) in fc1 reaches 2.0 % of what the device allows; it is bound by "
        "arithmetic",
        "     try: handtorch tune, or another kernel: good ones reach 60 %"]


def test_a_run_without_launches_is_refused() -> None:
    run = replace(naive_gemm(), launches=())
    with pytest.raises(BadInput) as said:
        why(run, subject="net b8", place="gpu")
    assert str(said.value) == (
        "why is net b8 on gpu slow: this run has no such step with timed launches\n"
        "  try: handtorch profile MODEL makes one")


def test_copies_are_not_taken_for_a_chain() -> None:
    p = Plant()
    p.begin()
    good_gemm(p)
    for _ in range(3):
        p.op("copy", 900, nbytes=8 * MB, phase="transfer")
    good_gemm(p)
    p.end()
    assert [c.cause for c in why(p.run()).changes] == ["copies"]


def test_a_counter_of_ticks_is_not_believed_for_a_moment() -> None:
    """Four milliseconds of steps and one tick of ten: more cores busy than there are."""
    found = why(busy_machine(seconds=0.099))
    assert "busy machine" not in [c.cause for c in found.changes]
    assert found.unknown == ("what other programs used of the machine: it was not read, or for "
                             "less than 0.1 s; take more steps",)


def test_on_a_busy_machine_the_rest_is_doubtful() -> None:
    assert why(busy_machine()).unknown == (
        "how fast operations and kernels are on a free machine: here they shared its cores",)
    assert why(naive_gemm()).unknown == ()
