"""The held-out benchmark: what it prints and when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import held_out
from handtorch.place.published.held_out import judged_papers, median_error


def test_without_tables_it_says_so(monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", "")
    assert held_out.main([]) == 0
    out = capsys.readouterr().out
    assert out.endswith("tables: HANDTORCH_SHARED names no folder with them\n")
    assert all(j.row.what in out for j in judged_papers())


def test_json_has_every_row(shared: Path, monkeypatch: pytest.MonkeyPatch,
                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", str(shared))
    assert held_out.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) > 3000
    assert told["median_absolute_error"] <= held_out.LIMIT


def test_over_the_limit_is_exit_1(monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", "")
    monkeypatch.setattr(held_out, "LIMIT", median_error(judged_papers()) / 2)
    assert held_out.main(["--brief"]) == 1
    assert "median absolute error" in capsys.readouterr().out
