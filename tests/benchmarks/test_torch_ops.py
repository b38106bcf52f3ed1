"""The comparison with torch.profiler runs, and its verdicts are strict."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks import torch_ops
from benchmarks.torch_ops import Agreement


@pytest.mark.parametrize("ours_ms, own, verdict", [
    (1.09, 1.0, "agrees"), (1.12, 1.0, "DIFFERS"), (0.88, 1.0, "DIFFERS"), (0.91, 0.96, "agrees"),
    (1.5, 1.06, "not judged")])
def test_verdicts(ours_ms: float, own: float, verdict: str) -> None:
    assert Agreement("m", "aten::mm", 1, ours_ms, 1.0, own).verdict == verdict


def test_every_large_operation_has_a_row(capsys: pytest.CaptureFixture[str],
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_ops, "LEAST_MS", 0.0)
    threads = torch.get_num_threads()
    try:
        code = torch_ops.main(["--models", "Model4", "--rounds", "2", "--json"])
    finally:
        torch.set_num_threads(threads)
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    (model,) = record["models"]
    rows = {r["op"]: r for r in model["rows"]}
    assert rows["aten::linear"]["calls"] == 3 and rows["aten::mm"]["calls"] == 5
    assert all(r["ours_ms"] > 0 and r["profiler_ms"] > 0 for r in rows.values())
    assert code == (1 if record["verdicts"].get("DIFFERS") else 0)
