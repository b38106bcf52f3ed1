"""A whole .ht file: what is in it, who else can read it, and what is refused in which words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.api.load import load
from handtorch.errors import BadFile, StorageError
from handtorch.store import limits
from handtorch.store.ht_file import VERSION, HtFile, Micro, read_ht, write_ht
from handtorch.store.sample import SAMPLE, model_file
from handtorch.store.tensors import read_tensors, write_tensors

ROOT = Path(__file__).resolve().parents[2]
FIX = "another copy of the file, or one written anew"


@pytest.fixture
def sample() -> HtFile:
    return read_ht(model_file(SAMPLE))


def test_what_is_written_is_read(sample: HtFile, tmp_path: Path) -> None:
    write_ht(tmp_path / "a.ht", sample)
    again = read_ht(tmp_path / "a.ht")
    assert (again.train, again.infer, again.homes, again.steps) == (
        sample.train, sample.infer, sample.homes, sample.steps)
    assert again.states.keys() == sample.states.keys()
    for name, array in sample.states.items():
        np.testing.assert_array_equal(again.states[name], array)
    write_ht(tmp_path / "b.ht", again)
    assert (tmp_path / "a.ht").read_bytes() == (tmp_path / "b.ht").read_bytes()


def test_the_weights_are_where_any_safetensors_reader_finds_them() -> None:
    """Read here by hand, from the format's own words."""
    data = model_file(SAMPLE).read_bytes()
    length = int.from_bytes(data[:8], "little")
    told = json.loads(data[8:8 + length])["0.weight"]
    start, end = told["data_offsets"]
    weight = np.frombuffer(data[8 + length + start:8 + length + end], "<f4")
    assert (told["dtype"], told["shape"], weight.size) == ("F32", [64, 64], 64 * 64)
    np.testing.assert_array_equal(weight.reshape(64, 64),
                                  read_ht(model_file(SAMPLE)).states["0.weight"])


def changed(path: Path, *, notes: dict[str, str] | None = None,
            arrays: dict[str, Any] | None = None,
            told: Callable[[Any], None] = lambda _: None) -> Path:
    """The sample with other notes, arrays (None: left out) or description, sealed anew."""
    held, said = read_tensors(model_file(SAMPLE))
    description = json.loads(said["description"])
    told(description)
    said |= {"description": json.dumps(description), **(notes or {})}
    held |= arrays or {}
    write_tensors(path, {n: a for n, a in held.items() if a is not None}, said)
    return path


def test_a_newer_version_is_refused_naming_both(tmp_path: Path) -> None:
    path = changed(tmp_path / "a.ht", notes={"format_version": "7", "made_by": "handtorch 9.9"})
    with pytest.raises(BadFile) as caught:
        read_ht(path)
    assert caught.value.message() == (
        f"{path} is written in version 7 of the format: this HandTorch reads versions up to "
        f"{VERSION}; the file is by 'handtorch 9.9'\n  try: a newer HandTorch")


def test_another_format_is_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.ht", {"x": np.zeros(3, "f4")}, {"format": "pt"})
    with pytest.raises(BadFile) as caught:
        read_ht(tmp_path / "a.ht")
    assert caught.value.message() == (
        f"{tmp_path / 'a.ht'} is no .ht file: its notes do not name the format\n"
        "  try: a file that step.save or Inference.save wrote")


