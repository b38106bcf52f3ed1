"""A published number and what it is here: it calibrates, it is held out, or it is left out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Tag = Literal["calibration", "held-out", "left-out"]
TAGS: tuple[Tag, ...] = ("calibration", "held-out", "left-out")
_PAPERS = Path(__file__).parent / "papers.toml"


@dataclass(frozen=True)
class Row:
    """`setting` is what the number shares its constants with: a device, threads, a processor.
    `network` is one of `nets.NETS`, or several joined by " + "; `given` are conditions of the
    experiment that a prediction may use."""

    id: str
    source: str
    setting: str
    what: str
    value: float
    unit: str
    tag: Tag
    why: str = ""
    framework: str = ""
    network: str = ""
    derived: bool = False
    given: Mapping[str, float] = field(default_factory=dict)


def paper_rows() -> tuple[Row, ...]:
    """What the four papers print, in the order of the file."""
    read = tomllib.loads(_PAPERS.read_text(encoding="utf-8"))
    rows = []
    for r in read["row"]:
        paper = read["papers"][r["id"].split(".")[0]]
        rows.append(Row(r["id"], f"{paper}, {r['where']}", r["device"], r["what"],
                        float(r["value"]), r["unit"], r["tag"], r.get("why", ""),
                        r.get("framework", ""), r.get("network", ""), r.get("derived", False),
                        r.get("given", {})))
    return tuple(rows)
