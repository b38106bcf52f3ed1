"""The kernel's files and folders."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from handtorch.meters import file
from tests.meters.power_trees import answers
from tests.meters.trees import plant


def test_names_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    plant(tmp_path, {f"cpu{core}/x": "" for core in (10, 2, 0)} | {"cpufreq/x": ""})
    assert file.listed(tmp_path, "cpu[0-9]+") == ["cpu0", "cpu2", "cpu10"]
    assert file.within(tmp_path / "no such folder") == []


def test_a_list_of_several_pages_is_read_to_its_end() -> None:
    """The kernel hands out some 4 KiB of such a list at a time."""
    assert len(Path("/proc/self/smaps").read_text()) > 65536
    assert 60_000 < len(file.content(Path("/proc/self/smaps"))) <= 65536


def test_a_file_that_failed_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was taken away and came back is another file under the same name."""
    kept = file.KeptFile(plant(tmp_path, {"a": "7"}) / "a")
    assert kept.text() == "7"
    (tmp_path / "a").unlink()
    plant(tmp_path, {"a": "8"})
    assert kept.text() == "7"
    with monkeypatch.context() as gone:
        gone.setattr(os, "pread", answers(errno.ENODEV))
        with pytest.raises(OSError, match="No such device"):
            kept.text()
    assert kept.text() == "8"
    kept.close()
