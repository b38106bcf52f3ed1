"""`handtorch study NAME`: one paper's experiments on this device; `all` is the main job."""

from __future__ import annotations

import glob
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.cli.progress import Course
from handtorch.cli.run_file import ends_whole, fresh, page_of, show
from handtorch.errors import BadInput
from handtorch.studies import QUICK_S, STUDIES

if TYPE_CHECKING:
    from handtorch.runtime.opencl.discover import FoundDevice
    from handtorch.studies.study import Study

HELP = "Repeat a paper's experiments on this device, beside what was published"
EXAMPLE = "handtorch study sgemm --quick"
COMMON = ("device", "quick")
ALL = "all"
# Options that only some studies take; what they are called where a study names them.
_OPTIONS = {"models": ("A,B", "models to train; all sixteen if not named"),
            "batches": ("1,4", "batch sizes to train with"),
            "memory": ("SIZE", "what a step may hold: 8GiB, 512MiB"),
            "image": ("32|224", "side of the pictures, and with it the form of the models")}
_HOST = "cpu"                               # in --device of a study with sides: torch on the CPU
_ANY = "opencl"                             # the device that is chosen without --device


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME",
                        help=f"{', '.join(STUDIES)}, or {ALL}")
    parser.add_argument("--list", action="store_true", help="list the studies and their questions")
    parser.add_argument("--out", metavar="FILE", type=Path,
                        help="run file to write (else a new one in HANDTORCH_RUNS); a study that "
                        "was interrupted goes on if it is named again")
    for name, (shape, text) in _OPTIONS.items():
        parser.add_argument(f"--{name}", metavar=shape, default="", help=f"study training: {text}")


def run(args: Namespace, out: TextIO) -> int:
    """Run the studies into one run file and make its page; an interrupted run is kept too."""
    from handtorch.runtime.opencl.discover import choose
    from handtorch.studies.study import options_of, study

    if args.list:
        return _list(args, out)
    if args.name is None:
        raise BadInput("no study named", why=f"there is {', '.join((*STUDIES, ALL))}",
                       fix="`handtorch study --list`")
    chosen = [study(name) for name in (STUDIES if args.name == ALL else (args.name,))]
    options = _options(args, [option for module in chosen for option in options_of(module)])
    device = choose(options.pop("device") or None)
    path = args.out or fresh(args.name)
    with ends_whole(path):
        told = _run_into(path, args, device, chosen, options)
    show(args, out, told, args.name == ALL, run_file=path, page=page_of(path))
    return EXIT_OK


def _run_into(path: Path, args: Namespace, device: FoundDevice, chosen: Sequence[Study],
              options: Mapping[str, str]) -> list[str]:
    """The studies' texts; their rows are in the file, however it ends."""
    from handtorch.record import RunWriter
    from handtorch.record.progress import ProgressFile
    from handtorch.studies.kept import held
    from handtorch.studies.study import Setting, options_of, record_setting, resumes

    names = list(STUDIES) if args.name == ALL else [args.name]
    again = len(chosen) == 1 and resumes(chosen[0]) and _kept(path).exists()
    keeps = any(resumes(module) for module in chosen)
    told = []
    with (held(_kept(path)) if keeps else nullcontext(),
          RunWriter.create(path, _command(args, device.label), replace=again) as record,
          ProgressFile(path) as file,
          Course(names, QUICK_S if args.quick else {}, said=file.say) as course):
        def say(text: str) -> None:
            record.flush()              # between two measurements: who follows the run sees them
            course(text)

        if again:
            _sweep(path, record.part)
        record_setting(record, device)
        found: dict[str, Any] = {}
        for name, module in zip(names, chosen, strict=True):
            course.begin(name)
            own = {k: v for k, v in options.items() if k in options_of(module)}
            told.append(module.run(Setting(device, record, args.quick, say, own, _kept(path),
                                           found)))
            record.flush()
    return told


def _options(args: Namespace, known: Sequence[str]) -> dict[str, str]:
    """What was asked besides, and the device; refuses an option that no chosen study takes."""
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name)}
    for name in given:
        if name not in known:
            raise BadInput(f"--{name}", why=f"the study {args.name} does not take it",
                           fix="`handtorch study training` does")
    device = args.device or ""
    if "sides" in known and ("," in device or device in (_HOST, _ANY)):
        words = [word.strip() for word in device.split(",")]
        others = [word for word in words if word != _HOST]
        if len(others) > 1:
            raise BadInput(f"--device {device}", why="a run has one OpenCL device",
                           fix=f"--device {_HOST},{others[0]}")
        named = [word for word in others if word != _ANY]
        device = named[0] if named else ""
        given["sides"] = ",".join(filter(None, ("torch" if _HOST in words else "",
                                                "device" if others else "")))
    return {**given, "device": device}


def _kept(path: Path) -> Path:
    """What a study that goes on has measured so far lies beside its run file."""
    return path.with_suffix(".kept")


def _sweep(path: Path, ours: Path) -> None:
    """What runs into this file that were killed have left beside it; we hold its folder."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        if left != ours:
            left.unlink(missing_ok=True)


def _command(args: Namespace, label: str) -> str:
    words = ["handtorch study", args.name, "--quick" if args.quick else "", f"--device {label}"]
    return " ".join(filter(None, words))


def _list(args: Namespace, out: TextIO) -> int:
    from handtorch.studies.study import study

    questions = {name: study(name).QUESTION for name in STUDIES}
    if args.json:
        out.write(json.dumps({"studies": questions}) + "\n")
    else:
        wide = max(map(len, questions))
        out.writelines(f"{name:<{wide}}  {text}\n" for name, text in questions.items())
    return EXIT_OK
