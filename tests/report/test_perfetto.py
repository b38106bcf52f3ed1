"""Perfetto's format, read back by a decoder of our own and, where it is there, by Google's schema.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handtorch.report import write_chrome, write_perfetto
from tests.report.profiled import T0, profiled_run

Fields = dict[int, list[Any]]


def fields(data: bytes) -> Fields:
    """Any protocol buffer: for each field number the values in order, messages as bytes."""
    found: Fields = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: Any
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        else:
            assert key & 7 == 2, f"kind {key & 7}"
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "cut short"
        found.setdefault(key >> 3, []).append(value)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def packets(path: Path) -> Iterator[Fields]:
    trace = fields(path.read_bytes())
    assert list(trace) == [1]
    for packet in trace[1]:
        yield fields(packet)


class Decoded:
    """What a viewer would have: tracks by uuid, slices and counters with their texts."""

    def __init__(self, path: Path) -> None:
        self.tracks: dict[int, tuple[str, int]] = {}         # name, parent
        self.slices: list[dict[str, Any]] = []
        self.levels: list[tuple[str, int, float]] = []
        texts: dict[tuple[int, int], str] = {}
        opened: dict[int, dict[str, Any]] = {}
        first = True
        for packet in packets(path):
            assert packet[10] == [1]
            assert (packet.get(13) == [1]) == first, "state is cleared once, at the beginning"
            first = False
            for interned in packet.get(12, []):
                for of, entries in fields(interned).items():
                    for entry in map(fields, entries):
                        assert (of, entry[1][0]) not in texts, "sent twice"
                        texts[of, entry[1][0]] = entry[2][0].decode()
            for descriptor in map(fields, packet.get(60, [])):
                process = [fields(p)[6][0] for p in descriptor.get(3, [])]
                (name,) = (*process, *descriptor.get(2, []))
                (parent,) = descriptor.get(5, [0])
                assert parent in (0, *self.tracks)
                self.tracks[descriptor[1][0]] = name.decode(), parent
            for event in map(fields, packet.get(11, [])):
                self._event(packet[8][0], event, texts, opened)
        assert not opened, "begun and not ended"

    def _event(self, time_ns: int, event: Fields, texts: dict[tuple[int, int], str],
               opened: dict[int, dict[str, Any]]) -> None:
        (kind,), (track,) = event[9], event[11]
        name, _ = self.tracks[track]
        if kind == 1:
            assert track not in opened, "spans of a track lie apart"
            args: dict[str, Any] = {}
            for note in map(fields, event.get(4, [])):
                said = note[3][0] if 3 in note else texts[29, note[17][0]]
                args[texts[3, note[1][0]]] = said
            opened[track] = {"track": name, "name": texts[2, event[10][0]], "start": time_ns,
                             "category": texts[1, event[3][0]], "args": args}
        elif kind == 2:
            self.slices.append(opened.pop(track) | {"end": time_ns})
        else:
            assert kind == 4
            self.levels.append((name, time_ns - T0, (event.get(30) or event[44])[0]))


def test_slices_have_names_times_and_arguments(tmp_path: Path) -> None:
    seen = Decoded(write_perfetto(profiled_run(), tmp_path / "t.pftrace"))
    assert len(seen.slices) == 2 + 8 + 4
    sgd = next(s for s in seen.slices if s["name"] == "sgd")
    assert sgd == {"track": "queue 2", "name": "sgd", "category": "optimizer",
                   "start": T0 + 600_001, "end": T0 + 900_000,
                   "args": {"op": "matmul", "layer": "fc1", "line": 'train.py:41  p = "é"',
                            "flops": 2000}}
    assert {name for name, parent in seen.tracks.values() if not parent} == {"gpu", "meters"}


def test_memory_and_meters_are_counter_tracks(tmp_path: Path) -> None:
    seen = Decoded(write_perfetto(profiled_run(), tmp_path / "t.pftrace"))
    assert ("memory: gradients", 400_000, 1 << 40) in seen.levels
    assert ("memory: gradients", 1_000, 0) in seen.levels
    assert ("process process_cpu_s", 20, 0.5) in seen.levels


def test_names_are_sent_once_so_files_are_small(tmp_path: Path) -> None:
    run = profiled_run()
    binary = write_perfetto(run, tmp_path / "t.pftrace").read_bytes()
    assert binary.count(b"train.py:41") == 1
    many = replace(run, launches=tuple(
        replace(la, number=100 * i + la.number, start_ns=la.start_ns + 2_000_000 * i,
                end_ns=la.end_ns + 2_000_000 * i) for i in range(50) for la in run.launches
        if la.start_ns is not None and la.end_ns is not None))
    more = write_perfetto(many, tmp_path / "m.pftrace").stat().st_size - len(binary)
    assert more / (49 * 8) < 80                  # bytes a launch, with four arguments
    assert more < write_chrome(many, tmp_path / "t.json").stat().st_size / 2


def test_googles_schema_reads_every_field(tmp_path: Path) -> None:
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2",
                                 reason="the packages perfetto and protobuf are not installed")
    trace = schema.Trace()
    data = write_perfetto(profiled_run(), tmp_path / "t.pftrace").read_bytes()
    trace.ParseFromString(data)
    known = trace.SerializeToString()
    trace.DiscardUnknownFields()
    assert trace.SerializeToString() == known and len(known) == len(data)
    slices = [p.track_event for p in trace.packet if p.track_event.type == 1]
    assert len(slices) == 14 and all(s.name_iid and s.track_uuid for s in slices)
    units = {p.track_descriptor.name: p.track_descriptor.counter.unit for p in trace.packet
             if p.HasField("track_descriptor") and p.track_descriptor.HasField("counter")}
    assert units == {"memory: gradients": 3, "memory: parameters": 3, "process process_cpu_s": 0}
    assert {p.trusted_packet_sequence_id for p in trace.packet} == {1}


def test_googles_trace_processor_finds_every_slice(tmp_path: Path) -> None:
    """Needs its native program, which the package downloads at first use."""
    processor = pytest.importorskip("perfetto.trace_processor",
                                    reason="the package perfetto is not installed")
    path = write_perfetto(profiled_run(), tmp_path / "t.pftrace")
    try:
        opened = processor.TraceProcessor(trace=str(path))
    except (OSError, RuntimeError, ValueError, subprocess.CalledProcessError) as no:
        pytest.skip(f"the trace processor could not be had: {no}")
    with opened:
        rows = list(opened.query("select name, ts, dur from slice where name = 'sgd' order by ts"))
    assert [(r.ts, r.dur) for r in rows] == [(T0 + 600_001, 299_999), (T0 + 1_600_001, 299_999)]
