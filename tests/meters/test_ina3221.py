from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.meters import ina3221
from handtorch.meters.file import KeptFile
from handtorch.meters.signal import FAST_NS, MEDIUM_NS, Signal
from tests.meters.power_trees import answers, by_name, close, deny, plant, plant_tsv, values, why

OLD = "sys/bus/i2c/drivers/ina3221x"
NEW = "sys/bus/i2c/drivers/ina3221"


def iio(chip: str, device: int, rails: dict[str, tuple[int, int]]) -> dict[str, object]:
    """A chip of JetPack 4: each rail with its mW and mV."""
    folder, files = f"{OLD}/{chip}/iio:device{device}", {}
    for n, (name, (mw, mv)) in enumerate(rails.items()):
        files[f"{folder}/rail_name_{n}"] = name
        files[f"{folder}/in_power{n}_input"] = mw
        files[f"{folder}/in_voltage{n}_input"] = mv
        files[f"{folder}/in_current{n}_input"] = round(mw * 1000 / mv)
    return dict(files)


def hwmon(
    chip: str, number: int, rails: list[tuple[str, int, int]], shunt_uohm: int = 5000,
    samples: int = 1, interval: object = 7,
) -> dict[str, object]:  # fmt: skip
    """A chip of JetPack 5: each rail with its mV and mA, and the files that are no rails."""
    folder = f"{NEW}/{chip}/hwmon/hwmon{number}"
    files: dict[str, object] = {
        f"{folder}/name": "ina3221", f"{folder}/samples": samples,
        f"{folder}/update_interval": interval, f"{folder}/curr4_input": 99999,
        f"{folder}/in7_label": "sum of shunt voltages", f"{folder}/in7_input": 99999,
    }  # fmt: skip
    for n, (name, mv, ma) in enumerate(rails, 1):
        files[f"{folder}/in{n}_label"] = name
        files[f"{folder}/in{n}_enable"] = 1
        files[f"{folder}/in{n}_input"] = mv
        files[f"{folder}/curr{n}_input"] = ma
        files[f"{folder}/in{n + 3}_input"] = ma * shunt_uohm // 1000
        files[f"{folder}/shunt{n}_resistor"] = shunt_uohm
    return files


def test_tx2_of_jetpack_4_as_documented(tmp_path: Path) -> None:
    """The chips of energymon's table; the values are of a line that tegrastats printed."""
    plant(tmp_path, iio("0-0040", 0, {
        "VDD_SYS_GPU": (77, 19152), "VDD_SYS_SOC": (539, 19152), "VDD_4V0_WIFI": (38, 4880),
    }) | iio("0-0041", 1, {
        "VDD_IN": (2930, 19152), "VDD_SYS_CPU": (539, 19152), "VDD_SYS_DDR": (727, 4784),
    }) | iio("0-0042", 2, {
        "VDD_MUX": (4000, 19152), "VDD_5V0_IO_SYS": (1000, 5000), "VDD_3V3_SYS": (100, 3300),
    }))  # fmt: skip
    found = ina3221.find(tmp_path)
    names = by_name(found)
    assert {name: (s.part, s.parent) for name, s in names.items()} == {
        "vdd_in_power_w": ("machine", ""),
        "vdd_sys_gpu_power_w": ("gpu", "vdd_in_power_w"),
        "vdd_sys_soc_power_w": ("soc", "vdd_in_power_w"),
        "vdd_4v0_wifi_power_w": ("wifi", "vdd_in_power_w"),
        "vdd_sys_cpu_power_w": ("cpu", "vdd_in_power_w"),
        "vdd_sys_ddr_power_w": ("memory", "vdd_in_power_w"),
        "vdd_mux_power_w": ("carrier", ""),
        "vdd_5v0_io_sys_power_w": ("carrier", "vdd_mux_power_w"),
        "vdd_3v3_sys_power_w": ("carrier", "vdd_mux_power_w"),
    }
    assert {s.basis for s in names.values()} == {"documented"}
    assert values(found)["vdd_sys_ddr_power_w"] == 0.727
    assert len(found.sensors) == 3 and all(sensor.waits for sensor in found.sensors)
    gpu = names["vdd_sys_gpu_power_w"]
    assert gpu.step == pytest.approx(0.0766, rel=1e-3)      # the 77 mW of the line is one step
    assert (gpu.kind, gpu.every_ns) == ("instant", FAST_NS)
    assert gpu.where == f"/{OLD}/0-0040/iio:device0/in_power0_input"
    assert found.absent == ()
    close(found)


def test_tx1_calls_the_folder_otherwise(tmp_path: Path) -> None:
    rails = {"VDD_IN": (2532, 19152), "VDD_GPU": (19, 19152), "VDD_CPU": (76, 19152)}
    files = iio("1-0040", 0, rails)
    plant(tmp_path, {k.replace("iio:device0", "iio_device"): v for k, v in files.items()})
    found = ina3221.find(tmp_path)
    assert values(found) == {
        "vdd_in_power_w": 2.532, "vdd_gpu_power_w": 0.019, "vdd_cpu_power_w": 0.076,
    }  # fmt: skip
    assert by_name(found)["vdd_gpu_power_w"].parent == "vdd_in_power_w"
    close(found)


