from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.errors import BadInput, StorageError
from handtorch.place.trace import read_trace, stated_trace


def test_a_file_of_mahimahi(tmp_path: Path) -> None:
    path = tmp_path / "a.up"
    path.write_text("0\n4\n4\n\t12 \n")
    trace = read_trace(path)
    assert trace.at_ms == (0, 4, 4, 12) and trace.packet_bytes == 1500 and trace.span_ms == 12
    assert trace.mean_bps == pytest.approx(4 * 1500 * 8 / 0.012)


@pytest.mark.parametrize("text, why", [
    ("", "it has no length"), ("0\n0\n", "it has no length"),
    ("1\n-2\n", "line 2 is b'-2'"), ("1\n2.5\n", "line 2 is b'2.5'"), ("1\n\n2\n", "line 2 is b''"),
    ("5\n4\n", "line 2 says 4 after 5"), ("9999999999999\n", "line 1 is b'9999999999999'")])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "a.up"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        read_trace(path)
    assert refused.value.why == why and refused.value.what == f"trace {path}"


def test_no_file() -> None:
    with pytest.raises(StorageError, match=r"trace none\.up: No such file"):
        read_trace(Path("none.up"))


def test_a_stated_trace_has_its_rates() -> None:
    trace = stated_trace([6.0, 0.6])
    assert sum(at <= 1000 for at in trace.at_ms) == 500
    assert sum(at > 1000 for at in trace.at_ms) == 50
    assert trace.span_ms == 2000
    gaps = [b - a for a, b in zip(trace.at_ms[:500], trace.at_ms[1:500], strict=False)]
    assert set(gaps) == {2}


def test_a_stated_trace_ends_with_its_last_second() -> None:
    assert stated_trace([1.2, 0.0]).span_ms == 2000
