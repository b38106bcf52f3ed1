"""Pages on disk: of one run, or of several beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handtorch.errors import BadInput
from handtorch.record import Run
from handtorch.report.compare import render_comparison
from handtorch.report.page import render
from handtorch.report.whole import write_whole


def write_page(run: Run, path: str | Path) -> Path:
    """The page is at `path` afterwards, whole or not at all; an older page there is replaced."""
    return write_whole(Path(path), "page", (render(run).encode(),))


def write_comparison(runs: Sequence[Run], path: str | Path, names: Sequence[str] = ()) -> Path:
    """As `write_page`, of two runs or more; `names` are what they are called, in their order."""
    if len(runs) < 2 or (names and len(names) != len(runs)):
        raise BadInput(f"a comparison of {len(runs)} runs under {len(names)} names",
                       why="it takes two runs or more, and a name for each or none",
                       fix="handtorch report BEFORE.htr AFTER.htr")
    return write_whole(Path(path), "page", (render_comparison(runs, names).encode(),))
