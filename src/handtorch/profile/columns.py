"""A table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column and a last one of words to the left, figures to the right."""
    all_rows = [tuple(head), *map(tuple, rows)]
    wide = [max(len(r[i]) for r in all_rows) for i in range(len(head))]
    words = {0, *([len(head) - 1] if not head[-1] else [])}
    return "\n".join(
        "  ".join(c.ljust(w) if i in words else c.rjust(w)
                  for i, (c, w) in enumerate(zip(r, wide, strict=True))).rstrip()
        for r in all_rows)
