"""ONNX Runtime's CPU provider on the model as torch.onnx exports it.

The export is another process's, so that no torch is in this one; the first run makes the session,
which plans and optimizes the graph."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from handtorch.bench.case import Asked
from handtorch.bench.side import CannotRun, Subject
from handtorch.store.tensors import Array

EXPORT = "handtorch.bench.sides.onnx_export"
EXPORT_S = 600


def make(asked: Asked) -> Subject:
    path = asked.folder / "model.onnx"
    if not path.exists():
        _export(asked, path)
    return Runtime(path, asked.threads, asked.batches())


def _export(asked: Asked, path: Path) -> None:
    try:
        done = subprocess.run([sys.executable, "-m", EXPORT, json.dumps(asked.to_json()),
                               str(path)], capture_output=True, text=True, timeout=EXPORT_S,
                              check=False)
    except subprocess.TimeoutExpired as e:
        raise CannotRun("torch.onnx does not export it", why=f"not within {EXPORT_S} s") from e
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise CannotRun("torch.onnx does not export it", why=said[-1].strip()[:200])


class Runtime:
    def __init__(self, path: Path, threads: int, batches: Sequence[tuple[Array, ...]]) -> None:
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self._path, self._threads, self._batches = path, threads, batches
        self._session: Any = None
        self._names: list[str] = []

    def once(self, number: int) -> Sequence[Array]:
        if self._session is None:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            self._session = onnxruntime.InferenceSession(
                str(self._path), options, providers=["CPUExecutionProvider"])
            self._names = [port.name for port in self._session.get_inputs()]
        batch = self._batches[number % len(self._batches)]
        found: list[Array] = self._session.run(None, dict(zip(self._names, batch, strict=True)))
        return found

    def run(self, count: int) -> None:
        for i in range(count):
            self.once(i)
