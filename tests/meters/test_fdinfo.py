"""GPU time of one process; files from drm-usage-stats.rst, none was recorded yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handtorch.meters import fdinfo
from handtorch.meters.signal import FAST_NS
from tests.meters.trees import plant, reasons, signal, values

HOME = "proc/42/fdinfo"
PANFROST = """\
pos:\t0
flags:\t02100002
drm-driver:\tpanfrost
drm-client-id:\t3
drm-engine-fragment:\t1846584880 ns
drm-cycles-fragment:\t1424359409
drm-maxfreq-fragment:\t799999987 Hz
drm-curfreq-fragment:\t799999987 Hz
drm-engine-vertex-tiler:\t71932239 ns
drm-resident-memory:\t51068 KiB
"""
I915 = """\
drm-driver:\ti915
drm-pdev:\t0000:00:02.0
drm-client-id:\t7
drm-engine-render:\t9288864723 ns
drm-engine-capacity-video:\t2
"""


def test_engines_clock_and_memory(tmp_path: Path) -> None:
    """Descriptors 5 and 6 are copies of one opening; 1 is no GPU."""
    plant(tmp_path, {f"{HOME}/1": "pos:\t0\n", f"{HOME}/5": PANFROST, f"{HOME}/6": PANFROST})
    found = fdinfo.find(tmp_path, 42)
    assert values(found) == {
        "panfrost_fragment_busy_s": 1.84658488, "panfrost_vertex_tiler_busy_s": 0.071932239,
        "panfrost_fragment_clock_hz": 799999987.0, "panfrost_memory_resident_bytes": 51068 * 1024,
    }  # fmt: skip
    busy = signal(found, "panfrost_fragment_busy_s")
    assert (busy.kind, busy.part, busy.every_ns, busy.basis) == (
        "counter", "gpu", FAST_NS, "documented")  # fmt: skip
    assert busy.where == "/proc/42/fdinfo/5" and found.absent == ()


def test_two_openings(tmp_path: Path) -> None:
    other = I915.replace("7\n", "8\n", 1)
    plant(tmp_path, {f"{HOME}/5": I915, f"{HOME}/6": other})
    assert set(values(fdinfo.find(tmp_path, 42))) == {
        "i915_client7_render_busy_s", "i915_client8_render_busy_s"}  # fmt: skip


def test_a_number_that_was_given_to_another_file(tmp_path: Path) -> None:
    found = fdinfo.find(plant(tmp_path, {f"{HOME}/5": I915}), 42)
    (sensor,) = found.sensors
    assert sensor.read() == [9.288864723]
    plant(tmp_path, {f"{HOME}/5": "pos:\t0\n"})
    assert sensor.read() == ["the process has closed the GPU"]
    plant(tmp_path, {f"{HOME}/5": I915.replace("drm-engine-render", "drm-engine-copy")})
    assert sensor.read() == ["no longer tells drm-engine-render"]
    sensor.close()


@pytest.mark.parametrize(("driver", "fix"), [
    ("panfrost", "write 1 to the file `profiling` of the GPU's driver"), ("v3d", "")])  # fmt: skip
def test_a_driver_that_does_not_count(tmp_path: Path, driver: str, fix: str) -> None:
    plant(tmp_path, {f"{HOME}/5": f"drm-driver:\t{driver}\ndrm-client-id:\t3\n"})
    (absent,) = fdinfo.find(tmp_path, 42).absent
    assert absent.why == f"/{HOME}/5: {driver} does not count the time of its engines"
    assert absent.fix == fix


def test_another_unit(tmp_path: Path) -> None:
    plant(tmp_path, {f"{HOME}/5": I915.replace("9288864723 ns", "9288864723 ticks")})
    assert reasons(fdinfo.find(tmp_path, 42)) == [
        f"/{HOME}/5: says '9288864723 ticks', in an unknown unit"]  # fmt: skip


def test_absent(tmp_path: Path) -> None:
    assert reasons(fdinfo.find(tmp_path, 42)) == [f"no /{HOME}"]
    assert reasons(fdinfo.find(Path("/"), os.getpid())) == [
        f"/proc/{os.getpid()}/fdinfo has no GPU open that counts its use"]  # fmt: skip
