"""Ten steps of each `.ht` file in a folder on each device named: `aarch64_train.py FOLDER DEVICE..`

Runs on both machines and prints one JSON record. It needs what a phone has: this package, NumPy and
pyopencl. Half way the step is saved and loaded again, so that writing a file is tried as well."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl  # type: ignore[import-untyped, unused-ignore]

import handtorch as ht


def losses(file: Path, device: str) -> tuple[str, list[float]]:
    """The device's name and driver, and the loss of each batch that lies beside the file."""
    with np.load(file.with_suffix(".npz")) as data:
        batches = list(zip(data["x"], data["y"], strict=True))
    half = len(batches) // 2
    step: Any = ht.load(file, device)
    found = [float(step(*batch)) for batch in batches[:half]]
    with tempfile.TemporaryDirectory() as folder:
        step.save(Path(folder) / file.name)
        step = ht.load(Path(folder) / file.name, device)
    found += [float(step(*batch)) for batch in batches[half:]]
    spec = step.program.spec
    return f"{spec.name}, {spec.platform} {spec.driver}" if spec.driver else "NumPy", found


def main(folder: Path, devices: list[str]) -> None:
    runs = []
    for file in sorted(folder.glob("*.ht")):
        for device in devices:
            name, found = losses(file, device)
            runs.append({"file": file.stem, "device": device, "name": name, "losses": found})
            print(f"{file.stem} on {device} ({name}): {found}", file=sys.stderr, flush=True)
    print(json.dumps({
        "machine": platform.machine(), "python": platform.python_version(),
        "numpy": np.__version__, "pyopencl": pyopencl.VERSION_TEXT,
        "torch": importlib.util.find_spec("torch") is not None, "runs": runs,
    }))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
