"""`make aarch64`: what a phone's CPU computes must be what this computer computes.

The `.ht` files are made here with torch, then trained ten steps on `ref` and on an OpenCL device of
this machine, and on `ref` and PoCL of an arm64 Debian with its own NumPy and pyopencl, without
torch. Emulated: the times mean nothing."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.environment import ROOT, SetupError, child_environment, ensure
from dev.userland import Userland, entered, explained, refuse_where_it_cannot_work, run_whole

TOLERANCE = 1e-4
HERE = "/opt/handtorch"                 # in the userland
DEFAULT_DEVICE = """
import sys
from handtorch.errors import HandTorchError
from handtorch.runtime.opencl import discover
try:
    print(discover.choose().label)
except HandTorchError as error:
    sys.exit(str(error))
"""


@dataclass(frozen=True)
class Losses:
    """What one machine computed with one file on one device."""

    file: str
    place: str                          # such as "x86_64 ref"
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """One step of one file in every place; `apart` is the largest difference between two."""

    file: str
    step: int
    losses: tuple[float, ...]

    @property
    def apart(self) -> float:
        whole = all(map(math.isfinite, self.losses))
        return max(self.losses) - min(self.losses) if whole else math.inf

    @property
    def agrees(self) -> bool:
        return self.apart <= TOLERANCE


def aarch64(more: list[str]) -> int:
    """an emulated arm64 Debian trains as this machine does; needs root"""
    asked = ArgumentParser(prog="make aarch64", description=__doc__)
    asked.add_argument("--device", help="the OpenCL device here (else the default)")
    asked.add_argument("--self-test", action="store_true",
                       help="also test every kernel in the userland: half an hour, once")
    args = asked.parse_args(more)
    refuse_where_it_cannot_work()
    python = ensure()
    folder = _cache_folder(python) / "aarch64"
    device = args.device or _printed(python, "-c", DEFAULT_DEVICE)
    with entered(folder, print) as userland:
        work = _emptied(folder / "work")
        print(f"logs are in {work}")
        _here(python, work, "making the .ht files", "aarch64_make.py", str(work))
        x86 = _here(python, work, "training here", "aarch64_train.py", str(work), "ref", device)
        arm = _there(userland, work, self_test=args.self_test)
    records = [json.loads(path.read_text()) for path in (x86, arm)]
    rows = rows_of([run for record in records for run in runs_of(record)])
    text = table(records, rows)
    (work / "table.txt").write_text(text)
    print(text, end="")
    return 0 if rows and all(row.agrees for row in rows) else 1


def _emptied(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _cache_folder(python: Path) -> Path:
    return Path(_printed(python, "-c", "from handtorch import knobs; print(knobs.cache_folder())"))


def _printed(python: Path, *arguments: str) -> str:
    done = subprocess.run([str(python), *arguments], check=False, text=True, capture_output=True,
                          env=child_environment())
    if done.returncode != 0:
        raise SetupError(done.stderr.strip())
    return done.stdout.strip()


def _here(python: Path, work: Path, what: str, script: str, *arguments: str) -> Path:
    """What `script` prints, as a file."""
    print(f"{what} ...")
    out, log = work / f"{what.split()[0]}-here.json", work / f"{what.split()[0]}-here.log"
    command = [str(python), str(ROOT / "dev" / script), *arguments]
    if run_whole(command, out, log, child_environment()) != 0:
        raise SetupError(explained(what, log, "mend that and repeat"))
    return out


def _there(userland: Userland, work: Path, *, self_test: bool) -> Path:
    """The same in the userland, with this tree's package and the very same files."""
    inside = _emptied(userland.root / HERE.lstrip("/"))
    shutil.copytree(ROOT / "src" / "handtorch", inside / "handtorch",
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(work, inside / "work", ignore=shutil.ignore_patterns("*.log", "*.json"))
    shutil.copy(ROOT / "dev" / "aarch64_train.py", inside)
    train = [f"{HERE}/aarch64_train.py", f"{HERE}/work", "ref", "pocl"]
    jobs = {"training": train}
    if self_test:
        jobs = {"self-test": ["-m", "handtorch", "devices", "--json"], **jobs}
    for what, arguments in jobs.items():
        print(f"{what} in the userland ...")
        out, log = work / f"{what}-there.json", work / f"{what}-there.log"
        code = userland.run(["/usr/bin/python3", *arguments], out, log, PYTHONPATH=HERE,
                            HANDTORCH_CACHE="/var/cache/handtorch")
        if code != 0:
            raise SetupError(explained(f"{what} in the userland (exit code {code})", log,
                                       f"also read {out}"))
    return out


def runs_of(record: dict[str, Any]) -> list[Losses]:
    return [Losses(run["file"], f"{record['machine']} {run['device']}", tuple(run["losses"]))
            for run in record["runs"]]


def rows_of(runs: Sequence[Losses]) -> list[Row]:
    """Every file step by step, the places in the order in which they were run."""
    rows: list[Row] = []
    places = list(dict.fromkeys(run.place for run in runs))
    for file in dict.fromkeys(run.file for run in runs):
        of_file = [run for run in runs if run.file == file]
        assert [run.place for run in of_file] == places, f"{file} was not trained everywhere"
        columns = zip(*(run.losses for run in of_file), strict=True)
        rows += [Row(file, number, losses) for number, losses in enumerate(columns, 1)]
    return rows


def table(records: Iterable[dict[str, Any]], rows: Sequence[Row]) -> str:
    """Who computed, every loss in every place, and whether all agree."""
    lines, places = [], dict[str, None]()
    for told in records:
        torch = "with torch" if told["torch"] else "no torch"
        lines.append(f"{told['machine']}: Python {told['python']}, NumPy {told['numpy']}, "
                     f"pyopencl {told['pyopencl']}, {torch}")
        names = {f"{told['machine']} {run['device']}": run["name"] for run in told["runs"]}
        lines += [f"  {place}: {name}" for place, name in names.items()]
        places |= dict.fromkeys(names)
    lines += ["", f"{'file':12} step " + " ".join(f"{p:>14}" for p in places) + "     apart"]
    for row in rows:
        losses = " ".join(f"{loss:14.7f}" for loss in row.losses)
        said = "" if row.agrees else f"  more than {TOLERANCE:g}"
        lines.append(f"{row.file:12} {row.step:4} {losses}  {row.apart:8.1e}{said}")
    right = sum(row.agrees for row in rows)
    worst = max((row.apart for row in rows), default=math.inf)
    lines.append(f"{right} of {len(rows)} steps agree to {TOLERANCE:g}; at most {worst:.1e} apart")
    return "\n".join(lines) + "\n"