def test_agx_orin_of_jetpack_5(tmp_path: Path) -> None:
    plant(tmp_path, hwmon("1-0040", 1, [
        ("VDD_GPU_SOC", 19992, 120), ("VDD_CPU_CV", 20000, 20), ("VIN_SYS_5V0", 5032, 800),
    ], 2000) | hwmon("1-0041", 2, [
        ("NC", 0, 0), ("VDDQ_VDD2_1V8AO", 1800, 167), ("NC", 0, 0),
    ], 2000))  # fmt: skip
    found = ina3221.find(tmp_path)
    assert values(found) == pytest.approx({
        "vdd_gpu_soc_power_w": 2.39904, "vdd_cpu_cv_power_w": 0.4, "vin_sys_5v0_power_w": 4.0256,
        "vddq_vdd2_1v8ao_power_w": 0.3006,
    })  # fmt: skip
    names = by_name(found)
    assert names["vddq_vdd2_1v8ao_power_w"].parent == "vin_sys_5v0_power_w"
    assert names["vdd_cpu_cv_power_w"].step == pytest.approx(0.4)   # 40 uV / 2 mOhm x 20 V
    assert names["vdd_gpu_soc_power_w"].part == "gpu+soc"
    assert why(found) == [
        "1-0041 channel 1: not connected",
        "1-0041 channel 3: not connected",
        "1-0040: one reading of its 3 rails waits up to 21 ms for the chip; "
        "the rails are not read at one moment",
    ]
    assert found.absent[2].fix == (
        "as root: echo 1 > samples; echo 0 > update_interval, in hwmon1 of the chip"
    )
    close(found)


def test_the_shunt_that_the_driver_names_goes_before_the_table(tmp_path: Path) -> None:
    plant(tmp_path, hwmon("1-0040", 1, [("VDD_CPU_CV", 20000, 20)], 4000, interval=0))
    signal = by_name(found := ina3221.find(tmp_path))["vdd_cpu_cv_power_w"]
    assert signal.step == pytest.approx(0.2)
    close(found)


def test_a_parent_that_is_not_there_is_none(tmp_path: Path) -> None:
    plant(tmp_path, hwmon("1-0041", 2, [("VDDQ_VDD2_1V8AO", 1800, 167)], interval=0))
    signal = by_name(found := ina3221.find(tmp_path))["vddq_vdd2_1v8ao_power_w"]
    assert (signal.part, signal.parent) == ("memory", "")
    close(found)


def test_a_parent_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    rails = [("VDD_IN", 5000, 900), ("VDD_CPU_GPU_CV", 5000, 100)]
    plant(tmp_path, hwmon("7-0040", 6, rails, interval=0) | {
        f"{NEW}/7-0040/hwmon/hwmon6/in1_input": "?"
    })  # fmt: skip
    names = by_name(found := ina3221.find(tmp_path))
    assert [(name, s.parent) for name, s in names.items()] == [("vdd_cpu_gpu_cv_power_w", "")]
    close(found)


def test_one_rail_for_cpu_and_gpu(tmp_path: Path) -> None:
    rails = [("VDD_IN", 5000, 900), ("VDD_CPU_GPU_CV", 5000, 100), ("VDD_SOC", 5000, 200)]
    plant(tmp_path, hwmon("7-0040", 6, rails, interval=0))
    names = by_name(found := ina3221.find(tmp_path))
    assert names["vdd_cpu_gpu_cv_power_w"].part == "cpu+gpu"
    assert names["vdd_cpu_gpu_cv_power_w"].parent == "vdd_in_power_w"
    assert found.absent == ()
    close(found)


@pytest.mark.parametrize(
    ("samples", "interval", "kind", "every_ns"),
    [(1, 7, "instant", FAST_NS), (4, 26, "lowpass", MEDIUM_NS), (1024, 6758, "lowpass", 10**9)],
)
def test_averaging_makes_a_lowpass(
    tmp_path: Path, samples: int, interval: int, kind: str, every_ns: int
) -> None:
    rails = [("VDD_IN", 5000, 900), ("VDD_CPU_GPU_CV", 5000, 100), ("VDD_SOC", 5000, 200)]
    plant(tmp_path, hwmon("7-0040", 6, rails, samples=samples, interval=interval))
    signal = by_name(found := ina3221.find(tmp_path))["vdd_in_power_w"]
    assert (signal.kind, signal.span_ns, signal.every_ns) == (kind, interval * 10**6, every_ns)
    close(found)


def test_currents_are_read_each_time_and_voltages_once_a_second(tmp_path: Path) -> None:
    plant(tmp_path, {"current": 1000, "voltage": 5000})
    signal = Signal("ina3221", "vdd_in_power_w", "instant", "machine", FAST_NS)
    files = KeptFile(tmp_path / "current"), KeptFile(tmp_path / "voltage")
    now = iter([0, 10**7, 10**9 - 1, 10**9])
    rails = ina3221.Rails([(signal, *files)], clock=lambda: next(now))
    assert rails.read() == (5.0,)
    plant(tmp_path, {"current": 2000, "voltage": 4000})
    assert rails.read() == (10.0,)
    assert rails.read() == (10.0,)
    assert rails.read() == (8.0,)
    rails.close()
    assert rails.signals == (signal,)


