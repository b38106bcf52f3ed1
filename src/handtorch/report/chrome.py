"""A run as Chrome's trace JSON, which chrome://tracing, Perfetto and many tools open."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from handtorch.record import Run
from handtorch.report.trace import Group, Trace, trace_of
from handtorch.report.whole import write_whole

_GZIP = 31                                  # zlib's word for a gzip header around it


def write_chrome(run: Run, path: str | Path) -> Path:
    """The trace of `run` is at `path` afterwards, compressed if the name ends in `.gz`."""
    path = Path(path)
    parts = (line.encode() for line in chrome_lines(run, trace_of(run)))
    return write_whole(path, "trace", _compressed(parts) if path.suffix == ".gz" else parts)


def chrome_lines(run: Run, trace: Trace) -> Iterator[str]:
    """One event a line; microseconds since the first, with the nanoseconds as decimals."""
    first_ns = min(span.start_ns for span in trace.spans())
    about = {"command": run.info.command, "started_utc": run.info.started_utc,
             "clock": "CLOCK_MONOTONIC", "first_ns": first_ns, "left_out": trace.left_out}
    yield f'{{"otherData":{_json(about)},"displayTimeUnit":"ms","traceEvents":[\n'
    between = ""
    for process, group in enumerate(trace.groups, 1):
        for event in _events(process, group, first_ns):
            yield between + event
            between = ",\n"
    yield "\n]}\n"


def _events(process: int, group: Group, first_ns: int) -> Iterator[str]:
    yield _meta(process, 0, "process_name", group.name)
    for thread, track in enumerate(group.tracks, 1):
        yield _meta(process, thread, "thread_name", track.name)
        for span in track.spans:
            args = f',"args":{_json(dict(span.args))}' if span.args else ""
            yield (f'{{"ph":"X","pid":{process},"tid":{thread},"name":{_json(span.name)},'
                   f'"cat":{_json(span.category)},"ts":{_us(span.start_ns - first_ns)},'
                   f'"dur":{_us(span.end_ns - span.start_ns)}{args}}}')
    for level in group.levels:
        for time_ns, value in level.points:
            shown = int(value) if level.is_bytes else value
            yield (f'{{"ph":"C","pid":{process},"name":{_json(level.name)},'
                   f'"ts":{_us(time_ns - first_ns)},"args":{{"value":{_json(shown)}}}}}')


def _meta(process: int, thread: int, what: str, name: str) -> str:
    return (f'{{"ph":"M","pid":{process},"tid":{thread},"name":"{what}",'
            f'"args":{{"name":{_json(name)}}}}}')


def _us(ns: int) -> str:
    """Exact: a float would lose the nanoseconds of long runs."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _compressed(parts: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(wbits=_GZIP)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()
