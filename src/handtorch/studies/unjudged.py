"""How a terminal shows times that nobody judges: a line below the table, and a mark behind each
ratio that was made of them."""

from __future__ import annotations

from handtorch.baseline.fair import MOST_OTHERS
from handtorch.record.beside import beside

_MARK = " *"


def note(others: float | None) -> str:
    """The line below a table; empty where the machine was quiet, or does not tell."""
    if others is None or others <= MOST_OTHERS:
        return ""
    return f"{beside(round(100 * others))}.\n"


def mark(others: float | None) -> str:
    """What stands behind a ratio; `marked` tells below the table what it means."""
    return _MARK if note(others) else ""


def marked(others: float | None) -> str:
    """The line below a table with marks."""
    return f"({_MARK.strip()}) {note(others)}" if note(others) else ""
