"""`handtorch devices`: what can compute here, its limits, whether its driver computes right, and
which sensors tell of it."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from handtorch import knobs
from handtorch.cli.main import EXIT_NOT_DONE, EXIT_OK
from handtorch.errors import BadInput, HandTorchError, StorageError
from handtorch.meters import listing
from handtorch.meters.search import find_all
from handtorch.runtime.opencl import discover
from handtorch.runtime.opencl.discover import FoundDevice

if TYPE_CHECKING:
    from handtorch.selftest import SelfTest

HELP = "Show the OpenCL devices, their limits, drivers and self-test verdicts, and the sensors"
EXAMPLE = "handtorch devices --json"
COMMON = ("device",)

PAGE_WIDTH = 98


@dataclass(frozen=True)
class Row:
    """One device as shown: `default` is why it is chosen when none is named, else empty."""

    found: FoundDevice
    default: str
    test: SelfTest


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("--no-self-test", action="store_true",
                        help="show verdicts already known, test nothing")
    parser.add_argument("--sheet", metavar="FILE", help="measure the device (a few seconds) and "
                        "write its sheet: `handtorch plan --device FILE.toml` foretells steps on "
                        "it elsewhere")


def run(args: Namespace, out: TextIO) -> int:
    """List every device, or the one named by --device; exit 1 if a self-test failed."""
    notes = list(discover.notes())
    chosen = discover.choose(args.device) if args.device else _default(notes)
    if args.sheet:
        return _sheet(args, chosen, out)
    shown = (chosen,) if args.device and chosen else discover.find_devices()
    rows = [_row(found, chosen, args) for found in shown]
    sensors = find_all(Path(knobs.value("HANDTORCH_SENSORS")), os.getpid())
    if args.json:
        json.dump({"devices": [_record(r) for r in rows], "notes": notes,
                   **listing.records(sensors)}, out, indent=2)
        out.write("\n")
    else:
        out.write(f"{table(rows, notes)}\n{listing.text(sensors, PAGE_WIDTH)}")
    for sensor in sensors.sensors:
        sensor.close()
    return EXIT_NOT_DONE if any(r.test.state == "failed" for r in rows) else EXIT_OK


def _sheet(args: Namespace, chosen: FoundDevice | None, out: TextIO) -> int:
    """Measured now, and written only if it can be read again."""
    from handtorch.place.sheet import read_sheet
    from handtorch.profile.sheet_made import sheet_text, told
    from handtorch.runtime.opencl.context import OpenCLContext

    path = Path(args.sheet)
    if path.suffix != ".toml" or path.exists():
        raise BadInput(f"--sheet {path}", why="it is there already" if path.exists() else
                       "a sheet is a file that ends in .toml", fix="--sheet my-device.toml")
    if chosen is None:
        raise BadInput("--sheet", why="no OpenCL device is chosen", fix="--device NAME")
    sys.stderr.write(f"measuring {chosen.label} ...\n")
    text = sheet_text(OpenCLContext(chosen))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise StorageError(f"--sheet {path}", why=e.strerror or str(e)) from e
    sheet = read_sheet(path)
    if args.json:
        kind = sheet.processors[0]
        json.dump({"sheet": str(path), "name": sheet.name, "provenance": "measured",
                   **{name: figure.value for name, figure in kind.figures().items()}}, out,
                  indent=2)
        out.write("\n")
    else:
        out.write("\n".join([f"{path}: {sheet.name}", *told(text)]) + "\n")
    return EXIT_OK


def _default(notes: list[str]) -> FoundDevice | None:
    """The device taken when none is named; a bad HANDTORCH_DEVICE must not hide the list."""
    wanted = knobs.value("HANDTORCH_DEVICE")
    try:
        return discover.choose()
    except HandTorchError as refused:
        if not discover.find_devices():
            raise
        if wanted in ("ref", "null"):
            notes.append(f"HANDTORCH_DEVICE is {wanted}: programs run without OpenCL")
            return None
        source = f" (from {refused.where})" if refused.where else ""
        notes.append(f"{refused.what}{source}; try: {refused.fix}")
        return None


def _row(found: FoundDevice, chosen: FoundDevice | None, args: Namespace) -> Row:
    default = ""
    if not args.device and chosen and chosen.index == found.index:
        wanted = knobs.value("HANDTORCH_DEVICE")
        default = f"HANDTORCH_DEVICE is {wanted}" if wanted else discover.why_default(found)
    # Simulators take minutes; they are tested when asked for by name.
    may_run = not args.no_self_test and (found.facts.by_default or bool(args.device))
    return Row(found, default, _verdict(found, may_run))


def _verdict(found: FoundDevice, may_run: bool) -> SelfTest:
    """The verdict already known, or a fresh one if there is none and it may run."""
    from handtorch import selftest  # NumPy: too slow to load for `--help`

    known = selftest.verdict(found, run=False)
    if known.state == "not run" and may_run:
        sys.stderr.write(f"testing {found.label} (once per driver) ...\n")
        known = selftest.verdict(found)
    return known


def _record(row: Row) -> dict[str, object]:
    found = row.found
    return {"index": found.index, "short": found.short, "part": found.sub,
            "embedded": found.embedded, "default": bool(row.default), "default_why": row.default,
            "self_test": row.test.state, "self_test_detail": list(row.test.detail),
            "self_test_cases": row.test.cases, "key": found.spec.key, **found.spec.to_dict()}


def table(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """One column per device, three to a page width; then the default, failures and notes."""
    parts = [_columns(rows[at:at + 3]) for at in range(0, len(rows), 3)]
    tail = [f"default: {r.found.label} ({r.default})" for r in rows if r.default]
    tail += [f"self-test of {r.found.label}: {line}"
             for r in rows for line in r.test.detail]
    tail += [f"note: {n}" for n in notes]
    wrapped = [textwrap.fill(t, PAGE_WIDTH, subsequent_indent="  ", break_on_hyphens=False)
               for t in tail]
    return "\n\n".join([*parts, "\n".join(wrapped)]).rstrip() + "\n"


def _columns(rows: Sequence[Row]) -> str:
    title = max(len(name) for name, _ in _LINES)
    width = min((PAGE_WIDTH - title) // len(rows) - 2, 40)
    lines = []
    for name, say in _LINES:
        cells = [textwrap.wrap(say(r), width) or ["-"] for r in rows]
        for i in range(max(map(len, cells))):
            texts = (f"{c[i] if i < len(c) else '':<{width}}" for c in cells)
            lines.append("  ".join([f"{'' if i else name:<{title}}", *texts]).rstrip())
    return "\n".join(lines)


def size(count_bytes: int) -> str:
    """`5.2 GiB`; three digits are enough to read, the JSON has them all."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count_bytes >= factor:
            return f"{count_bytes / factor:.3g} {unit}"
    return f"{count_bytes} B"


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _units(row: Row) -> str:
    spec = row.found.spec
    clock = f" at {spec.clock_mhz} MHz" if spec.clock_mhz else ""
    return f"{spec.compute_units}{clock}"


