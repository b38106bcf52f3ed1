"""A run that is killed again and again goes on where it stood, and ends with every row."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handtorch import knobs
from handtorch.record import read_run
from handtorch.runtime.opencl.discover import find_devices
from handtorch.studies.kept import SAME_CODE

KILLS, BATCHES = 10, (1, 2, 3, 4)
# In the quick form torch runs the smallest batch alone.
CELLS = {("CharCNN (narrow)", 1, "host"), *(("CharCNN (narrow)", b, "device") for b in BATCHES)}


def started(out: Path, device: str) -> subprocess.Popen[bytes]:
    """A tiny run: narrow nets, a fraction of a second of steps. Its group is its own."""
    command = [sys.executable, "-m", "handtorch", "study", "training", "--quick", "--models",
               "CharCNN", "--batches", ",".join(map(str, BATCHES)), "--device",
               f"cpu,{device}", "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            env={**knobs.environment_for_child(), "HANDTORCH_SHARED": ""},
                            start_new_session=True)


def rows(out: Path) -> set[tuple[str, float | None, str]]:
    run = read_run(out)
    assert run.info.status == "complete"
    return {(r.subject, r.x_value, "host" if r.place == "host CPU" else "device")
            for r in run.results if r.name == "throughput" and r.value is not None}


def left_behind(out: Path) -> list[str]:
    """Processes that still know the folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if str(out.with_suffix("")) in line and int(folder.name) != os.getpid():
            found.append(line)
    return found


@pytest.mark.slow
def test_killed_ten_times_at_random_it_ends_with_all_rows(tmp_path: Path) -> None:
    if not find_devices():
        pytest.skip("no OpenCL device on this machine")
    device = find_devices()[0].label            # one will do: what is kept does not depend on it
    out, chance = tmp_path / "run.htr", random.Random(9)
    kills = 0
    while kills < KILLS:
        child = started(out, device)
        try:
            # Short enough that ten kills come before the end, long enough for a cell now and then.
            child.wait(chance.uniform(0.2, 4.0))
            break
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.communicate()
            kills += 1
    assert kills == KILLS, "it was finished before it had been killed ten times"
    # A child ends with its parent, or, where that was gone before it could ask, when it has loaded.
    give_up = time.monotonic() + 60
    while left := left_behind(out):
        assert time.monotonic() < give_up, left
        time.sleep(0.1)
    before = {p.name: p.read_bytes() for p in out.with_suffix(".kept").glob("*.json")}
    for text in before.values():
        json.loads(text)                        # whole, whatever the moment
    last = started(out, device)
    _, said = last.communicate(timeout=300)
    assert last.returncode == 0, said.decode()
    assert rows(out) == CELLS
    after = {p.name: p.read_bytes() for p in out.with_suffix(".kept").glob("*.json")}
    assert before.items() <= after.items()      # what was kept was not measured again
    assert not list(tmp_path.glob("*.part"))
    measures_again_what_other_code_has_kept(out, device, after)


def measures_again_what_other_code_has_kept(out: Path, device: str, rows: dict[str, bytes]) -> None:
    """A cell of other code is measured again, and the run says so; the rest is as it was."""
    other = next(name for name in rows if name.endswith("-device.json"))
    told = json.loads(rows[other])
    told["code"]["torch"] = "1.0"
    path = out.with_suffix(".kept") / other
    path.write_text(json.dumps(told))
    again = started(out, device)
    _, said = again.communicate(timeout=300)
    assert again.returncode == 0, said.decode()
    assert b"rows that other code has kept are left out; another --out keeps them" in said
    after = {p.name: p.read_bytes() for p in path.parent.glob("*.json")}
    assert {name for name in rows if after[name] != rows[name]} == {other}
    (verdict,) = [v for v in read_run(out).verdicts if v.question == SAME_CODE]
    assert verdict.answer.startswith("Yes: 1 kept row of other code (torch 1.0 then, ")
    assert verdict.answer.endswith(f" now) left out: {path.stem}.")
