from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.errors import BadInput, HandTorchError
from handtorch.place.sheet import SHIPPED, read_sheet, shipped

WHOLE = """
name = "board"
[idle]
watts = 2
source = "a supply"
[[cores]]
kind = "big"
count = 2
busy_watts = 1.5
source = "a supply"
[[cores]]
kind = "little"
count = 4
busy_watts = 0.25
source = "a supply"
[gpu]
busy_watts = 3.5
source = "a supply"
[memory]
joules_per_byte = 4e-11
source = "a paper"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "board.toml"
    path.write_text(text)
    return path


def test_a_whole_sheet(tmp_path: Path) -> None:
    sheet = read_sheet(written(tmp_path, WHOLE))
    assert sheet.name == "board"
    assert (sheet.idle_w.value, sheet.gpu_w.value, sheet.memory_j.value) == (2.0, 3.5, 4e-11)
    assert sheet.memory_j.source == "a paper"
    assert [(k.name, k.count) for k in sheet.cores] == [("big", 2), ("little", 4)]


@pytest.mark.parametrize("busy, watts", [(0, 0), (1, 1.5), (2, 3.0), (3, 3.25), (6, 4.0),
                                         (8, 4.0)])
def test_the_strongest_cores_are_busy_first(tmp_path: Path, busy: float, watts: float) -> None:
    assert read_sheet(written(tmp_path, WHOLE)).cores_w(busy) == watts


def test_what_is_left_out_is_unknown_with_a_reason(tmp_path: Path) -> None:
    sheet = read_sheet(written(tmp_path, 'name = "bare"'))
    assert sheet.idle_w.value is None and sheet.idle_w.source == "the sheet has no [idle]"
    assert sheet.cores_w(1) is None


@pytest.mark.parametrize("name", shipped())
def test_those_that_ship_can_be_read(name: str) -> None:
    sheet = read_sheet(name)
    assert sheet.idle_w.source and sheet.capacity_bytes.value and sheet.processors
    for processor in sheet.processors:
        assert all(f.source for f in processor.figures().values())
        assert processor.flops_per_s.value and processor.limits_source
    assert read_sheet(SHIPPED / f"{name}.toml") == sheet


@pytest.mark.parametrize("change, why", [
    (("watts = 2", "watts = -2"), "idle.watts is -2, not a number of at least 0"),
    (("watts = 2", "watts = inf"), "idle.watts is inf, not a number of at least 0"),
    (("watts = 2", "watts = true"), "idle.watts is True, not a number of at least 0"),
    (("watts = 2", "mw = 2"),
     "idle has 'mw'; known are proxy, source, unconfirmed, watts"),
    (('source = "a paper"', ""), "memory does not say its source"),
    (('name = "board"', ""), "the sheet does not say its name"),
    (("count = 2", "count = 0"), "cores.count is 0, not a number of cores"),
    (("count = 2", "count = 2.0"), "cores.count is 2.0, not a number of cores"),
    (('[gpu]\nbusy_watts = 3.5\nsource = "a supply"', ""), None),
    (("[memory]", "[memory"), "not TOML: "),
])
def test_what_is_wrong_is_said(tmp_path: Path, change: tuple[str, str], why: str | None) -> None:
    path = written(tmp_path, WHOLE.replace(*change))
    if why is None:
        assert read_sheet(path).gpu_w.source == "the sheet has no [gpu]"
        return
    with pytest.raises(BadInput) as refused:
        read_sheet(path)
    assert refused.value.why.startswith(why)
    assert str(path) in refused.value.what and "docs/sheets.md" in refused.value.fix


RATED = WHOLE + """
[capacity]
bytes = 1024
source = "a page"
unconfirmed = true
[processor.cpu]
name = "cores"
flops_per_s = { value = 2e9, source = "a loop" }
bytes_per_s = { value = 1e9, source = "a loop", proxy = "another board" }
launch_s = { unknown = "nobody timed it" }
[processor.cpu.limits]
compute_units = 4
source = "clinfo"
[radio.wifi]
active_watts = 0.3
source = "a profile"
"""


def test_what_a_device_does(tmp_path: Path) -> None:
    sheet = read_sheet(written(tmp_path, RATED))
    assert sheet.capacity_bytes.value == 1024 and sheet.capacity_bytes.doubt == "unconfirmed"
    assert sheet.radios_w["wifi"].value == 0.3
    cpu = sheet.processor()
    assert cpu is sheet.processor("cpu") and dict(cpu.limits) == {"compute_units": 4}
    assert cpu.flops_per_s.value == 2e9 and not cpu.flops_per_s.doubt
    assert cpu.bytes_per_s.doubt == "of another board"
    assert (cpu.launch_s.value, cpu.launch_s.source) == (None, "nobody timed it")
    assert cpu.copy_s.source == "the sheet has no [processor.cpu.copy_s]"
    with pytest.raises(BadInput, match="no gpu"):
        sheet.processor("gpu")


@pytest.mark.parametrize("change, why", [
    (("processor.cpu", "processor.npu"), "processor has 'npu'; known are cpu, gpu"),
    (("radio.wifi", "radio.smoke"), "radio has 'smoke'; known are 3g, lte, wifi"),
    (("compute_units = 4", 'compute_units = "4"'),
     "processor.cpu.limits.compute_units is '4', not of type int"),
    (('source = "clinfo"', ""), "processor.cpu.limits does not say its source"),
    (('value = 2e9, source = "a loop"', "value = 2e9"),
     "processor.cpu.flops_per_s does not say its source"),
    (("unconfirmed = true", "unconfirmed = 1"), "capacity.unconfirmed is 1, neither true nor"),
    (('unknown = "nobody timed it"', 'unknown = ""'),
     "processor.cpu.launch_s does not say its unknown"),
])
def test_what_is_wrong_with_a_processor_is_said(tmp_path: Path, change: tuple[str, str],
                                                why: str) -> None:
    assert change[0] in RATED
    with pytest.raises(BadInput) as refused:
        read_sheet(written(tmp_path, RATED.replace(*change)))
    assert refused.value.why.startswith(why)


@pytest.mark.parametrize("named, what", [
    ("nokia-3310", "no sheet 'nokia-3310'"),
    ("none/such.toml", "sheet none/such.toml"),
])
def test_one_that_is_not_there(named: str, what: str) -> None:
    with pytest.raises(HandTorchError) as refused:
        read_sheet(named)
    assert refused.value.what == what and refused.value.fix


def test_a_file_that_is_no_text_or_too_long(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="not TOML"):
        read_sheet(path)
    path.write_bytes(b"#" * (1 << 20 | 1))
    with pytest.raises(BadInput, match="more than 1,048,576 bytes"):
        read_sheet(path)