def test_a_rail_that_goes_away_is_a_reason(tmp_path: Path) -> None:
    plant(tmp_path, hwmon("7-0040", 6, [("VDD_IN", 5000, 900)], interval=0))
    found = ina3221.find(tmp_path)
    plant(tmp_path, {f"{NEW}/7-0040/hwmon/hwmon6/curr1_input": "error"})
    assert values(found) == {"vdd_in_power_w": "current: says 'error', not a whole number"}
    plant(tmp_path, {f"{NEW}/7-0040/hwmon/hwmon6/curr1_input": 1})
    close(found)
    fresh = ina3221.find(tmp_path)
    plant(tmp_path, {f"{NEW}/7-0040/hwmon/hwmon6/in1_input": ""})
    assert values(fresh) == {"vdd_in_power_w": "voltage: is empty"}
    close(fresh)


def test_a_rail_that_failed_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its voltage too, although that is less than a second old."""
    found = ina3221.find(plant(tmp_path, hwmon("7-0040", 6, [("VDD_IN", 5000, 900)], interval=0)))
    with monkeypatch.context() as gone:
        gone.setattr(os, "pread", answers(errno.ENXIO))
        assert values(found) == {"vdd_in_power_w": "current: No such device or address"}
    (tmp_path / NEW).rename(tmp_path / "old")
    plant(tmp_path, hwmon("7-0040", 6, [("VDD_IN", 3000, 1000)]))
    assert values(found) == {"vdd_in_power_w": 3.0}
    close(found)


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rails = [("VDD_IN", 5000, 900), ("VDD_CPU_GPU_CV", 5000, 100), ("VDD_SOC", 5000, 200)]
    folder = f"{NEW}/7-0040/hwmon/hwmon6"
    plant(tmp_path, hwmon("7-0040", 6, rails, interval="?") | {
        f"{folder}/in1_input": "?", f"{folder}/in3_enable": 0,
    })  # fmt: skip
    deny(monkeypatch, "curr2_input")
    found = ina3221.find(tmp_path)
    assert found.sensors == ()
    assert why(found) == [
        "7-0040 VDD_SOC: switched off",
        "7-0040 update_interval: says '?', not a whole number",
        f"/{folder}/in1_input: says '?', not a whole number",
        f"/{folder}/curr2_input: Permission denied",
    ]


def test_a_voltage_that_cannot_be_opened(tmp_path: Path) -> None:
    folder = f"{NEW}/7-0040/hwmon/hwmon6"
    plant(tmp_path, {f"{folder}/curr1_input": 5, f"{folder}/update_interval": 0})
    found = ina3221.find(tmp_path)
    assert found.sensors == ()
    assert why(found)[1] == f"/{folder}/in1_input: No such file or directory"


def test_an_unknown_board_has_no_tree(tmp_path: Path) -> None:
    plant(tmp_path, hwmon("7-0040", 6, [("VIN", 5000, 900), ("VDD_X", 5000, 1)], interval=0))
    names = by_name(found := ina3221.find(tmp_path))
    assert {s.parent for s in names.values()} == {""}
    assert names["vdd_x_power_w"].part == "vdd_x"
    assert why(found) == [
        "VIN, VDD_X: no board we know has these rails; none is taken for a part of another"
    ]
    close(found)


def test_one_name_on_two_chips_is_two_rails(tmp_path: Path) -> None:
    plant(tmp_path, hwmon("1-0040", 1, [("VDD", 5000, 1)]) | hwmon("1-0041", 2, [("VDD", 5000, 2)]))
    names = by_name(found := ina3221.find(tmp_path))
    assert sorted(names) == ["vdd_1_0040_1_power_w", "vdd_1_0041_1_power_w"]
    close(found)


def test_the_captured_listing_has_no_channel(tmp_path: Path, shared: Path) -> None:
    paths = plant_tsv(tmp_path, shared / "data" / "logs" / "ina3221_agx_orin_excerpt.txt")
    assert len(paths) == 8
    found = ina3221.find(tmp_path)
    assert found.sensors == ()
    assert why(found) == [f"/{NEW}/1-0041/hwmon/hwmon2: no channel can be read"]


def test_no_chip_at_all(tmp_path: Path) -> None:
    assert why(ina3221.find(tmp_path)) == ["no /sys/bus/i2c/drivers"]
    (tmp_path / "sys/bus/i2c/drivers").mkdir(parents=True)
    found = ina3221.find(tmp_path)
    assert why(found) == ["/sys/bus/i2c/drivers has no chip of ina3221 or ina3221x"]


@given(st.floats(0, 1e6) | st.text(), st.floats(0, 1e6) | st.text())
def test_power_is_voltage_times_current_or_a_reason(ma: float | str, mv: float | str) -> None:
    watts = ina3221._watts(ma, mv)
    assert isinstance(watts, str) == (isinstance(ma, str) or isinstance(mv, str))
