from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.meters import rapl
from tests.meters.power_trees import RAPL, by_name, close, deny, plant, plant_tsv, values, why

UNIT_UJ = 61.035                    # 2^-14 J, as the kernel rounds it
RANGE_UJ = 262143328850             # 2^32 - 1 of these
FIX = "run as root, or: sudo chmod a+r /sys/class/powercap/*/energy_uj (until the next boot)"


def zone(id: str, name: str, energy_uj: object = 1000000) -> dict[str, object]:
    return {
        f"{RAPL}{id}/name": name,
        f"{RAPL}{id}/energy_uj": energy_uj,
        f"{RAPL}{id}/max_energy_range_uj": RANGE_UJ,
    }


@pytest.mark.parametrize(
    ("listing", "packages"),
    [("node_exporter", ["package_0"]), ("procfs", ["package_0", "package_10"])],
)
def test_captured_trees(tmp_path: Path, shared: Path, listing: str, packages: list[str]) -> None:
    plant_tsv(tmp_path, shared / "data" / "logs" / f"sysfs_powercap_rapl_{listing}.tsv")
    found = rapl.find(tmp_path)
    names = by_name(found)
    assert set(names) == {"package_0_core_energy_j", *(f"{name}_energy_j" for name in packages)}
    assert values(found)["package_0_energy_j"] == pytest.approx(240422.366267, abs=1e-9)
    assert values(found)["package_0_core_energy_j"] == pytest.approx(118821.284256, abs=1e-9)
    assert names["package_0_core_energy_j"].parent == "package_0_energy_j"
    package = names["package_0_energy_j"]
    assert (package.kind, package.part, package.parent) == ("counter", "cpu", "")
    assert package.step == pytest.approx(UNIT_UJ * 1e-6, rel=1e-9)
    assert package.wraps_at == pytest.approx(2**32 * UNIT_UJ * 1e-6, rel=1e-9)
    assert package.basis == "captured" and package.span_ns == 1_000_000
    assert package.where == "/sys/class/powercap/intel-rapl:0/energy_uj"
    assert found.absent == ()
    close(found)


def test_platform_packages_graphics_and_memory(tmp_path: Path) -> None:
    tree = zone("0", "package-0") | zone("0:0", "core") | zone("0:1", "uncore")
    plant(tmp_path, tree | zone("0:2", "dram") | zone("1", "psys"))
    names = by_name(found := rapl.find(tmp_path))
    assert {name: (s.part, s.parent, s.basis) for name, s in names.items()} == {
        "psys_energy_j": ("machine", "", "documented"),
        "package_0_energy_j": ("cpu+gpu", "psys_energy_j", "captured"),
        "package_0_core_energy_j": ("cpu", "package_0_energy_j", "captured"),
        "package_0_uncore_energy_j": ("gpu", "package_0_energy_j", "documented"),
        "package_0_dram_energy_j": ("memory", "psys_energy_j", "documented"),
    }
    close(found)


def test_a_domain_that_stands_still_is_no_ones_parent(tmp_path: Path) -> None:
    plant(tmp_path, zone("0", "package-0") | zone("1", "psys", 0))
    found = rapl.find(tmp_path)
    assert by_name(found)["package_0_energy_j"].parent == ""
    assert why(found) == [
        "/sys/class/powercap/intel-rapl:1/energy_uj: the counter of psys stands at 0"
    ]
    close(found)


def test_a_package_that_cannot_be_read_is_no_ones_parent(tmp_path: Path) -> None:
    plant(tmp_path, zone("0", "package-0", None) | zone("0:0", "core"))
    found = rapl.find(tmp_path)
    assert by_name(found)["package_0_core_energy_j"].parent == ""
    assert why(found) == ["/sys/class/powercap/intel-rapl:0/energy_uj: Is a directory"]
    close(found)


def test_zones_of_one_name_are_told_apart(tmp_path: Path) -> None:
    plant(tmp_path, zone("0", "psys") | zone("1", "psys") | zone("2", "package-0"))
    names = by_name(found := rapl.find(tmp_path))
    assert sorted(names) == ["package_0_energy_j", "psys_0_energy_j", "psys_1_energy_j"]
    assert names["package_0_energy_j"].parent == ""     # which of the two holds it is unknown
    close(found)


