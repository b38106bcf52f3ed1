"""Launch times on disk: kept, merged, and not believed where anything is wrong with the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Value
from handtorch.kernels.pointwise import pointwise_step
from handtorch.runtime.opencl.cache import CacheWarning
from handtorch.runtime.opencl.kept_times import KeptTimes, key_of

A, B = "a" * 32, "b" * 32


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path))


def test_what_is_saved_is_there_next_time() -> None:
    kept = KeptTimes(GENERIC)
    assert kept.get(A) is None
    kept.put(A, 12.5)
    assert kept.get(A) == 12.5 and KeptTimes(GENERIC).get(A) is None
    kept.save()
    assert KeptTimes(GENERIC).get(A) == 12.5


def test_two_writers_keep_both() -> None:
    one, other = KeptTimes(GENERIC), KeptTimes(GENERIC)
    one.put(A, 1.0)
    other.put(B, 2.0)
    one.save()
    other.save()
    assert [KeptTimes(GENERIC).get(k) for k in (A, B)] == [1.0, 2.0]


def test_each_driver_and_each_part_of_a_device_has_its_own() -> None:
    kept = KeptTimes(GENERIC)
    kept.put(A, 1.0)
    kept.save()
    for other in (replace(GENERIC, driver="next"),
                  replace(GENERIC, compute_units=GENERIC.compute_units + 1)):
        assert KeptTimes(other).get(A) is None


@pytest.mark.parametrize("spoil", [
    lambda told: b"", lambda told: json.dumps(told).encode()[:-9], lambda told: b"[]",
    lambda told: json.dumps({**told, "format": "handtorch launch times 2"}).encode(),
    lambda told: json.dumps({**told, "device": "another"}).encode(),
    lambda told: json.dumps({**told, "more": 1}).encode(),
    lambda told: json.dumps({**told, "times_ns": {A: -1.0}}).encode(),
    lambda told: json.dumps({**told, "times_ns": {A: float("nan")}}).encode(),
    lambda told: json.dumps({**told, "times_ns": {A: "1"}}).encode(),
    lambda told: json.dumps({**told, "times_ns": {"short": 1.0}}).encode(),
    lambda told: json.dumps({**told, "times_ns": []}).encode(),
    lambda told: b"[" * 200_000])
def test_a_file_that_is_not_whole_is_as_if_not_there(spoil: object) -> None:
    kept = KeptTimes(GENERIC)
    kept.put(A, 1.0)
    kept.save()
    assert callable(spoil)
    kept.path.write_bytes(spoil(json.loads(kept.path.read_bytes())))
    again = KeptTimes(GENERIC)
    assert again.get(A) is None
    again.put(B, 2.0)
    again.save()
    assert KeptTimes(GENERIC).get(B) == 2.0


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "times").write_text("a file in its place")
    kept = KeptTimes(GENERIC)
    kept.put(A, 1.0)
    with pytest.warns(CacheWarning, match="launch times are not kept"):
        kept.save()
    assert kept.get(A) == 1.0


def test_the_key_is_that_of_text_and_sizes() -> None:
    def key(body: str, size: int) -> str:
        return key_of(pointwise_step(body, [Value(0, (size,))], Value(1, (size,))))
    assert key("relu(x0)", 64) == key("relu(x0)", 64)
    assert len({key("relu(x0)", 64), key("exp(x0)", 64), key("relu(x0)", 65)}) == 3
