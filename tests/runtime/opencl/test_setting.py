"""What a run says about software and processor; the rest is tested through a study's run."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.graph.device_spec import GENERIC
from handtorch.record import Device, Software
from handtorch.runtime.opencl import setting
from handtorch.runtime.opencl.discover import FoundDevice


def test_what_is_not_installed_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting, "_PACKAGES", ("numpy", "no-such-package"))
    rows = setting.setting_rows(FoundDevice(GENERIC, "phone", 0, False, None), "failed")
    known, unknown = (r for r in rows if isinstance(r, Software))
    assert known.version
    assert (unknown.version, unknown.version_reason) == (None, "not installed")
    assert [r.self_test for r in rows if isinstance(r, Device)] == ["failed"]


def test_the_processor_is_named_or_a_reason_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self, errors: "model name\t: Fast 9\nx: y\n")
    assert setting._cpu_model() == ("Fast 9", "")
    monkeypatch.setattr(Path, "read_text", lambda self, errors: "Hardware : board\n")
    assert setting._cpu_model() == (None, "/proc/cpuinfo names no model")

    def absent(self: Path, errors: str) -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "read_text", absent)
    assert setting._cpu_model() == (None, "/proc/cpuinfo: No such file or directory")
