"""`handtorch plan MODEL`: memory of a training step, what a budget costs, the largest batch; on a
device that is not here also its time and energy, by the device's sheet."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch.cli.main import EXIT_NOT_DONE, EXIT_OK
from handtorch.cli.of_zoo import (
    add_list,
    captured_model,
    captured_run,
    entry_of,
    no_model,
    show_list,
)
from handtorch.cli.progress import Count
from handtorch.errors import BadInput, NoDevice, nearest

if TYPE_CHECKING:
    from handtorch.api.budget import Clock, Fitted, Fitting
    from handtorch.api.on_sheet import Simulated
    from handtorch.graph.device_spec import DeviceSpec
    from handtorch.graph.node import Graph
    from handtorch.place.sheet import Sheet
    from handtorch.plan.cost import Roofline
    from handtorch.program import Program
    from handtorch.runtime.opencl.discover import FoundDevice

HELP = "Show the peak memory of a training step, what a budget costs, and the largest batch"
EXAMPLE = "handtorch plan ResNet50 --batch 16 --memory 2GiB --device nexus-5"
COMMON: tuple[str, ...] = ()
_PARTS = (1.0, 0.75, 0.5)
_MOST_ROWS = 1 << 20
_EXAMPLES = ("handtorch plan ResNet50", "handtorch plan ResNet50 --infer")


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a model of the zoo: see "
                        "--list")
    add_list(parser)
    parser.add_argument("--form", default="", help="which of the model's forms; the first if not "
                        "named")
    parser.add_argument("--batch", metavar="N", type=int, default=16, help="rows (samples) of a "
                        "batch (16)")
    parser.add_argument("--memory", metavar="SIZE", help="a budget: 2GiB, 512MiB; what the device "
                        "has if not named")
    parser.add_argument("--device", metavar="SHEET|NAME", help="a phone or board by its sheet "
                        "(nexus-5, ..., or a .toml file), which also tells time and energy; a file "
                        "that describes a device (the text of clinfo, or JSON); or a device here")
    parser.add_argument("--processor", choices=("gpu", "cpu"), default="", help="which processor "
                        "of a sheet; its GPU if not named")
    parser.add_argument("--infer", action="store_true", help="a run of the model on a batch, "
                        "instead of a training step")
    parser.add_argument("--measure", action="store_true", help="predict slow-downs from launches "
                        "timed on the device here, instead of from its sheet; it takes a minute or "
                        "two, and times are kept")
    parser.add_argument("--no-largest", action="store_true", help="do not look for the largest "
                        "batch, which takes a few captures")


@dataclass(frozen=True)
class Row:
    """One line of the table: a budget as asked, and what was found; None where nothing fits."""

    asked: str
    found: Fitted | None


@dataclass(frozen=True)
class Target:
    """What is planned for: facts, in words where they are from, and the device or its sheet."""

    spec: DeviceSpec
    where: str
    found: FoundDevice | None = None
    sheet: Sheet | None = None


def run(args: Namespace, out: TextIO) -> int:
    """Exit 1 if a budget was named and the step does not fit into it."""
    from handtorch.api.budget import Fitting, Sized, as_bytes

    if args.list:
        return show_list(args, out)
    if args.model is None:
        raise no_model("plan")
    target = _device(args.device, args.processor)
    entry_of(args.model, asked=f"plan {args.model}", example=_EXAMPLES[args.infer])
    if args.infer:
        return _run_of_model(args, target, out)
    spec = target.spec
    memory = as_bytes(args.memory) if args.memory else spec.global_bytes
    sys.stderr.write(f"capturing {args.model}, batch {args.batch}\n")
    with Count("timing launches, one of each kind") as said:
        clock = _clock(args, target, said) if args.measure else None
        fitting = Fitting(_captured(args, args.batch), spec, clock, _roofline(target, args))
        rows = _rows(fitting, memory if args.memory else None)
    largest = None
    if not args.no_largest:
        sys.stderr.write("looking for the largest batch\n")
        sized = Sized(lambda n: _captured(args, n), args.batch, _MOST_ROWS)
        largest = sized.largest(memory, spec)
    told = _simulated(args, target, fitting.whole)
    if args.json:
        record = _record(args, spec, fitting, rows, memory, largest)
        json.dump(record | _simulated_record(told), out, indent=2)
        out.write("\n")
    else:
        out.write(_text(args, target.where, spec, fitting, rows, memory, largest))
        out.write(f"\n{told.text()}\n" if told else "")
    return EXIT_NOT_DONE if args.memory and rows[-1].found is None else EXIT_OK


def _run_of_model(args: Namespace, target: Target, out: TextIO) -> int:
    """A run keeps nothing for later, so that there is nothing to trade: a budget only judges."""
    from handtorch.api.budget import as_bytes, device_bytes
    from handtorch.pipeline import compile_graph
    from handtorch.runtime.describe import describe

    sys.stderr.write(f"capturing {args.model}, batch {args.batch}\n")
    graph = captured_run(args.model, args.batch, args.form, asked=f"plan {args.model}",
                         example=_EXAMPLES[True])
    program = compile_graph(graph, target.spec)
    told, plan = _simulated(args, target, program), program.plan
    memory = as_bytes(args.memory) if args.memory else None
    if args.json:
        json.dump({"model": args.model, "form": args.form, "batch": args.batch, "infer": True,
                   "device": target.spec.name, "peak_bytes": plan.peak_bytes,
                   "floor_bytes": plan.floor_bytes, "lasting_bytes": plan.lasting_bytes,
                   "held_bytes": device_bytes(plan), "memory_bytes": memory}
                  | _simulated_record(told), out, indent=2)
        out.write("\n")
    else:
        out.write(f"{args.model}{f' {args.form}' if args.form else ''}, a run on a batch of "
                  f"{args.batch}, on {target.spec.name} ({target.where})\n"
                  f"{describe(program, target.spec)}\n")
        out.write(f"\n{told.text()}\n" if told else "")
    return EXIT_NOT_DONE if memory is not None and device_bytes(plan) > memory else EXIT_OK


def _clock(args: Namespace, target: Target, said: Count) -> Clock | None:
    from handtorch.api.within import clock_of
    from handtorch.runtime.opencl.executor import OpenCLExecutor

    if target.found is None:
        raise BadInput("--measure", why=f"{args.device} is a sheet, and nothing can be timed on "
                                        "it", fix="a device here, or no --measure")
    return clock_of(OpenCLExecutor(target.found), said)


def _device(named: str | None, processor: str = "") -> Target:
    """A sheet is read; anything else is the name of a device that is here."""
    from handtorch.graph.device_spec import DeviceSpec
    from handtorch.place.sheet import shipped

    path = Path(named or "")
    if named and (named in shipped() or path.suffix == ".toml"):
        return _of_sheet(named, processor)
    if processor:
        raise BadInput(f"--processor {processor}", why="only a sheet has several to choose from",
                       fix=f"--device with one of {', '.join(shipped())}, or a .toml file")
    if not named or not path.is_file():
        if named and (path.suffix or "/" in named):
            raise BadInput(f"--device {named}", why="there is no such file",
                           fix="the text of `clinfo` in a file, or the name of a device here")
        found = _here(named)
        return Target(found.spec, "here", found)
    text = path.read_text()
    if path.suffix == ".json":
        try:
            facts = json.loads(text)
        except json.JSONDecodeError as e:
            raise BadInput(f"--device {named}", why=f"not JSON: {e}") from e
        return Target(DeviceSpec.from_dict(facts), f"a sheet, {path.name}")
    return Target(DeviceSpec.from_clinfo(text), f"a sheet, {path.name}")


def _here(named: str | None) -> FoundDevice:
    """A name that is none of a device here may have been meant for a sheet."""
    from handtorch.place.sheet import shipped
    from handtorch.runtime.opencl.discover import choose

    try:
        return choose(named)
    except NoDevice as e:
        if not named:
            raise
        sheets = shipped()
        raise NoDevice(f"no device and no sheet {named!r}", why=e.why, where=e.where,
                       fix=nearest(named, sheets, f"one of {', '.join(sheets)}, or a .toml file; "
                                                  "`handtorch devices`")) from e


def _of_sheet(named: str, processor: str) -> Target:
    from handtorch.place.processor import spec_of
    from handtorch.place.sheet import read_sheet

    sheet = read_sheet(named)
    return Target(spec_of(sheet, sheet.processor(processor)), f"the sheet of {sheet.name}",
                  sheet=sheet)


def _roofline(target: Target, args: Namespace) -> Roofline | None:
    from handtorch.api.on_sheet import roofline_of

    return None if target.sheet is None else roofline_of(target.sheet.processor(args.processor))


def _simulated(args: Namespace, target: Target, program: Program) -> Simulated | None:
    from handtorch.api.on_sheet import simulated

    return None if target.sheet is None else simulated(program, target.sheet, args.processor)


def _simulated_record(told: Simulated | None) -> dict[str, Any]:
    """Nothing where there is no sheet: a program that can run is measured, not foretold."""
    if told is None:
        return {}
    t = told.times
    return {"simulated": {
        "provenance": told.provenance, "device": told.device, "processor": told.processor,
        "kind": told.kind, "time_s": t.total_s, "compute_s": t.compute_s, "memory_s": t.memory_s,
        "launch_s": t.launch_s, "copy_s": t.copy_s, "bound": t.bound, "launches": t.launches,
        "held_bytes": told.held_bytes, "capacity_bytes": told.capacity_bytes, "fits": told.fits,
        "energy_j": told.energy_j, "energy_how": told.energy_how, "doubts": list(told.doubts)}}


def _captured(args: Namespace, batch: int) -> Graph:
    return captured_model(args.model, batch, args.form, asked=f"plan {args.model}",
                          example=_EXAMPLES[False])


def _rows(fitting: Fitting, memory: int | None) -> list[Row]:
    """At parts of what it holds without a budget, at its least, and at what was asked; of the parts
    none that holds as much as another row and is slower."""
    from handtorch.api.budget import device_bytes

    whole = device_bytes(fitting.whole.plan)
    found = [Row(f"{100 * part:.0f} %", fitting.within(int(part * whole))) for part in _PARTS]
    found.append(Row("least", fitting.timed(fitting.least())))
    found = [found[0], *(row for row in found[1:] if not any(_beats(o, row) for o in found))]
    if memory is not None:
        asked = fitting.within(memory)
        # Other ways down at times end lower than the one that is meant to.
        if asked is not None and asked.held_bytes < fitting.least().held_bytes:
            found = [r for r in found if r.asked != "least"] + [Row("least", asked)]
        found.append(Row(f"{memory:,} B", asked))
    return found


def _beats(one: Row, other: Row) -> bool:
    """It holds no more and is quicker, as predicted and shown."""
    return (one.found is not None and other.found is not None
            and one.found.held_bytes <= other.found.held_bytes
            and round(one.found.slow_down, 2) < round(other.found.slow_down, 2))


def _times(rows: list[Row]) -> str:
    """Launches are timed for the first budget that something is traded for."""
    return "measured" if any(r.found and r.found.times == "measured" for r in rows) else "estimated"


def _text(args: Namespace, where: str, spec: DeviceSpec, fitting: Fitting, rows: list[Row],
          memory: int, largest: int | None) -> str:
    from handtorch.runtime.describe import describe

    lines = [f"{args.model}{f' {args.form}' if args.form else ''}, batch {args.batch}, on "
             f"{spec.name} ({where})", describe(fitting.whole, spec), "",
             f"{'budget':>18} {'bytes held':>16} {'slow-down':>9}  made again instead of kept"]
    for row in rows:
        if row.found is None:
            lines.append(f"{row.asked:>18} {'does not fit':>16}")
            continue
        again = ", ".join(f"{n} x {op}" for op, n, _ in row.found.again) or "nothing"
        lines.append(f"{row.asked:>18} {row.found.held_bytes:>16,} {row.found.slow_down:>9.2f}  "
                     f"{again}")
    lines.append("bytes held are arena and staging; slow-downs are " + (
        "foretold from launches timed on the device" if _times(rows) == "measured" else
        "estimated, not measured: on a device here, --measure times launches"))
    if largest is not None:
        told = str(largest or "not even one row")
        if largest == _MOST_ROWS:
            told = f"at least {told}: not looked any further"
        lines.append(f"largest batch within {memory:,} bytes: {told}")
    return "\n".join(lines) + "\n"


def _record(args: Namespace, spec: DeviceSpec, fitting: Fitting, rows: list[Row], memory: int,
            largest: int | None) -> dict[str, Any]:
    plan = fitting.whole.plan
    return {"model": args.model, "form": args.form, "batch": args.batch, "device": spec.name,
            "peak_bytes": plan.peak_bytes, "floor_bytes": plan.floor_bytes,
            "lasting_bytes": plan.lasting_bytes, "times": _times(rows),
            "budgets": [{"asked": r.asked, "held_bytes": r.found and r.found.held_bytes,
                         "slow_down": r.found and r.found.slow_down,
                         "again": {op: n for op, n, _ in r.found.again} if r.found else None}
                        for r in rows],
            "memory_bytes": memory, "largest_batch": largest}
