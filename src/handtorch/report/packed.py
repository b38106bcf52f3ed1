"""Spans as few bytes: what 200,000 launches take in a page that is to open at once.

A span is three numbers: from the end of the one before it to its start, how long it took, and which
label it has. Numbers are in groups of seven bits, the least first; a set eighth bit says that more
follow. `web/packed.js` reads it."""

from __future__ import annotations

import base64
from collections.abc import Iterable


def packed(spans: Iterable[tuple[int, int, int]]) -> str:
    """(start, end, label) by start, none before the one before it has ended; times from 0 on."""
    out, reached = bytearray(), 0
    for start, end, label in spans:
        for value in (start - reached, end - start, label):
            assert value >= 0, "spans of a row come in order"
            while value > 127:
                out.append(value & 127 | 128)
                value >>= 7
            out.append(value)
        reached = end
    return base64.b64encode(out).decode()