def test_zones_inside_each_other_are_found_once(tmp_path: Path) -> None:
    nested = "sys/class/powercap/intel-rapl/intel-rapl:0"
    plant(tmp_path, {
        f"{nested}/name": "package-0", f"{nested}/energy_uj": 5,
        f"{nested}/max_energy_range_uj": RANGE_UJ,
        f"{nested}/intel-rapl:0:0/name": "core", f"{nested}/intel-rapl:0:0/energy_uj": 3,
        f"{nested}/intel-rapl:0:0/max_energy_range_uj": RANGE_UJ,
    })  # fmt: skip
    (tmp_path / "sys/class/powercap/intel-rapl:0").symlink_to("intel-rapl/intel-rapl:0")
    found = rapl.find(tmp_path)
    assert values(found) == {"package_0_energy_j": 5e-6, "package_0_core_energy_j": 3e-6}
    close(found)


def test_the_second_way_to_the_same_counters_is_left_out(tmp_path: Path) -> None:
    mmio = "sys/class/powercap/intel-rapl-mmio:0"
    plant(tmp_path, zone("0", "package-0") | {
        f"{mmio}/name": "package-0", f"{mmio}/energy_uj": 7, f"{mmio}/max_energy_range_uj": RANGE_UJ
    })  # fmt: skip
    found = rapl.find(tmp_path)
    assert values(found) == {"package_0_energy_j": 1.0}
    assert why(found) == ["intel-rapl-mmio (package-0): the same counters once more"]
    close(found)


def test_without_root_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, zone("0", "package-0"))
    deny(monkeypatch, "/energy_uj")
    found = rapl.find(tmp_path)
    assert found.sensors == ()
    assert why(found) == ["/sys/class/powercap/intel-rapl:0/energy_uj: Permission denied"]
    assert found.absent[0].fix == FIX


@pytest.mark.parametrize(
    ("range_uj", "said"),
    [(None, "Is a directory"), ("?", "says '?', not a whole number"), (0, "it is 0")],
)
def test_an_unknown_range_is_said(tmp_path: Path, range_uj: object, said: str) -> None:
    plant(tmp_path, zone("0", "package-0") | {f"{RAPL}0/max_energy_range_uj": range_uj})
    found = rapl.find(tmp_path)
    assert by_name(found)["package_0_energy_j"].wraps_at is None
    assert why(found) == [
        f"/sys/class/powercap/intel-rapl:0: its range is unknown ({said}): "
        "what it counts across a wrap is lost"
    ]
    close(found)


def test_no_zone_at_all(tmp_path: Path) -> None:
    found = rapl.find(tmp_path)
    assert (found.sensors, why(found)) == ((), ["no /sys/class/powercap"])
    (tmp_path / "sys/class/powercap/intel-rapl").mkdir(parents=True)
    assert why(rapl.find(tmp_path)) == ["/sys/class/powercap has no intel-rapl zone"]


def test_a_zone_that_goes_away_gives_a_reason_and_never_a_zero(tmp_path: Path) -> None:
    plant(tmp_path, zone("0", "package-0"))
    found = rapl.find(tmp_path)
    plant(tmp_path, {f"{RAPL}0/energy_uj": ""})
    assert values(found) == {"package_0_energy_j": "is empty"}
    close(found)


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**31))
def test_a_wrap_at_any_point_is_undone_by_what_the_signal_says(start: int, more: int) -> None:
    """The counter itself has 32 bits; the kernel shows whole uJ."""
    zone = rapl._Zone(Path(), "0", "package-0")
    signal = rapl._signal(zone, [zone], [zone], RANGE_UJ / 1e6)
    assert signal.wraps_at is not None
    old, new = (int(count % 2**32 * UNIT_UJ) * 1e-6 for count in (start, start + more))
    drawn = (new - old) % signal.wraps_at
    assert drawn == pytest.approx(more * UNIT_UJ * 1e-6, abs=3e-6)      # two roundings of 1 uJ
