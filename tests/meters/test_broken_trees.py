"""One tree with something of every family, broken at random: nothing raises, nothing stays open."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from handtorch.meters import battery, hwmon, ina3221, nvml, rapl, tegrastats
from tests.meters import test_battery, test_ina3221, test_rapl
from tests.meters.power_trees import close, plant, values

FAMILIES = (battery.find, hwmon.find, ina3221.find, nvml.find, rapl.find, tegrastats.find)


def whole() -> dict[str, object]:
    chip = "sys/class/hwmon/hwmon0"
    return {
        **test_rapl.zone("0", "package-0"), **test_rapl.zone("0:0", "core"),
        **test_ina3221.hwmon("1-0040", 1, [("VDD_IN", 5000, 5), ("NC", 1, 1), ("VDD_SOC", 5, 5)]),
        **test_ina3221.iio("0-0041", 1, {"VDD_IN": (5, 5), "VDD_SOC": (5, 5)}),
        **test_battery.phone(),
        f"{chip}/name": "x", f"{chip}/temp1_input": 1, f"{chip}/power1_average": 4,
        f"{chip}/curr1_input": 4, f"{chip}/in1_input": 4,
    }  # fmt: skip


def broken(root: Path, rng: random.Random) -> None:
    """Files are missing, are folders, hold strange text or numbers, or point at themselves."""
    tree = whole()
    for name in list(tree):
        match rng.choices(["keep", "folder", "gone", "text", "number"], [65, 10, 10, 10, 5])[0]:
            case "folder":
                tree[name] = None
            case "gone":
                del tree[name]
            case "text":
                tree[name] = "".join(chr(rng.randrange(1, 0x300)) for _ in range(rng.randrange(8)))
            case "number":
                tree[name] = rng.randrange(-10**12, 10**12)
    plant(root, tree)
    for name in tree:
        if rng.random() < 0.03 and (root / name).is_file():
            (root / name).unlink()
            (root / name).symlink_to(Path(name).name)


@pytest.mark.parametrize("seed", range(100))
def test_broken_trees(tmp_path: Path, seed: int) -> None:
    broken(tmp_path, random.Random(seed))
    before = len(os.listdir("/proc/self/fd"))
    for find in FAMILIES:
        found = find(tmp_path)
        names = [signal.quantity for signal in found.signals]
        assert len(set(names)) == len(names) and set(values(found)) == set(names)
        assert found.sensors or found.absent
        assert {signal.parent for signal in found.signals} <= {"", *names}
        close(found)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_whole_tree_gives_something_of_each(tmp_path: Path) -> None:
    plant(tmp_path, whole())
    for find in (battery.find, hwmon.find, ina3221.find, rapl.find):
        found = find(tmp_path)
        assert found.signals
        close(found)