def test_a_missing_file_is_no_riddle(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        read_ht(tmp_path / "a.ht")
    assert caught.value.message() == (
        f"{tmp_path / 'a.ht'} cannot be read: No such file or directory\n"
        "  try: check the path, and that you may read it")


def both_gone(told: Any) -> None:
    del told["train"], told["infer"]


@pytest.mark.parametrize(("how", "why"), [
    ({"arrays": {"0.weight": None}}, "it has no tensor '0.weight'"),
    ({"arrays": {"0.weight": np.zeros((64, 63), "f4")}},
     "its tensor '0.weight' is float32[64, 63], and its graph has float32[64, 64]"),
    ({"arrays": {"0.weight": np.zeros((64, 64), "f8")}},
     "its tensor '0.weight' is float64[64, 64], and its graph has float32[64, 64]"),
    ({"arrays": {"stray": np.zeros(1, "f4")}}, "it holds 'stray', which no graph knows"),
    ({"told": both_gone}, "it holds no graph"),
    ({"told": lambda t: t.update(steps=-1)},
     "the number of steps is -1, and must be a whole number, 0 to 9007199254740992"),
    ({"told": lambda t: t.update(code="x")},
     "the description has 'code', which this version does not know"),
    ({"told": lambda t: t["train"]["outputs"].update(names=["a"])},
     "the outputs of train are not those of its graph"),
    ({"told": lambda t: t["infer"]["outputs"].update(kind="pickle")},
     "how infer gives its outputs is 'pickle', which this version does not know"),
    ({"notes": {"description": ""}}, "its description is not JSON that can be used: "
     "Expecting value: line 1 column 1 (char 0)"),
    ({"notes": {"code": "x"}}, "the head has 'code', which this version does not know"),
    ({"notes": {"format_version": "one"}}, "its format version is 'one'"),
])  # fmt: skip
def test_what_is_wrong_is_said(tmp_path: Path, how: dict[str, Any], why: str) -> None:
    path = changed(tmp_path / "a.ht", **how)
    with pytest.raises(BadFile) as caught:
        read_ht(path)
    assert (caught.value.what, caught.value.why) == (f"{path} cannot be used", why)
    assert caught.value.fix in (FIX, "")


def test_states_of_one_name_are_alike_in_both_graphs(tmp_path: Path) -> None:
    def other(told: Any) -> None:
        graph = told["infer"]["graph"]
        graph["states"][0][0], graph["states"][1][0] = (graph["states"][1][0],
                                                        graph["states"][0][0])
    said = r"'0.bias' is %1 f32\[64\] in one graph and %0 f32\[64,64\] in another"
    with pytest.raises(BadFile, match=said):
        read_ht(changed(tmp_path / "a.ht", told=other))


def test_micro_batches_make_it_version_2(sample: HtFile, tmp_path: Path) -> None:
    assert sample.train is not None
    held = replace(sample, micro=Micro(4, sample.train.graph))
    for name, one, version in (("a", sample, "1"), ("b", held, "2")):
        write_ht(tmp_path / f"{name}.ht", one)
        assert read_tensors(tmp_path / f"{name}.ht")[1]["format_version"] == version
    again = read_ht(tmp_path / "b.ht")
    assert (again.train, again.micro) == (held.train, held.micro)


@pytest.mark.parametrize(("version", "micro", "why"), [
    ("1", {"parts": 4}, "the description has 'micro', which this version does not know"),
    ("2", None, "the description has no 'micro'"),
    ("2", {"parts": 1}, "the number of micro-batches is 1, and must be a whole number, 2 to "
                        "2147483647"),
    ("2", {"parts": 4, "more": 0}, "micro has 'more', which this version does not know")])
def test_micro_batches_that_cannot_be(tmp_path: Path, version: str, micro: Any, why: str) -> None:
    def told(description: Any) -> None:
        if micro is not None:
            description["micro"] = {"graph": description["train"]["graph"], **micro}
    with pytest.raises(BadFile) as caught:
        read_ht(changed(tmp_path / "a.ht", notes={"format_version": version}, told=told))
    assert caught.value.why == why


def test_micro_batches_of_an_inference_are_refused(tmp_path: Path) -> None:
    def told(description: Any) -> None:
        description["micro"] = {"parts": 2, "graph": description["infer"]["graph"]}
        del description["train"]
    with pytest.raises(BadFile, match="it has micro-batches of no training graph"):
        read_ht(changed(tmp_path / "a.ht", notes={"format_version": "2"}, told=told))


def test_the_example_of_the_documentation_is_true(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "format.md").read_text()
    found = re.search(r'\n    (\{"homes".*?\}\}\})\n', text, re.DOTALL)
    assert found is not None
    description = re.sub(r"\n     ", "", found[1])
    path = tmp_path / "a.ht"
    write_tensors(path, {}, {"format": "handtorch", "format_version": "1",
                             "made_by": "handtorch 0.1.0", "description": description})
    data, held = path.read_bytes(), read_ht(path)
    assert "the file has 512 bytes" in text
    assert len(data) == 512
    for at in (0, 16):
        assert f"    {at:08x}  {data[at:at + 8].hex(' ')}  {data[at + 8:at + 16].hex(' ')}" in text
    write_ht(tmp_path / "b.ht", held)
    assert read_tensors(tmp_path / "b.ht")[1]["description"] == description
    model = load(path, "ref")
    np.testing.assert_array_equal(model(np.array([-1.0, 2.0], "f4")), [0.0, 2.0])


def test_the_limits_of_the_documentation_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "format.md").read_text()
    for row in (f"| nodes of a graph; values | {limits.MOST_NODES:,}; {limits.MOST_VALUES:,} |",
                f"inputs of a node | {limits.MOST_PORTS:,} each |",
                f"| axes of a value; elements | {limits.MOST_AXES}; 2^31 - 1 |",
                f"| numbers in an attribute | {limits.MOST_NUMBERS} |",
                f"or other word | {limits.LONGEST_WORD} letters |",
                f"file) | {limits.LONGEST_NAME:,} letters |",
                f"text | {limits.LONGEST_LINE:,} letters |"):
        assert row in text
    assert limits.MOST_PORTS == limits.MOST_INPUTS
    assert limits.MOST_ELEMENTS == 2**31 - 1
