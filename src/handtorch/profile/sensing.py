"""The sensors of this machine while a profile is taken."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from handtorch import knobs
from handtorch.place.sheet import Sheet
from handtorch.profile.energy.from_sheet import estimated_rows
from handtorch.profile.energy.rows import measured_rows
from handtorch.profile.sampled import Readings
from handtorch.profile.sampling import SEARCH, Sampling
from handtorch.profile.sensed import SAMPLER, sensed_rows
from handtorch.profile.usage import usage_rows
from handtorch.record import Missing, Run
from handtorch.record.row import Provenance, Row

_READY_S = 2.0                          # a sampler is there after some 0.1 s
_REAL = Path("/")


class Sensing:
    """Samples between `start` and `stop`, into a folder of its own that is gone afterwards.

    `sheet` is what the device's parts draw, where no sensor tells. Nothing here stops a profile:
    what goes wrong is a row that says what is missing."""

    def __init__(self, sheet: Sheet | None = None, *, samples: bool = True, find: str = SEARCH,
                 paths: tuple[Path, ...] = ()) -> None:
        self._sheet, self.samples = sheet, samples
        self._root = Path(knobs.value("HANDTORCH_SENSORS"))
        self._find, self._paths = find, paths
        self._folder: Path | None = None
        self._sampling: Sampling | None = None
        self._readings: Readings | None = None
        self._why_not = ""

    def start(self) -> None:
        """Readings come, if they are wanted, or it is known why not."""
        self._readings = None
        if not self.samples:
            return
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="handtorch-"))
        except OSError as e:
            self._why_not = f"no folder for readings: {e.strerror}"
            return
        self._sampling = Sampling(self._folder, root=self._root, find=self._find,
                                  paths=self._paths)
        self._sampling.start()
        self._sampling.ready(_READY_S)

    def stop(self) -> None:
        """No reading comes any more, and those that came are kept."""
        if self._sampling is not None:
            self._sampling.stop()
            self._readings = self._sampling.readings()
            self._sampling = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def hold(self, held: bool) -> None:
        """The sampler's process stands still, or goes on: to tell what it costs."""
        pid = None if self._sampling is None else self._sampling.sampler_pid
        if pid is not None:
            with suppress(OSError):         # it may have died: that is told elsewhere
                os.kill(pid, signal.SIGSTOP if held else signal.SIGCONT)

    @property
    def sampler_pid(self) -> int | None:
        return None if self._sampling is None else self._sampling.sampler_pid

    def rows(self, subject: str) -> Iterator[Row]:
        """Signals, readings, what is missing, and what reading them cost."""
        if self._why_not:
            yield Missing(source=SAMPLER, why=self._why_not)
        if self._readings is not None:
            yield from sensed_rows(self._readings, subject, self._provenance)

    @property
    def _provenance(self) -> Provenance:
        return "measured" if self._root == _REAL else "simulated"

    def worked_out(self, run: Run) -> Iterator[Row]:
        """What follows from the readings and the steps of a run that has both."""
        yield from usage_rows(run)
        yield from measured_rows(run)
        if self._sheet is not None:
            yield from estimated_rows(run, self._sheet)
