"""What every study is given, and what a run file says about where the studies ran."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from handtorch.errors import BadInput
from handtorch.record import RunWriter
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.setting import HOST, SelfTestState, setting_rows
from handtorch.selftest import verdict
from handtorch.studies import STUDIES

__all__ = ["HOST", "Setting", "Study", "record_setting", "study"]


@dataclass(frozen=True)
class Setting:
    """Where a study runs, how thoroughly, and where its rows go."""

    device: FoundDevice
    record: RunWriter
    quick: bool
    progress: Callable[[str], None]

    @property
    def place(self) -> str:
        return self.device.label


class Study(Protocol):
    QUESTION: str

    def run(self, at: Setting) -> str: ...


def study(name: str) -> Study:
    """The study's module; refuses a name that is not in the table."""
    if name not in STUDIES:
        raise BadInput(f"no study {name!r}", why=f"there is {', '.join(STUDIES)}",
                       fix="`handtorch study --list`")
    return cast(Study, importlib.import_module(STUDIES[name]))


def record_setting(record: RunWriter, device: FoundDevice) -> None:
    """Machine, software, device and places are in the run afterwards.

    The self-test's verdict is the one already known; a study does not wait for a new one."""
    state = cast(SelfTestState, verdict(device, run=False).state)
    record.add(*setting_rows(device, state))
