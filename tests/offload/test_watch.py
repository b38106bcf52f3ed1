"""Loads as they are read: others' share of cores and of a GPU, without our own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handtorch.errors import DeviceError
from handtorch.meters.search import find_all
from handtorch.offload.place import Load
from handtorch.offload.watch import Watch


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    """On a made-up machine, read only when the test says so."""
    (tmp_path / "proc").mkdir()
    with Watch(tmp_path, every_s=1000.0) as made:
        yield made


def tell(root: Path, *busy_ticks: int) -> None:
    lines = [f"cpu{k} {ticks} 0 0 1000 0 0 0 0 0 0\n" for k, ticks in enumerate(busy_ticks)]
    (root / "proc/stat").write_text("cpu 0 0 0 0 0\n" + "".join(lines))


def test_others_use_what_we_do_not(watch: Watch, tmp_path: Path) -> None:
    own = [0.0]
    load = watch.cores((1,), lambda: own[0])
    assert load() == Load(None, "nothing was read yet")
    tell(tmp_path, 0, 0)
    watch.read(10.0)
    own[0] = 0.05
    tell(tmp_path, 999, 15)                     # 0.15 s in 0.2 s, of which 0.05 s are ours
    watch.read(10.2)
    assert load().share == pytest.approx(0.5)
    tell(tmp_path, 999)
    watch.read(10.3)
    assert load() == Load(None, "core 1 is offline")


def test_why_a_load_is_unknown(watch: Watch, tmp_path: Path) -> None:
    def gone() -> float:
        raise DeviceError("the process of x", why="it has ended")
    load, dead = watch.cores((0,)), watch.cores((0,), gone)
    watch.read(1.0)
    assert str(load()).startswith("load unknown: stat: ")
    tell(tmp_path, 1)
    watch.read(2.0)
    assert dead() == Load(None, "the process of x: it has ended")
    assert watch.gpu(())() == Load(None, "no sensor of this machine tells gpu_busy_ratio")


def test_a_phones_gpu_without_our_own_part(watch: Watch, tmp_path: Path) -> None:
    home = tmp_path / "sys/class/kgsl/kgsl-3d0"
    home.mkdir(parents=True)
    (home / "gpubusy").write_text("600000 1000000\n")
    own = [0.0]
    load = watch.gpu(find_all(tmp_path).sensors, lambda: own[0])
    tell(tmp_path, 0)
    watch.read(0.0)
    own[0] = 0.02
    watch.read(0.1)
    assert load().share == pytest.approx(0.4)


def test_the_thread_reads_by_itself() -> None:
    with Watch() as watch:
        load = watch.cores((0,))
        until = time.monotonic() + 60
        while load().share is None and time.monotonic() < until:
            time.sleep(0.02)
        share = load().share
    assert share is not None and 0 <= share <= 1
