"""From `ht.load` to the first loss: cold, with programs in the file, with the cache warm.

    python benchmarks/loading.py make FOLDER [MODEL] [--device NAME]
    python benchmarks/loading.py time FOLDER [MODEL] [--device NAME] [--rounds 3]

`make` saves a step of the zoo with and without its programs; `time` loads them, each time in a
process of its own: cold with a cache folder that has nothing but the user's key, the file with
programs likewise, warm with the cache that `make` filled. Rounds alternate; medians, and all."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

ROWS = 16
WAYS = ("cold", "file", "warm")


def make(folder: Path, name: str, device: str) -> dict[str, Any]:
    """Runs with the cache that is warm later."""
    import torch

    import handtorch as ht
    from handtorch.zoo.registry import MODELS
    entry = MODELS[name]
    torch.manual_seed(0)
    model, data = entry.make(""), entry.batch(ROWS, "")
    step = ht.train_step(model, entry.loss, entry.optimizers(model)[0], example=data,
                         device=device)
    took_s = {}
    for programs in (False, True):
        began = time.monotonic()
        step.save(_file(folder, name, device, programs), programs=programs)
        took_s["with programs" if programs else "without"] = time.monotonic() - began
    return {"saving_s": took_s, "bytes": {
        p: _file(folder, name, device, p).stat().st_size for p in (False, True)}}


def _file(folder: Path, name: str, device: str, programs: bool) -> Path:
    return folder / f"{name}.{device}{'.programs' if programs else ''}.ht"


def first_loss(path: Path, device: str) -> dict[str, Any]:
    """One load and one step, of zeros: their time does not depend on the numbers."""
    import numpy as np

    import handtorch as ht
    from handtorch.dtypes import dtype
    from handtorch.runtime.choose import open_executor
    on: Any = open_executor(device)                  # finding devices is no part of it
    began = time.monotonic()
    step = ht.load(path, device)
    loaded_s = time.monotonic() - began
    batch = [np.zeros(p.value.shape, dtype(p.value.dtype).numpy)
             for p in step.program.graph.inputs]
    loss = float(step(*batch))
    return {"load_s": loaded_s, "all_s": time.monotonic() - began, "loss": loss,
            "builds": dict(on.builds)}


def timed(folder: Path, name: str, device: str, rounds: int) -> str:
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            cache = folder / "warm"
            if way != "warm":
                cache = folder / "cold"
                shutil.rmtree(cache, ignore_errors=True)
                cache.mkdir()
                shutil.copy(folder / "warm" / "programs.key", cache)
            found[way].append(_child("one", _file(folder, name, device, way == "file"), device,
                                     cache))
    losses = {run["loss"] for runs in found.values() for run in runs}
    lines = [f"{name}, batch {ROWS}, on {device}: seconds from ht.load to the first loss"]
    for way, runs in found.items():
        each = " ".join(f"{run['all_s']:.2f}" for run in runs)
        lines.append(f"  {way:5} {median(r['all_s'] for r in runs):6.2f} ({each}), of which load "
                     f"{median(r['load_s'] for r in runs):.2f}; programs from {runs[-1]['builds']}")
    same = "equal bit for bit" if len(losses) == 1 else f"NOT equal: {losses}"
    return "\n".join([*lines, f"  losses {same}"])


def _child(what: str, given: Path, device: str, cache: Path, *more: str) -> dict[str, Any]:
    env = {**os.environ, "HANDTORCH_CACHE": str(cache)}
    env.pop("HANDTORCH_KEY", None)
    ran = subprocess.run([sys.executable, __file__, what, str(given), *more, "--device", device],
                         env=env, text=True, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["make", "time", "one", "made"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", nargs="?", default="ResNet50")
    parser.add_argument("--device", default="intel")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.what == "one":
        print(json.dumps(first_loss(args.folder, args.device)))
    elif args.what == "made":
        print(json.dumps(make(args.folder, args.model, args.device)))
    elif args.what == "make":
        args.folder.mkdir(parents=True, exist_ok=True)
        print(_child("made", args.folder, args.device, args.folder / "warm", args.model))
    else:
        print(timed(args.folder, args.model, args.device, args.rounds), flush=True)


if __name__ == "__main__":
    main()
