"""Sources of batches for the process that makes them ahead: quick, slow, dying, wrong."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from handtorch.errors import BadFile

NAME = "tests.zoo.data.sources:open_source"


@dataclass(frozen=True)
class Numbered:
    """Batch k is full of k; at batch `at` happens what `then` names."""

    then: str
    at: int
    sleep_s: float
    source: str = "numbered"

    def batch(self, index: int) -> tuple[Any, ...]:
        if index == self.at:
            if self.then == "raise":
                raise BadFile("a.bin cannot be used", why="at byte 7: oh", fix="another")
            if self.then == "bug":
                raise ZeroDivisionError("of our own")
            if self.then == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.then == "exit":
                os._exit(3)
            if self.then == "hang":
                time.sleep(600)
            if self.then == "grow":
                return np.zeros((4, 5), np.float32), np.zeros(3, np.int64)
        time.sleep(self.sleep_s)
        return (np.full((3, 5), index, np.float32), np.arange(index, index + 3))


def open_source(then: str = "", at: int = 0, sleep_s: float = 0.0) -> Numbered:
    return Numbered(then, at, sleep_s)
