"""What a long study has kept so far, a line for each row: for who follows it while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from handtorch.studies.kept import VERSION

OTHER_CODE = "kept by other code, and left out"
_MOST = 500
_MOST_BYTES = 4 << 20


def told(folder: Path) -> list[tuple[str, str]]:
    """Key and text of each row, oldest first. A file that is not a row of ours is left out: whoever
    goes on with the study refuses it, not who looks on. Rows of other code than the newest one's
    say so: a run with that one does without them."""
    try:
        found = sorted((p.stat().st_mtime_ns, p) for p in folder.glob("*.json"))
    except OSError:                             # it was just removed
        return []
    files = [(path.stem, _file(path)) for _, path in found[-_MOST:]]
    rows = [(key, file) for key, file in files if file is not None]
    newest = rows[-1][1].get("code") if rows else None
    return [(key, _text(file["row"]) if file.get("code") == newest else OTHER_CODE)
            for key, file in rows]


def _file(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    ours = isinstance(told, dict) and told.get("version") == VERSION
    return told if ours and told.get("row") is not None else None


def _text(row: Any) -> str:
    """The figure that tells most of it: samples a second, accuracy, bytes."""
    match row:
        case {"state": "measured", "batch": int(batch), "step_s": [*seconds]} if _numbers(seconds):
            return f"{batch / median(seconds):,.0f} samples/s"
        case {"state": "failed" | "not run" as state, "reason": str(reason)}:
            return f"{state}: {reason}"
        case {"days": [*days]} if days and isinstance(days[-1], Mapping):
            held = days[-1].get("held_out")
            return f"held-out accuracy {held:.1%}" if isinstance(held, float) else ""
        case {"held_bytes": int(held)}:
            return f"planned, {held / 1e6:,.1f} MB"
    return ""


def _numbers(values: list[Any]) -> bool:
    return bool(values) and all(type(v) in (int, float) and v > 0 for v in values)
