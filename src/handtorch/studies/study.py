"""What every study is given, and what a run file says about where the studies ran."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from handtorch.errors import BadInput, nearest
from handtorch.record import RunWriter
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.setting import HOST, SelfTestState, setting_rows
from handtorch.selftest import verdict
from handtorch.studies import STUDIES

__all__ = ["HOST", "Setting", "Study", "options_of", "record_setting", "resumes", "study"]


@dataclass(frozen=True)
class Setting:
    """Where a study runs, how thoroughly, and where its rows go.

    `options` are those of the command line that the study names in OPTIONS, as they were written;
    `kept` is a folder for what a study that RESUMES has measured so far; `found` has what the
    studies before it in this run leave for those after it, by their names."""

    device: FoundDevice
    record: RunWriter
    quick: bool
    progress: Callable[[str], None]
    options: Mapping[str, str] = field(default_factory=dict)
    kept: Path = Path("kept")
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return self.device.label


class Study(Protocol):
    """A module may also have OPTIONS, the options it takes besides those of all, and RESUMES: it
    goes on with what an earlier run into the same file has kept."""

    QUESTION: str

    def run(self, at: Setting) -> str: ...


def options_of(module: Study) -> tuple[str, ...]:
    return cast(tuple[str, ...], getattr(module, "OPTIONS", ()))


def resumes(module: Study) -> bool:
    return bool(getattr(module, "RESUMES", False))


def study(name: str) -> Study:
    """The study's module; refuses a name that is not in the table."""
    if name not in STUDIES:
        raise BadInput(f"no study {name!r}", why=f"there is {', '.join(STUDIES)}",
                       fix=nearest(name, STUDIES, "`handtorch study --list`"))
    return cast(Study, importlib.import_module(STUDIES[name]))


def record_setting(record: RunWriter, device: FoundDevice) -> None:
    """Machine, software, device and places are in the run afterwards.

    The self-test's verdict is the one already known; a study does not wait for a new one."""
    state = cast(SelfTestState, verdict(device, run=False).state)
    record.add(*setting_rows(device, state))
