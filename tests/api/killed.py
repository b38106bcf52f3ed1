"""A program without torch that trains and saves in children, and kills each at a random moment.

`python -m tests.api.killed FOLDER checkpoint|ht KILLS SEED`: FOLDER/base.ht is a step. A child goes
on from the file it finds, trains a step, saves, tells the number of steps, and so on until it is
killed. After each kill the file must be whole, and hold the last steps that were told or one more;
in the end it must hold what so many steps without any kill give, bit for bit. Prints what it saw as
JSON. Children are forks of this process, which has one thread: they start in a millisecond."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import handtorch as ht
from handtorch.api.state import STEPS
from handtorch.store.tensors import read_tensors

_numbers = np.random.default_rng(3)
X = _numbers.normal(size=(7, 8, 64)).astype("f4")
Y = _numbers.integers(0, 10, (7, 8))


class Checkpoint:
    """The step was made before; a child loads its state."""

    def __init__(self, folder: Path) -> None:
        self.path, self._step = folder / "c.safetensors", ht.load(folder / "base.ht", "ref")
        self.save(self._step)

    def save(self, step: Any) -> None:
        step.save_checkpoint(self.path)

    def resumed(self) -> Any:
        self._step.load_checkpoint(self.path)
        return self._step

    def steps(self) -> int:
        return int(read_tensors(self.path, sealed=True)[0][STEPS])


class Ht:
    """A child loads the whole step."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "c.ht"
        self.save(ht.load(folder / "base.ht", "ref"))

    def save(self, step: Any) -> None:
        step.save(self.path)

    def resumed(self) -> Any:
        return ht.load(self.path, "ref")

    def steps(self) -> int:
        return int(self.resumed().steps)


def train(step: Any) -> None:
    at = step.steps % len(X)
    step(X[at], Y[at])


def child(kept: Any, told: int) -> None:
    step = kept.resumed()
    while True:
        train(step)
        kept.save(step)
        os.write(told, struct.pack("<q", step.steps))


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """(process, what it tells); it never returns to the caller's code."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(here)
            work(there)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(there)
    return pid, here


def told(pipe: int) -> list[int]:
    """All that comes until the other end is gone."""
    data = b""
    while part := os.read(pipe, 1 << 16):
        data += part
    os.close(pipe)
    return [n for (n,) in struct.iter_unpack("<q", data)]


def left(path: Path) -> int:
    """How many writers were killed before they had put their file in its place."""
    return sum(1 for other in path.parent.iterdir() if other.name.startswith(f".{path.name}."))


def main(folder: Path, kind: str, kills: int, seed: int) -> dict[str, Any]:
    kept = {"checkpoint": Checkpoint, "ht": Ht}[kind](folder)
    moments, new, start = random.Random(seed), 0, time.monotonic()
    done = 0
    # Enough of them must strike the writing itself, where a file is made beside the old one.
    while done < kills or (left(kept.path) < kills // 10 and done < 5 * kills):
        before = kept.steps()
        pid, pipe = forked(lambda end: child(kept, end))
        (first,) = struct.unpack("<q", os.read(pipe, 8))
        assert first == before + 1, f"resumed at {first - 1}, and the file had {before}"
        time.sleep(moments.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        last = [first, *told(pipe)][-1]
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        found = kept.steps()                     # refuses a file that is not whole
        assert found in (last, last + 1), f"the file has {found}, and {last} was told"
        new, done = new + found - last, done + 1
    step = ht.load(folder / "base.ht", "ref")
    for _ in range(kept.steps()):
        train(step)
    want, got = step.state_dict(), kept.resumed().state_dict()
    assert want.keys() == got.keys()
    assert all(want[n].tobytes() == got[n].tobytes() for n in want), "not the same training"
    return {"kills": done, "steps": step.steps, "while writing": left(kept.path),
            "before being told": new, "torch": "torch" in sys.modules,
            "seconds": round(time.monotonic() - start, 1)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
