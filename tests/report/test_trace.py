"""Tracks of a run: every row once, spans apart, nothing without a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from handtorch.errors import BadInput, StorageError
from handtorch.report.trace import trace_of
from handtorch.report.whole import write_whole
from tests.report.profiled import T0, profiled_run


def test_every_lane_is_a_track_and_overlap_a_further_one() -> None:
    trace = trace_of(profiled_run())
    gpu, meters = trace.groups
    spans = {t.name: [(s.name, s.start_ns - T0, s.end_ns - T0) for s in t.spans][:3]
             for t in gpu.tracks}
    assert spans == {
        "steps": [("step 0", 0, 1_000_000), ("step 1", 1_000_000, 2_000_000)],
        "queue": [("gemm", 1_000, 400_000), ("gemm", 400_000, 700_000),
                  ("gemm", 1_001_000, 1_400_000)],
        "queue 2": [("sgd", 600_001, 900_000), ("sgd", 1_600_001, 1_900_000)],
        "host": [("wait", 500_000, 1_000_000), ("wait", 1_500_000, 2_000_000)],
        "idle": [("input", 0, 1_000), ("wake", 900_000, 1_000_000),
                 ("input", 1_000_000, 1_001_000)]}
    assert all(a.end_ns <= b.start_ns for t in gpu.tracks for a, b in pairwise(t.spans))
    assert (meters.name, meters.tracks) == ("meters", ())


def test_memory_follows_the_launches_of_every_step() -> None:
    gpu, meters = trace_of(profiled_run()).groups
    levels = {level.name: [(t - T0, v) for t, v in level.points] for level in gpu.levels}
    assert levels == {
        "memory: gradients": [(1_000, 0), (400_000, 1 << 40), (1_001_000, 0),
                              (1_400_000, 1 << 40)],
        "memory: parameters": [(1_000, 4096)]}
    assert [(level.name, level.is_bytes) for level in meters.levels] == [
        ("process process_cpu_s", False)]


def test_what_has_no_time_is_counted() -> None:
    run = profiled_run()
    assert trace_of(run).left_out == 1
    said = [s.name for s in trace_of(run).spans()]
    assert "lost" not in said


def test_a_clock_with_an_offset_is_put_on_the_axis() -> None:
    run = profiled_run()
    known = replace(run.clocks[1], offset_ns=77, error_ns=1, offset_reason="")
    (lost,) = (s for s in trace_of(replace(run, clocks=(run.clocks[0], known))).spans()
               if s.name == "lost")
    assert lost.start_ns == T0 + 1_000_001 + 77


def test_a_run_without_times_is_refused() -> None:
    run = replace(profiled_run(), steps=(), launches=(), gaps=())
    with pytest.raises(BadInput) as told:
        trace_of(run)
    assert str(told.value) == (
        "a trace of 'handtorch profile \\u2028 mlp': no step of this run has a time\n"
        "  try: handtorch profile MODEL makes a run that has")


def test_a_failing_writer_leaves_the_older_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "a.bin"
    write_whole(path, "trace", [b"old"])

    def parts() -> list[bytes]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "trace", (p for _ in (1,) for p in parts()))
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]
    with pytest.raises(StorageError) as told:
        write_whole(path / "b", "trace", [b"new"])
    assert str(told.value).startswith(f"trace {path / 'b'}: cannot be written: ")
