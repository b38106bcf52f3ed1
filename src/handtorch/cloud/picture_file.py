"""A picture of the user's, read once."""

from __future__ import annotations

from pathlib import Path

from handtorch.cloud.limits import Limits
from handtorch.errors import BadInput


def read_picture(path: Path, most_bytes: int = Limits().body_bytes) -> bytes:
    """The file's bytes; refuses one that is larger than any server takes."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as e:
        raise BadInput(f"the picture {path} cannot be read", why=e.strerror or str(e)) from e
    if len(data) > most_bytes:
        raise BadInput(f"the picture {path}", why=f"more than {most_bytes} bytes",
                       fix="make it smaller")
    return data
