"""Replicas among other processes: below the one that is named, and with Ray's title."""

from __future__ import annotations

from pathlib import Path

from handtorch.cloud.replica_pids import replica_pids


def test_replicas_are_found_below_a_process_and_nowhere_else(tmp_path: Path) -> None:
    for pid, parent, title in ((1, 0, "init"), (10, 1, "serve"), (20, 10, "raylet (a) b"),
                               (31, 20, "ray::ServeReplica:net"), (30, 10, "ray::ServeReplica:x"),
                               (40, 20, "ray::Controller"), (50, 1, "ray::ServeReplica:other")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({title}) S {parent} 1 1")
        (tmp_path / str(pid) / "cmdline").write_bytes(title.encode() + b"\0")
    (tmp_path / "60").mkdir()                               # has ended meanwhile
    assert replica_pids(10, tmp_path) == [30, 31]
    assert replica_pids(50, tmp_path) == [50] and replica_pids(40, tmp_path) == []