def _memory(row: Row) -> str:
    shared = {True: ", shared with the host", False: ", its own", None: ""}
    return size(row.found.spec.global_bytes) + shared[row.found.spec.unified_memory]


def _local(row: Row) -> str:
    where = {True: ", on chip", False: ", in main memory", None: ""}
    return size(row.found.spec.local_bytes) + where[row.found.spec.local_is_dedicated]


def _group(row: Row) -> str:
    multiple = row.found.spec.group_multiple
    return f"{row.found.spec.max_work_group}" + (f", multiples of {multiple}" if multiple else "")


def _tested(row: Row) -> str:
    cases = f", {row.test.cases} cases" if row.test.cases else ""
    return row.test.state + cases + (", see below" if row.test.detail else "")


_LINES: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("device", lambda r: f"{r.found.index} {r.found.label}" + (" (default)" if r.default else "")),
    ("name", lambda r: r.found.spec.name),
    ("kind", lambda r: {"gpu": "GPU", "cpu": "CPU"}.get(r.found.spec.kind, r.found.spec.kind)),
    ("compute units", _units),
    ("memory", _memory),
    ("largest allocation", lambda r: size(r.found.spec.largest_allocation_bytes)),
    ("local memory", _local),
    ("work-group", _group),
    ("vector width", lambda r: f"{r.found.spec.float_width} float"),
    ("fp16, fp64", lambda r: f"{_yes(r.found.spec.fp16)}, {_yes(r.found.spec.fp64)}"),
    ("sub-groups", lambda r: _yes(r.found.spec.subgroups)),
    ("command buffers", lambda r: _yes(r.found.spec.command_buffers)),
    ("OpenCL", lambda r: f"{r.found.spec.device_version}, C {r.found.spec.opencl_c}"),
    ("platform", lambda r: r.found.spec.platform + (" (from pip)" if r.found.embedded else "")),
    ("driver", lambda r: r.found.spec.driver),
    ("self-test", _tested),
)
