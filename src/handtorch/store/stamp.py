"""Which program wrote a file, for people who wonder about it later."""

from __future__ import annotations

from importlib import metadata


def made_by() -> str:
    try:
        return f"handtorch {metadata.version('handtorch')}"
    except metadata.PackageNotFoundError:
        return "handtorch from a source tree"
