from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handtorch.doctor.file import MOST_BYTES, read, text, write
from handtorch.errors import BadFile, StorageError
from tests.doctor.a_record import figure, record


def test_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "d.json"
    write(record(), path)
    assert read(path) == record()
    assert path.read_text().startswith('{\n "format": "handtorch doctor",\n "version": 1,')
    write(record(machine={}), path)             # an older one of ours is replaced
    assert read(path)["machine"] == {} and list(path.parent.iterdir()) == [path]


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "thesis.json"
    path.write_text("{}")
    with pytest.raises(StorageError, match="not the doctor's"):
        write(record(), path)
    assert path.read_text() == "{}"


Change = Callable[[dict[str, Any]], Any]
HOSTILE: dict[str, tuple[Change, str]] = {
    "no devices": (lambda r: r.pop("devices"), "devices is missing"),
    "devices a text": (lambda r: r.update(devices="x"), "devices is 'x'"),
    "a device a number": (lambda r: r.update(devices=[3]), "devices[0] is no object"),
    "a name a list": (lambda r: r["devices"][0].update(name=[]), "devices[0].name is '[]'"),
    "no median": (lambda r: r["devices"][0].update(benchmark={"x": {}}),
                  "devices[0].benchmark.median is missing"),
    "a negative time": (lambda r: r["devices"][0].update(benchmark={"x": figure(-1.0)}),
                        "devices[0].benchmark: 'x' is no measurement"),
    "a number without end": (lambda r: r["devices"][0].update(benchmark={"x": figure(10**400)}),
                             "devices[0].benchmark: 'x' is no measurement"),
    "a word for a time": (lambda r: r["devices"][0].update(
        benchmark={"x": {**figure(1.0), "spread": "a"}}), "devices[0].benchmark.spread is 'a'"),
    "cases true": (lambda r: r["devices"][0]["self_test"].update(cases=True),
                   "devices[0].self_test.cases is 'True'"),
    "many devices": (lambda r: r.update(devices=[3] * 2001), "2,001 entries"),
    "a long text": (lambda r: r["machine"].update(os="x" * 5000), "5,000 characters"),
    "a sensor without a name": (lambda r: r.update(sensors=[{"meter": "a"}]),
                                "sensors[0].quantity is missing"),
    "version 0": (lambda r: r.update(version=0), "its version is '0'"),
    "version true": (lambda r: r.update(version=True), "its version is 'True'"),
    "another format": (lambda r: r.update(format="tuned"), "no file of the doctor's"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_records_are_refused_with_the_place(tmp_path: Path, name: str) -> None:
    change, said = HOSTILE[name]
    made = json.loads(json.dumps(record()))
    change(made)
    path = tmp_path / "d.json"
    path.write_text(json.dumps(made))
    with pytest.raises(BadFile) as refused:
        read(path)
    assert said in refused.value.why
    assert refused.value.fix == "a file that `handtorch doctor` wrote"


@pytest.mark.parametrize("data", [
    b"", b"{", b"\xff\xfe\x00", b"[" * 200_000, b"null", b"[]", b"NaN", b"1" * 5000,
    b'{"format": "handtorch doctor", "version": Infinity}', b"\x80"])
def test_what_is_no_json_of_ours_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(data)
    with pytest.raises(BadFile):
        read(path)


def test_too_large_newer_and_missing(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(BadFile, match="larger than 1,048,576 bytes"):
        read(path)
    path.write_text(text(record(version=2)))
    with pytest.raises(BadFile, match="its version is 2, this HandTorch reads up to 1"):
        read(path)
    with pytest.raises(StorageError, match="No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(StorageError, match="Is a directory"):
        read(tmp_path)
