"""`handtorch why`: a run file in, an answer and a trace out; no device, no torch."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from handtorch.cli.main import EXIT_ERROR, EXIT_OK, main
from handtorch.record import Run, RunWriter
from handtorch.record.rows import CHILDREN
from tests.profile.test_why import naive_gemm


def saved(run: Run, path: Path) -> str:
    with RunWriter.create(path, "planted") as writer:
        assert run.machine is not None
        writer.add(run.machine)
        for table in CHILDREN:
            if table != "machine":
                writer.add(*getattr(run, table))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return saved(naive_gemm(), tmp_path / "a.htr")


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(["why", *argv], out, err), out.getvalue(), err.getvalue()


def test_it_names_the_cause_and_foretells(file: str) -> None:
    code, out, _ = call(file)
    assert code == EXIT_OK
    assert "1. saves 9.667 ms (94 %): slow kernel" in out
    assert "foretold takes 10 steps to say, and here are 4." in out


def test_json_is_one_record(file: str) -> None:
    code, out, _ = call(file, "--json")
    told = json.loads(out)
    assert code == EXIT_OK and [c["cause"] for c in told["top"]] == ["slow kernel"]
    assert told["predictability"]["needed"] == 1 and told["trace"] is None


@pytest.mark.parametrize("name, begins", [("t.pftrace", b"\n\x04h\x01"), ("t.json", b'{"other'),
                                          ("t.json.gz", b"\x1f\x8b")])
def test_a_trace_is_written_beside_it(file: str, tmp_path: Path, name: str, begins: bytes) -> None:
    code, out, _ = call(file, "--trace", str(tmp_path / name))
    assert code == EXIT_OK and out.endswith(f"trace  {tmp_path / name}\n")
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_what_is_not_in_the_run_is_refused(file: str) -> None:
    code, _, err = call(file, "--place", "moon")
    assert code == EXIT_ERROR
    assert "why is on moon slow: this run has no such step with timed launches" in err
