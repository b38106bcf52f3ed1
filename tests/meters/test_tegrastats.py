from __future__ import annotations

import csv
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.meters import tegrastats
from handtorch.meters.signal import FAST_NS, SLOW_NS
from handtorch.meters.tegrastats import Readings, parse_line, read_log
from tests.meters.power_trees import by_name, close, plant, values, why

ORIN = (
    "07-25-2026 09:08:28 RAM 100/200MB (lfb 9x4MB) SWAP 0/4GB (cached 0MB) CPU [7%@1728,off,x] "
    "EMC_FREQ 3%@3199 GR3D_FREQ 12%@[1300,1301] NVENC off VIC_FREQ 729 APE 174 cpu@52.968C/53C "
    "CV0@-256C VDD_GPU_SOC 5139mW/5140mW/5141mW VDD_CPU_CV 400mW/399mW VIN_SYS_5V0 4032mW/4032mW "
    "NC 0mW/0mW VDDQ_VDD2_1V8AO 301mW/301mW"
)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to start a shell."""
    monkeypatch.setattr(tegrastats, "_QUIET_S", 60.0)


def readings(line: str) -> Readings:
    found = parse_line(line)
    assert isinstance(found, Readings), found
    return found


@pytest.mark.parametrize(
    ("name", "count", "refused", "rails"),
    [
        ("agx_orin_llm", 15, {}, ["vdd_gpu_soc", "vdd_cpu_cv", "vin_sys_5v0"]),
        ("nano_gpu_job", 114, {}, ["pom_5v_in", "pom_5v_gpu", "pom_5v_cpu"]),
        ("tx2_alt_rails", 600, {},
         ["vdd_in", "vdd_cpu", "vdd_gpu", "vdd_soc", "vdd_wifi", "vdd_ddr"]),
        ("tx2_cpu_load", 432,
         {1: "not a line of tegrastats: 'Tue Jan 26 18:22:31 UTC 2021'"},
         ["vdd_sys_gpu", "vdd_sys_soc", "vdd_4v0_wifi", "vdd_in", "vdd_sys_cpu", "vdd_sys_ddr"]),
    ],
)  # fmt: skip
def test_every_line_of_the_recorded_logs(
    shared: Path, name: str, count: int, refused: dict[int, str], rails: list[str]
) -> None:
    path = shared / "data" / "logs" / f"tegrastats_{name}.txt"
    log = read_log(path)
    assert {line.line: line.why for line in log.refused} == refused
    numbers = {number for number, _ in log.readings} | set(refused)
    assert numbers == set(range(1, len(path.read_text().splitlines()) + 1))
    assert len(log.readings) == count
    for _, found in log.readings:
        powers = [n for n in found.values if n.endswith("_power_w") and "_mean_" not in n]
        assert powers == [f"{rail}_power_w" for rail in rails]


def test_the_logs_hold_their_own_means(shared: Path) -> None:
    """tegrastats prints the mean since it began: ours of the same values is within its rounding."""
    log = read_log(shared / "data" / "logs" / "tegrastats_nano_gpu_job.txt")
    total = sum(found.values["pom_5v_in_power_w"] for _, found in log.readings)
    last = log.readings[-1][1].values["pom_5v_in_mean_power_w"]
    assert total / len(log.readings) == pytest.approx(last, abs=0.001)


def test_every_generation_that_was_captured(shared: Path) -> None:
    with (shared / "data" / "logs" / "tegrastats_lines_mixed.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == 12
    found = [readings(row["line"]) for row in rows]
    assert [one.unknown for one in found] == [()] * 12
    assert [sum(n.endswith("_load_ratio") and n[:3] == "cpu" for n in one.values)
            for one in found] == [4, 4, 6, 6, 6, 6, 4, 6, 8, 12, 4, 4]  # fmt: skip
    tx2, nano, xavier, orin, tx1 = found[0], found[3], found[8], found[9], found[10]
    assert tx2.values["gr3d_frequency_hz"] == 0 and "gr3d_load_ratio" not in tx2.values
    assert tx2.missing["cpu1_load_ratio"] == "the core is off"
    assert nano.date == "11-15-2024 08:38:09"
    assert nano.values["vdd_cpu_gpu_cv_power_w"] == 4.667
    assert nano.values["gr3d_0_frequency_hz"] == 621e6
    assert xavier.values["gpu_power_w"] == 0.463 and xavier.values["gpu_temp_c"] == 30.5
    assert orin.missing["gpu_temp_c"] == "the part has no power"
    assert orin.missing["nc_power_w"] == "not connected"
    assert tx1.values["cpu2_load_ratio"] == 0.29 and tx1.values["cpu2_frequency_hz"] == 408e6
    assert tx1.values["emc_frequency_hz"] == 408e6 and tx1.values["gr3d_load_ratio"] == 0.03


def test_all_of_one_line() -> None:
    found = readings(ORIN)
    assert found.date == "07-25-2026 09:08:28"
    assert found.values == {
        "ram_used_bytes": 100 * 2**20, "ram_total_bytes": 200 * 2**20,
        "swap_used_bytes": 0, "swap_total_bytes": 4 * 2**30,
        "cpu0_load_ratio": 0.07, "cpu0_frequency_hz": 1728e6,
        "emc_load_ratio": 0.03, "emc_frequency_hz": 3199e6,
        "gr3d_load_ratio": 0.12, "gr3d_0_frequency_hz": 1300e6, "gr3d_1_frequency_hz": 1301e6,
        "vic_frequency_hz": 729e6, "ape_frequency_hz": 174e6, "cpu_temp_c": 52.968,
        "vdd_gpu_soc_power_w": 5.139, "vdd_gpu_soc_mean_power_w": 5.14,
        "vdd_cpu_cv_power_w": 0.4, "vdd_cpu_cv_mean_power_w": 0.399,
        "vin_sys_5v0_power_w": 4.032, "vin_sys_5v0_mean_power_w": 4.032,
        "vddq_vdd2_1v8ao_power_w": 0.301, "vddq_vdd2_1v8ao_mean_power_w": 0.301,
    }  # fmt: skip
    assert found.missing == {
        "cpu1_load_ratio": "the core is off", "cpu2_load_ratio": "not understood: 'x'",
        "nvenc_load_ratio": "the engine is off", "cv0_temp_c": "the part has no power",
        "nc_power_w": "not connected",
    }  # fmt: skip
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("RAM 1/2MB GR3D_FREQ @[1000,1000,1000]", "gr3d_2_frequency_hz"),                # Thor
        ("RAM 1/2MB IRAM 0/252kB(lfb 252kB) CPU [1%@102] APE 25", "iram_total_bytes"),   # TX1
        ("RAM 1/2MB CPU [3%@345,off] EMC_FREQ 0% GR3D_FREQ 0% PLL@50.5C", "gr3d_load_ratio"),
    ],
)  # fmt: skip
def test_forms_known_from_documents(line: str, named: str) -> None:
    assert named in readings(line).values and readings(line).unknown == ()


def test_new_words_are_reported_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("RAM 1/2MB NEW=7 fan [x] VDD_IN 5/6\n\nhello\nRAM 1/2MB\n")
    log = read_log(tmp_path / "a.log")
    assert [number for number, _ in log.readings] == [1, 4]
    assert log.readings[0][1].values["vdd_in_power_w"] == 0.005
    assert [(line.line, line.why) for line in log.refused] == [
        (1, "not understood: NEW=7 fan [x]"),
        (3, "not a line of tegrastats: 'hello'"),
    ]


@given(st.text() | st.text().map("RAM 1/2MB ".__add__)
       | st.lists(st.sampled_from([*ORIN.split(), "9" * 400, "off", "@", "[", "VDD_IN"])).map(
           " ".join).map("RAM 1/2MB ".__add__))  # fmt: skip
def test_no_text_is_too_strange(line: str) -> None:
    found = parse_line(line)
    if isinstance(found, Readings):
        assert all(abs(value) < 1e19 for value in found.values.values())


def planted(root: Path, body: str) -> Path:
    plant(root, {"usr/bin/tegrastats": f"#!/bin/sh\n{body}"})
    (root / "usr/bin/tegrastats").chmod(0o755)
    return root


LIVE = f"while :; do echo '{ORIN}'; sleep 0.01; done"


def test_a_live_stream(tmp_path: Path) -> None:
    found = tegrastats.find(planted(tmp_path, LIVE))
    names = by_name(found)
    got = values(found)
    assert got["vdd_gpu_soc_power_w"] == 5.139 and got["cpu0_load_ratio"] == 0.07
    assert not any("mean" in name for name in names)
    assert names["vddq_vdd2_1v8ao_power_w"].parent == "vin_sys_5v0_power_w"
    assert names["vdd_gpu_soc_power_w"].part == "gpu+soc"
    assert names["gr3d_load_ratio"].part == "gpu"
    assert names["cpu0_load_ratio"].kind == "window"
    assert names["cpu0_load_ratio"].span_ns == 10_000_000
    assert {s.every_ns for s in names.values()} == {FAST_NS}
    assert names["ram_used_bytes"].where == "/usr/bin/tegrastats"
    assert found.sensors[0].waits and found.absent == ()
    close(found)


def test_words_a_live_line_has_and_we_do_not_know(tmp_path: Path) -> None:
    body = "while :; do echo 'RAM 1/2MB VDD_IN 5/6 NEW=7'; sleep 0.01; done"
    found = tegrastats.find(planted(tmp_path, body))
    assert why(found) == ["/usr/bin/tegrastats: not understood: NEW=7"]
    assert values(found)["vdd_in_power_w"] == 0.005
    close(found)


def test_the_interval_is_handed_on(tmp_path: Path) -> None:
    body = 'test "$1" = --interval && while :; do echo "RAM 1/2MB VDD_IN $2/$2"; sleep 0.01; done'
    found = tegrastats.find(planted(tmp_path, body), interval_ms=500)
    assert values(found)["vdd_in_power_w"] == 0.5
    stream = found.sensors[0]
    assert {s.every_ns for s in stream.signals} == {SLOW_NS}
    assert isinstance(stream, tegrastats.Stream) and stream._process.poll() is None
    close(found)
    assert stream._process.poll() is not None
    assert set(stream.read()) == {"closed"}


def test_a_stream_that_ends_gives_reasons(tmp_path: Path) -> None:
    found = tegrastats.find(planted(tmp_path, "echo 'RAM 1/2MB CPU [1%@5]'; sleep 0.05; exit 7"))
    assert set(values(found).values()) == {"tegrastats ended with code 7"}
    assert (why(found), found.absent[0].fix) == (
        ["/usr/bin/tegrastats prints no rails"], "run as root",
    )  # fmt: skip
    close(found)


def test_what_left_the_line_is_a_reason(tmp_path: Path) -> None:
    line = plant(tmp_path, {"line": "RAM 1/2MB CPU [1%@5]"}) / "line"
    found = tegrastats.find(planted(tmp_path, f"while :; do cat {line}; sleep 0.01; done"))
    (tmp_path / "next").write_text("RAM 1/2MB CPU [off]\n")
    (tmp_path / "next").rename(line)
    values(found)                           # this one may have been on its way
    assert values(found) == {
        "ram_used_bytes": 2**20, "ram_total_bytes": 2**21, "cpu0_load_ratio": "the core is off",
        "cpu0_frequency_hz": "not in this line",
    }  # fmt: skip
    close(found)


def test_lines_that_came_before_a_read_are_too_old(tmp_path: Path) -> None:
    wait = f"while ! test -e {tmp_path}/%s; do sleep 0.01; done"
    found = tegrastats.find(planted(tmp_path, "\n".join([
        "echo RAM 1/9MB", wait % "more", f"echo RAM 2/9MB; touch {tmp_path}/written", wait % "go",
        "while :; do echo RAM 3/9MB; sleep 0.01; done",
    ])))  # fmt: skip
    (tmp_path / "more").touch()
    until = time.monotonic() + 20
    while not (tmp_path / "written").exists():      # now a line waits in the pipe
        assert time.monotonic() < until
        time.sleep(0.01)
    go = threading.Timer(0.1, (tmp_path / "go").touch)
    go.start()
    assert values(found)["ram_used_bytes"] == 3 * 2**20
    go.join()
    close(found)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 2", "tegrastats ended with code 2"),
        ("echo hello; exec sleep 9", "not a line of tegrastats: 'hello'"),
    ],
)
def test_a_program_that_is_not_tegrastats(tmp_path: Path, body: str, said: str) -> None:
    found = tegrastats.find(planted(tmp_path, body))
    assert (found.sensors, why(found)) == ((), [f"/usr/bin/tegrastats: {said}"])


def test_a_silent_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tegrastats, "_QUIET_S", 0.05)
    found = tegrastats.find(planted(tmp_path, "exec sleep 9"))
    assert why(found) == ["/usr/bin/tegrastats: tegrastats printed no line for 0.05 s"]


def test_rails_with_chips_of_their_own_need_no_tegrastats(tmp_path: Path) -> None:
    planted(tmp_path, LIVE)
    plant(tmp_path, {"sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1/curr1_input": 5})
    found = tegrastats.find(tmp_path)
    assert why(found) == ["not started: the rails are read from their chips"]


def test_no_tegrastats_or_one_that_cannot_start(tmp_path: Path) -> None:
    assert why(tegrastats.find(tmp_path)) == [
        "no /usr/bin/tegrastats and no /usr/local/bin/tegrastats"
    ]
    plant(tmp_path, {"usr/bin/tegrastats": "x"})
    assert why(tegrastats.find(tmp_path)) == ["/usr/bin/tegrastats: Permission denied"]
