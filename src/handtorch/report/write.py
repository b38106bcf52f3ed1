"""Pages on disk: of one run, or of several beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handtorch.record import Run
from handtorch.report.page import render
from handtorch.report.whole import write_whole


def write_page(run: Run, path: str | Path) -> Path:
    """The page is at `path` afterwards, whole or not at all; an older page there is replaced."""
    return write_whole(Path(path), "page", (render(run).encode(),))
