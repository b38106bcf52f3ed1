"""Rows as a run, and a run as a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from handtorch.record import Run, RunInfo, RunWriter
from handtorch.record.row import Row
from handtorch.record.rows import CHILDREN


def as_run(info: RunInfo, rows: Iterable[Row]) -> Run:
    """Rows of all tables, in the order they come, as one run."""
    of_kind: dict[type[Row], list[Any]] = {kind: [] for kind in CHILDREN.values()}
    for row in rows:
        of_kind[type(row)].append(row)
    tables = {name: tuple(of_kind[kind]) for name, kind in CHILDREN.items()}
    machine = tables.pop("machine")
    return Run(info=info, machine=machine[0] if machine else None, **tables)


def write_run(run: Run, path: str | os.PathLike[str]) -> None:
    """`path` is a run file with all of it, its start and length included; one that is there is
    refused."""
    with RunWriter.of_past(Path(path), run.info) as writer:
        if run.machine is not None:
            writer.add(run.machine)
        for table in CHILDREN:
            if table != "machine":
                writer.add(*getattr(run, table))
